"""Events that come as lines of JSON: judged, appended, and told what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import msgspec

from backstay.domain.ndjson import BadLine, Judged, judged
from backstay.domain.stream import Appended
from backstay.errors import BackstayError, InvalidRequest, Unavailable
from backstay.messaging.streams import Streams

#: Of one request, in lines and in bytes.
LINES_MAX: Final = 100_000
LINES_BYTES_MAX: Final = 16 * 1024 * 1024
#: So many lines that were refused are told one by one; all of them are counted.
ERRORS_MAX: Final = 1_000

# Appended at once: all of them, or none if the log cannot take them.
APPENDED_AT_ONCE: Final = 5_000
# Judged at once; everybody else waits for the event loop meanwhile, some 10 ms.
PART_LINES: Final = 2_000
PART_BYTES: Final = 512 * 1024


class Range(msgspec.Struct, frozen=True):
    """Where events are: between these offsets of a partition, others may be among them."""

    partition: int
    first: int
    last: int


class AppendedLines(msgspec.Struct, kw_only=True):
    """What became of lines: all that are accepted are durable. Those that were there before count as well."""

    accepted: int = 0
    rejected: int = 0
    ranges: list[Range] = []
    errors: list[BadLine] = []


async def append_lines(streams: Streams, stream: str, text: bytes, *, bytes_max: int) -> AppendedLines:
    """Append the good ones among lines, in their order. A body may have ``bytes_max`` bytes.

    Raises UnknownStream, and what keeps the log from taking any of them, such as StreamFull. Once some
    are in, what keeps the others out is told as what is wrong with a line is: come again with those.
    """
    tally = _Tally()
    async for found in _lots(text, bytes_max=bytes_max):
        tally.refuse(found.bad)
        if found.events:
            tally.enter(found, await _append(streams, stream, found, tally))
    if not tally.told.accepted:
        # Who is mistaken in the stream learns that, whatever their lines are like.
        await streams.known(stream)
    return tally.summed_up()


def judged_at_once(text: bytes, *, bytes_max: int) -> Judged | None:
    """What is in the lines, if they are so few that nobody waits for long meanwhile."""
    if len(text) > PART_BYTES or text.count(b"\n") >= min(PART_LINES, LINES_MAX):
        return None
    return judged(text.split(b"\n"), bytes_max=bytes_max)


def told_of(found: Judged, answers: Sequence[Appended | BackstayError]) -> AppendedLines:
    """What became of lines that were appended at once."""
    tally = _Tally()
    tally.refuse(found.bad)
    tally.enter(found, answers)
    return tally.summed_up()


async def _append(
    streams: Streams, stream: str, found: Judged, tally: _Tally
) -> Sequence[Appended | BackstayError]:
    # What was kept out is sent again: nothing that came after it may be in by then.
    if tally.hindrance is None:
        try:
            return await streams.append_events(stream, found.events)
        except Unavailable as error:
            if not tally.told.accepted:
                raise
            tally.hindrance = error
    return [tally.hindrance] * len(found.events)


async def _lots(text: bytes, *, bytes_max: int) -> AsyncIterator[Judged]:
    """What the lines are, in lots that are appended at once."""
    lot = Judged([], [], [])
    for first, part in _parts(_split(text)):
        found = judged(part, first=first, bytes_max=bytes_max)
        if len(lot.events) + len(found.events) > APPENDED_AT_ONCE:
            yield lot
            lot = found
        else:
            lot.add(found)
        await asyncio.sleep(0)
    yield lot


def _parts(lines: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Some lines at a time, and the number of the first of them."""
    begin = size = 0
    for index, line in enumerate(lines):
        size += len(line)
        if size >= PART_BYTES or index + 1 - begin == PART_LINES:
            yield begin + 1, lines[begin : index + 1]
            begin, size = index + 1, 0
    if begin < len(lines):
        yield begin + 1, lines[begin:]


def _split(text: bytes) -> list[bytes]:
    number = text.count(b"\n") + 1
    if number > LINES_MAX + 1:
        raise InvalidRequest(
            f"there are {number:,} lines; {LINES_MAX:,} may come at once: send the rest after them"
        )
    return text.split(b"\n")


class _Tally:
    """What became of the lines so far."""

    def __init__(self) -> None:
        self.told = AppendedLines()
        #: Why nothing more is appended.
        self.hindrance: Unavailable | None = None
        self._spans: dict[int, tuple[int, int]] = {}

    def refuse(self, bad: list[BadLine]) -> None:
        self.told.rejected += len(bad)
        self.told.errors += bad[: ERRORS_MAX - len(self.told.errors)]

    def enter(self, found: Judged, answers: Sequence[Appended | BackstayError]) -> None:
        refused = []
        for number, answer in zip(found.numbers, answers, strict=True):
            if isinstance(answer, Appended):
                self._place(answer)
            else:
                refused.append(BadLine(number, answer))
        self.told.accepted += len(answers) - len(refused)
        self.refuse(refused)

    def _place(self, appended: Appended) -> None:
        offset = appended.offset
        first, last = self._spans.get(appended.partition, (offset, offset))
        self._spans[appended.partition] = min(first, offset), max(last, offset)

    def summed_up(self) -> AppendedLines:
        self.told.errors.sort(key=lambda bad: bad.line)
        self.told.ranges = [Range(partition, *span) for partition, span in sorted(self._spans.items())]
        return self.told
