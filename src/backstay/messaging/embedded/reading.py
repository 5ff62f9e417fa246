"""Reads that are asked for in the same turn of the event loop are made together.

A pipeline reads many partitions, and while little is behind each of them gives an event or two: a hop to
another thread and back, and two statements, would then cost more than all else that is done with those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from backstay.domain.stream import READ_BYTES_MAX, EventRecord, Slice
from backstay.errors import BackstayError, OffsetAhead, UnknownStream
from backstay.messaging.embedded.rows import as_json, base_of, event_records
from backstay.messaging.embedded.tables import Tables
from backstay.sql.sqlite.readers import Readers

_decode_bounds: Final = msgspec.json.Decoder(list[tuple[int, int, int] | None]).decode


class Wanted(NamedTuple):
    """A part of a partition."""

    stream: str
    partition: int
    start: int
    limit: int
    bytes_max: int


class Range(NamedTuple):
    """Where that is, from the first place on up to, and without, the last; nothing where both are one."""

    first: int
    stop: int
    bytes_max: int


Answer = Slice | BackstayError
Asked = tuple[Wanted, asyncio.Future[Slice]]


class Reads:
    """All reads of one log."""

    def __init__(self, readers: Readers[Tables]) -> None:
        self._readers = readers
        self._loop = asyncio.get_running_loop()
        self._asked: list[Asked] = []
        self._under_way: set[asyncio.Task[list[Answer]]] = set()

    async def read(self, wanted: Wanted) -> Slice:
        """Raises UnknownStream, OffsetAhead, Unavailable."""
        future: asyncio.Future[Slice] = self._loop.create_future()
        self._asked.append((wanted, future))
        if len(self._asked) == 1:
            self._loop.call_soon(self._begin)
        return await future

    def _begin(self) -> None:
        asked, self._asked = self._asked, []
        for lot in _lots(asked):
            look = partial(look_for, [wanted for wanted, _ in lot])
            reading = self._loop.create_task(self._readers.read(look), name="backstay-reads")
            self._under_way.add(reading)
            reading.add_done_callback(partial(self._settle, lot))

    def _settle(self, lot: Sequence[Asked], reading: asyncio.Task[list[Answer]]) -> None:
        self._under_way.discard(reading)
        for future, answer in zip([one for _, one in lot], _answers(reading, len(lot)), strict=True):
            if future.done():
                continue  # The caller no longer waits.
            if answer is None:
                future.cancel()
            elif isinstance(answer, Slice):
                future.set_result(answer)
            else:
                future.set_exception(answer)


def _lots(asked: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """What is read together: no more bytes than one read alone may give, so that what is large goes alone."""
    begin = size = 0
    for end, (wanted, _) in enumerate(asked):
        if end > begin and size + wanted.bytes_max > READ_BYTES_MAX:
            yield asked[begin:end]
            begin, size = end, 0
        size += wanted.bytes_max
    yield asked[begin:]


def _answers(reading: asyncio.Task[list[Answer]], number: int) -> Sequence[Slice | BaseException | None]:
    """One for each; all the same when the whole lot failed, and None when the loop is ending."""
    if reading.cancelled():
        return [None] * number
    error = reading.exception()
    return reading.result() if error is None else [error] * number


# In a thread that reads


def look_for(wanted: Sequence[Wanted], tables: Tables) -> list[Answer]:
    """What there is of each of these: one statement tells where that is, and another one what."""
    [bounds] = tables.one("find_partitions", wanted=as_json([one[:2] for one in wanted]))
    answers: list[Answer] = []
    ranges: dict[int, Range] = {}
    for number, (one, bound) in enumerate(zip(wanted, _decode_bounds(bounds), strict=True)):
        answers.append(_judged(one, bound))
        if bound is not None and (found := _range(one, *bound)) is not None:
            ranges[number] = found
    for number, events in _events(tables, wanted, ranges):
        if events:
            answers[number] = Slice(events, events[-1].offset + 1)
        else:  # Forgotten between the two statements: there is a new beginning.
            [answers[number]] = look_for([wanted[number]], tables)
    return answers


def _judged(one: Wanted, bound: tuple[int, int, int] | None) -> Answer:
    """The answer, unless there are events."""
    if bound is None:
        return UnknownStream(one.stream, partition=one.partition)
    _, first, end = bound
    if one.start > end:
        return OffsetAhead(one.stream, one.partition, offset=one.start, end=end)
    return Slice([], max(one.start, first))


def _range(one: Wanted, key: int, first: int, end: int) -> Range | None:
    begin = max(one.start, first)
    # No offset in between is left out, so that many offsets are as many events.
    stop = min(end, begin + one.limit)
    return Range(base_of(key) + begin, base_of(key) + stop, one.bytes_max) if begin < stop else None


def _events(
    tables: Tables, wanted: Sequence[Wanted], ranges: dict[int, Range]
) -> Iterator[tuple[int, list[EventRecord]]]:
    if not ranges:
        return
    rows, bodies = tables.one("read_events", wanted=as_json([*ranges.values()]))
    partitions = [wanted[number].partition for number in ranges]
    yield from zip(ranges, event_records(partitions, rows, bodies or b""), strict=True)
