"""Somebody who calls the services of the drone delivery over HTTP, and what they take."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from tests.support.drone_services import Services

HERE = {"altitude": 10.0, "latitude": 52.5, "longitude": 13.4}
NEAR = {"altitude": 10.0, "latitude": 52.6, "longitude": 13.5}
FAR = {"altitude": 10.0, "latitude": 48.1, "longitude": 11.6}
OWNER = {"userId": "user-1", "accountId": "account-1"}

#: Where each service keeps things by id, and something that it takes.
THINGS = {
    "package": "/api/packages/",
    "third-party": "/api/thirdpartydeliveries/",
    "drone": "/api/dronedeliveries/",
    "delivery": "/api/deliveries/",
}

_numbers = count()


def new_id() -> str:
    return f"id-{next(_numbers)}"


def thing(name: str, id: str, /, **changes: Any) -> dict[str, Any]:
    """Something that the service called ``name`` takes under this id."""
    contents: dict[str, dict[str, Any]] = {
        "package": {"id": id, "size": "small", "weight": 2.5, "tag": "fragile"},
        "third-party": {"pickup": HERE, "dropoff": NEAR},
        "drone": {
            "deliveryId": id,
            "pickup": HERE,
            "dropoff": NEAR,
            "expedited": True,
            "packageDetail": {"id": f"package-of-{id}", "size": "large"},
        },
        "delivery": {
            "id": id,
            "owner": OWNER,
            "pickup": HERE,
            "dropoff": NEAR,
            "pickupTime": "noon",
            "deadline": "tonight",
            "expedited": False,
            "confirmationRequired": "FingerPrint",
            "droneId": "drone-1",
        },
    }
    return contents[name] | changes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def detail(self) -> str:
        """What the problem says that this answer is."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        assert self.json.keys() == {"type", "title", "status", "detail"}, self
        assert self.json["status"] == self.status
        return str(self.json["detail"])


@dataclass
class Caller:
    """Somebody who calls the services."""

    services: Services

    async def ask(
        self, name: str, method: str, path: str, body: Any = msgspec.UNSET, *, key: str | None = None
    ) -> Answer:
        data = (
            None if body is msgspec.UNSET else body if isinstance(body, bytes) else msgspec.json.encode(body)
        )
        headers = {} if key is None else {"Idempotency-Key": key}
        async with self.services.session.request(
            method, f"{self.services.url(name)}{path}", data=data, headers=headers
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def put(self, name: str, id: str, /, *, key: str | None = None, **changes: Any) -> Answer:
        return await self.ask(name, "PUT", THINGS[name] + id, thing(name, id, **changes), key=key)

    async def get(self, name: str, id: str, part: str = "") -> Answer:
        return await self.ask(name, "GET", f"{THINGS[name]}{id}{part}")

    async def delete(self, name: str, id: str, *, key: str | None = None) -> Answer:
        return await self.ask(name, "DELETE", THINGS[name] + id, key=key)

    @asynccontextmanager
    async def disturbed(self, name: str, **dial: Any) -> AsyncIterator[None]:
        await self.services.turn(name, **dial)
        try:
            yield
        finally:
            await self.services.turn(name)


def stages_of(services: Services, thing_id: str) -> list[str]:
    query = "SELECT stage FROM event WHERE delivery_id = ? ORDER BY number"
    with closing(sqlite3.connect(services.folder / "delivery.db")) as connection:
        return [stage for (stage,) in connection.execute(query, (thing_id,))]
