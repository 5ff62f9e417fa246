"""A stream called orders, as whoever speaks HTTP sees it."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import msgspec

from tests.support.serving import Answer, Served

EVENTS = "/v1/streams/orders/events"
NDJSON = {"Content_Type": "application/x-ndjson"}


async def sent(served: Served, body: Any = None, query: str = "", **headers: str) -> Any:
    answer = await served.post(f"{EVENTS}{query}", body, **headers)
    assert answer.status == 202, answer
    return answer.json


async def sent_lines(served: Served, *lines: Any) -> Answer:
    written = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    return await served.post(EVENTS, data=BytesIO(b"\n".join(written)), **NDJSON)
