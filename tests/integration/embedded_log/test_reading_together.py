"""Reads that are asked for in one turn of the event loop are made together, and answered each by itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from backstay.domain.stream import READ_BYTES_MAX, Slice
from backstay.errors import BackstayError, Closed, OffsetAhead, UnknownStream
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.stream import Log
from backstay.sql.sqlite.readers import READERS
from backstay.testing.promises.feed import MANY, MEGABYTE, Feed

PARTITIONS = range(4)


def connections_of(log: Log) -> list[sqlite3.Connection]:
    """Those of the threads that have read so far."""
    assert isinstance(log, EmbeddedLog)
    assert log._readers is not None
    return [*log._readers._connections]


async def everybody_has_read(feed: Feed) -> None:
    while len(connections_of(feed.log)) < READERS:
        await asyncio.gather(*(read(feed, partition, bytes_max=READ_BYTES_MAX) for partition in PARTITIONS))


@contextmanager
def statements(log: Log) -> Iterator[list[str]]:
    """What those who read run meanwhile."""
    seen: list[str] = []
    connections = connections_of(log)
    for connection in connections:
        connection.set_trace_callback(seen.append)
    yield seen
    for connection in connections:
        connection.set_trace_callback(None)


async def read(
    feed: Feed, partition: int, *, start: int = 0, limit: int = MANY, bytes_max: int = MEGABYTE
) -> Slice:
    return await feed.log.read("rides", partition, start=start, limit=limit, bytes_max=bytes_max)


async def filled(feed: Feed, events: int) -> dict[int, list[object]]:
    """The bodies that each partition holds, once events of many keys were appended."""
    bodies: dict[int, list[object]] = {partition: [] for partition in PARTITIONS}
    placed = await feed.put_all(*(feed.new(number, key=f"k{number}") for number in range(events)))
    for number, appended in enumerate(placed):
        bodies[appended.partition].append(str(number).encode())
    return bodies


async def test_each_partition_gives_what_is_its_own(feed: Feed):
    bodies = await filled(feed, 100)

    found = await asyncio.gather(*(read(feed, partition) for partition in PARTITIONS))

    assert {number: [one.body for one in part.events] for number, part in enumerate(found)} == bodies
    assert [{one.partition for one in part.events} for part in found] == [{one} for one in PARTITIONS]


async def test_many_reads_are_a_few_statements(feed: Feed):
    await filled(feed, 100)
    await everybody_has_read(feed)

    with statements(feed.log) as ran:
        await asyncio.gather(*(read(feed, partition) for partition in PARTITIONS for _ in range(2)))

    assert len(ran) == 2


async def test_together_they_are_no_larger_than_one_that_is_made_alone(feed: Feed):
    bodies = await filled(feed, 100)
    await everybody_has_read(feed)

    with statements(feed.log) as ran:
        found = await asyncio.gather(
            *(read(feed, partition, bytes_max=READ_BYTES_MAX // 2 + 1) for partition in PARTITIONS)
        )

    assert len(ran) == 2 * len(PARTITIONS)
    assert {number: [one.body for one in part.events] for number, part in enumerate(found)} == bodies


async def test_the_same_partition_is_read_from_several_offsets_at_once(feed: Feed):
    for number in range(10):
        await feed.put(number, key="k")
    [partition] = [one for one in PARTITIONS if await feed.read(one)]

    found = await asyncio.gather(*(read(feed, partition, start=start, limit=2) for start in range(9)))

    assert [[one.offset for one in part.events] for part in found] == [
        [start, start + 1] for start in range(9)
    ]
    assert [part.next for part in found] == [start + 2 for start in range(9)]


async def test_each_read_has_its_own_limits(feed: Feed):
    await feed.put_all(*(feed.new("x" * 98, key="k") for _ in range(10)))
    [partition] = [one for one in PARTITIONS if await feed.read(one)]

    few, small, tiny, none = await asyncio.gather(
        read(feed, partition, limit=3),
        read(feed, partition, bytes_max=500),
        read(feed, partition, start=4, bytes_max=1),
        read(feed, partition, start=5, limit=0),
    )

    assert [len(part.events) for part in (few, small, tiny, none)] == [3, 5, 1, 0]
    assert [part.next for part in (few, small, tiny, none)] == [3, 5, 5, 5]


async def test_what_cannot_be_read_fails_alone(feed: Feed):
    await filled(feed, 10)

    answers = await asyncio.gather(
        read(feed, 0),
        read(feed, 1, start=1_000),
        feed.log.read("nothing", 0, start=0, limit=MANY, bytes_max=MEGABYTE),
        read(feed, 99),
        read(feed, 2),
        return_exceptions=True,
    )

    kinds = [type(answer) for answer in answers]
    assert kinds == [Slice, OffsetAhead, UnknownStream, UnknownStream, Slice]


async def test_what_was_forgotten_is_skipped_for_those_who_ask_for_it(feed: Feed):
    await feed.put_all(*(feed.new(number, key="k") for number in range(10)))
    [partition] = [one for one in PARTITIONS if await feed.read(one)]
    feed.clock.pass_time((await feed.standing()).stream.retention * 2)
    assert await feed.log.trim("rides", {partition: 5}, now=feed.now, limit=100)

    old, new = await asyncio.gather(read(feed, partition, limit=2), read(feed, partition, start=8))

    assert [[one.offset for one in part.events] for part in (old, new)] == [[5, 6], [8, 9]]


async def test_who_no_longer_waits_leaves_the_others_their_answers(feed: Feed):
    bodies = await filled(feed, 100)
    reads = [asyncio.create_task(read(feed, partition)) for partition in PARTITIONS]
    await asyncio.sleep(0)

    reads[0].cancel()
    answers = await asyncio.gather(*reads, return_exceptions=True)

    assert isinstance(answers[0], asyncio.CancelledError)
    for partition in (1, 2, 3):
        found = answers[partition]
        assert isinstance(found, Slice)
        assert [one.body for one in found.events] == bodies[partition]


async def test_whoever_asks_while_the_log_is_closed_is_answered(feed: Feed):
    await filled(feed, 10)

    reads = [asyncio.create_task(read(feed, partition)) for partition in PARTITIONS]
    await asyncio.sleep(0)
    assert isinstance(feed.log, EmbeddedLog)
    await feed.log.close()

    async with asyncio.timeout(10):
        answers = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(answer, (Slice, BackstayError)) for answer in answers)
    await assert_closed(feed)


async def assert_closed(feed: Feed) -> None:
    try:
        await read(feed, 0)
    except Closed:
        return
    raise AssertionError("a closed log was read")
