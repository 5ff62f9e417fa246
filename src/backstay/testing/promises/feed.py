"""A producer and a reader as far as a log can see them: what the tests act through."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from backstay.domain.stream import Appended, EventRecord, NewEvent, PartitionStanding, Stream, StreamStanding
from backstay.errors import BackstayError
from backstay.messaging.stream import Log
from backstay.testing.clock import ManualClock

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
MANY: Final = 1_000
MEGABYTE: Final = 1024 * 1024


class Feed:
    """Declares, appends and reads, in the stream ``rides`` unless another is named."""

    def __init__(self, log: Log, clock: ManualClock) -> None:
        self.log = log
        self.clock = clock

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def declare(self, name: str = "rides", **terms: Any) -> bool:
        return await self.log.declare(Stream(name=name, **{"partitions": 4, **terms}), now=self.now)

    def new(self, body: Any = None, **fields: Any) -> NewEvent:
        return NewEvent(body=msgspec.json.encode(body), **fields)

    async def append(self, *events: NewEvent, to: str = "rides") -> list[Appended | BackstayError]:
        return await self.log.append(to, events, now=self.now)

    async def put(self, body: Any = None, *, to: str = "rides", **fields: Any) -> Appended:
        """Append one event; where it is."""
        [placed] = await self.put_all(self.new(body, **fields), to=to)
        return placed

    async def put_all(self, *events: NewEvent, to: str = "rides") -> list[Appended]:
        """Append events of which none is refused."""
        placed = []
        for answer in await self.append(*events, to=to):
            if isinstance(answer, BackstayError):
                raise answer
            placed.append(answer)
        return placed

    async def standing(self, name: str = "rides") -> StreamStanding:
        [standing] = await self.log.standings(names=[name], limit=1)
        return standing

    async def partition(self, number: int, name: str = "rides") -> PartitionStanding:
        standing = await self.standing(name)
        return next(one for one in standing.partitions if one.partition == number)

    async def read(
        self,
        partition: int,
        *,
        name: str = "rides",
        start: int | None = None,
        limit: int = MANY,
        bytes_max: int = MEGABYTE,
    ) -> list[EventRecord]:
        """Of a partition what one read gives, from its first event on if nothing else is said."""
        begin = (await self.partition(partition, name)).first if start is None else start
        found = await self.log.read(name, partition, start=begin, limit=limit, bytes_max=bytes_max)
        return found.events

    async def everything(self, name: str = "rides") -> list[EventRecord]:
        """All events, partition by partition."""
        standing = await self.standing(name)
        return [event for one in standing.partitions for event in await self.read(one.partition, name=name)]

    async def bodies(self, name: str = "rides") -> list[Any]:
        """What all events say, in no particular order of partitions."""
        return [body_of(event) for event in await self.everything(name)]

    async def trim(
        self, floors: Mapping[int, int] | None = None, *, name: str = "rides", limit: int = MANY
    ) -> int:
        return await self.log.trim(name, floors or {}, now=self.now, limit=limit)


def body_of(event: EventRecord) -> Any:
    return msgspec.json.decode(event.body)


class LogPromises:
    """What every test stands on. A subclass provides the fixture ``log``: open, and empty."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def feed(self, log: Log, clock: ManualClock) -> Feed:
        """With a stream called rides, of four partitions."""
        feed = Feed(log, clock)
        await feed.declare()
        return feed
