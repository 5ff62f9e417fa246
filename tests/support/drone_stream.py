"""A stream of the drone delivery as an operator sees it, and as anybody may append to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.support.serving import Answer

REQUESTS = "delivery-requests"
HAPPENINGS = "delivery-events"
SCHEDULER = "scheduler"
OPERATIONS = "operations"


@dataclass(frozen=True, slots=True)
class RequestStream:
    """``ask`` sends a request to the server: method, path, and what ``DronePlatform.ask`` takes."""

    ask: Callable[..., Awaitable[Answer]]
    name: str = REQUESTS

    @property
    def _path(self) -> str:
        return f"/v1/streams/{self.name}"

    async def events(self) -> int:
        """How many it holds; nothing is ever removed while a test runs."""
        standing = await self._standing()
        return sum(one["end"] - one["first"] for one in standing["partitions"])

    async def lag(self, group: str) -> int:
        """How many events a group has yet to pass."""
        standing = await self._standing()
        behind = {one["partition"]: one["lag"] for one in standing["groups"] if one["group"] == group}
        # One that was never read for the group is yet to pass as a whole.
        return sum(behind.get(one["partition"], one["end"] - one["first"]) for one in standing["partitions"])

    async def events_of(self, delivery_id: str) -> list[Any]:
        """The bodies of the events under this key, in order."""
        found = []
        for one in (await self._standing())["partitions"]:
            page = await self.ask("GET", f"{self._path}/partitions/{one['partition']}/events?limit=1000")
            assert page.status == 200, page
            found += [event["body"] for event in page.json["items"] if event["key"] == delivery_id]
        return found

    async def append(self, body: Any, *, key: str) -> int:
        """Anything at all; the partition that it went to."""
        answer = await self.ask("POST", f"{self._path}/events?key={key}", body)
        assert answer.status == 202, answer
        return int(answer.json["partition"])

    async def append_many(self, number: int, *, key: str) -> None:
        """So many events of one key that nobody understands, at once."""
        line = msgspec.json.encode({"body": "nonsense", "key": key}) + b"\n"
        answer = await self.ask(
            "POST", f"{self._path}/events", data=line * number, Content_Type="application/x-ndjson"
        )
        assert (answer.status, answer.json["accepted"]) == (202, number), answer

    async def quarantine(self, group: str) -> list[Any]:
        answer = await self.ask("GET", f"{self._path}/quarantine?group={group}")
        assert answer.status == 200, answer
        items: list[Any] = answer.json["items"]
        return items

    async def _standing(self) -> Any:
        answer = await self.ask("GET", self._path)
        assert answer.status == 200, answer
        return answer.json
