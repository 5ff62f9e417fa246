"""Events into the embedded log and out of it: one at a time by many at once, in batches, and read."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from backstay.clock import SystemClock
from backstay.domain.stream import READ_BYTES_MAX, NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from backstay.runtime.interpreter import set_up_for_roles
from bench.databases import sqlite
from bench.load import Size, crowd, in_fresh_loop
from bench.options import Options
from bench.points import Point, milliseconds, percentile
from bench.progress import say

BODY: Final = msgspec.json.encode(
    {"order": 7, "customer": "c9", "lines": [{"sku": "a-1", "count": 2}], "note": "x" * 100}
)
STREAM: Final = Stream(name="orders")
KEYS: Final = 1_000
READ_EVENTS: Final = 200_000
READS: Final = (100, 1_000, 10_000)
SHORT_READ_EVENTS: Final = 100
SHORT_READS: Final = (10,)


class Load(NamedTuple):
    """So many events by so many callers at a time, each of whom awaits its own append of so many."""

    callers: int
    events_each: int
    events: int
    ids: bool = False


LOADS: Final = (
    Load(1, 1, 1_000),
    Load(100, 1, 40_000),
    Load(1_000, 1, 100_000),
    Load(1_000, 1, 100_000, ids=True),
    Load(4, 100, 200_000),
    Load(4, 1_000, 500_000),
    Load(4, 1_000, 500_000, ids=True),
    Load(2, 10_000, 500_000),
)
SHORT_LOADS: Final = (Load(1, 1, 5), Load(10, 1, 40, ids=True), Load(2, 10, 100))


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of one append, or of one read."""

    work: str
    callers: int
    events_each: int
    events: int
    events_per_second: float
    p50_ms: float
    p99_ms: float


def measure(_stores: Sequence[str], options: Options) -> Iterator[Rate]:
    with sqlite() as database, set_up_for_roles():
        for number, load in enumerate(SHORT_LOADS if options.short else LOADS):
            work = "append with ids" if load.ids else "append"
            say(f"    {work}: {load.callers:,} callers, {load.events_each:,} events each")
            point = in_fresh_loop(_appends(database.folder / f"append-{number}.db", load))
            yield Rate(
                work=work,
                callers=load.callers,
                events_each=load.events_each,
                events=point.tasks * load.events_each,
                events_per_second=round(point.per_second * load.events_each, 1),
                p50_ms=point.p50_ms,
                p99_ms=point.p99_ms,
            )
        events = SHORT_READ_EVENTS if options.short else READ_EVENTS
        for limit in SHORT_READS if options.short else READS:
            say(f"    reads of {limit:,}")
            taken = sorted(in_fresh_loop(_reads(database.folder / f"read-{limit}.db", events, limit)))
            yield Rate(
                work="read",
                callers=1,
                events_each=limit,
                events=events,
                events_per_second=round(events / sum(taken), 1),
                p50_ms=milliseconds(percentile(taken, 50)),
                p99_ms=milliseconds(percentile(taken, 99)),
            )


async def _appends(path: Path, load: Load) -> Point:
    clock, numbers = SystemClock(), itertools.count()
    async with _log(path) as log:

        async def one() -> None:
            events = [
                NewEvent(body=BODY, key=f"c{number % KEYS}", id=f"event-{number:032}" if load.ids else None)
                for number in itertools.islice(numbers, load.events_each)
            ]
            await log.append(STREAM.name, events, now=clock.now())

        return await crowd(one, Size(load.events // load.events_each, load.callers))


async def _reads(path: Path, number: int, limit: int) -> list[float]:
    """The seconds of each read, one partition after the other, until everything was read."""
    async with _log(path) as log:
        for begin in range(0, number, 1_000):
            events = [
                NewEvent(body=BODY, key=f"c{one % KEYS}") for one in range(begin, min(begin + 1_000, number))
            ]
            await log.append(STREAM.name, events, now=SystemClock().now())
        seconds, left = [], number
        for partition in range(STREAM.partitions):
            start = 0
            while True:
                begun = time.perf_counter()
                found = await log.read(
                    STREAM.name, partition, start=start, limit=limit, bytes_max=READ_BYTES_MAX
                )
                if not found.events:
                    break
                seconds.append(time.perf_counter() - begun)
                start = found.next
                left -= len(found.events)
        if left:
            raise RuntimeError(f"{left:,} of {number:,} events were never read")
        return seconds


@asynccontextmanager
async def _log(path: Path) -> AsyncIterator[EmbeddedLog]:
    log = EmbeddedLog(f"sqlite:///{path}")
    await log.open()
    try:
        await log.declare(STREAM, now=SystemClock().now())
        yield log
    finally:
        await log.close()
