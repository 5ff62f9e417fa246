"""A queue called orders, as whoever speaks HTTP sees it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.serving import Answer, Served

LOCK = timedelta(seconds=60)


async def sent(served: Served, body: Any = None, **fields: Any) -> Any:
    answer = await served.post("/v1/queues/orders/messages", {"body": body, **fields})
    assert answer.status == 201, answer
    return answer.json


async def received(served: Served, query: str = "?max=10") -> list[Any]:
    answer = await served.post(f"/v1/queues/orders/receive{query}")
    assert answer.status == 200, answer
    items: list[Any] = answer.json["items"]
    return items


async def settled(served: Served, message: Any, how: str, **said: Any) -> Answer:
    path = f"/v1/queues/orders/messages/{message['id']}/{how}"
    return await served.post(path, {"lock_token": message["lock_token"], **said})
