"""What was acknowledged, compared with what is in the stream, to the last event: each has a number."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec

from backstay.domain.stream import READ_BYTES_MAX, READ_MAX, EventRecord
from backstay.messaging.embedded import EmbeddedLog
from bench.load import in_fresh_loop
from bench.openloop.outcome import Fate
from bench.streaming.apps import STREAM
from bench.streaming.events import Numbered

_decode: Final = msgspec.json.Decoder(Numbered).decode
_COUNT_MAX: Final = 255


Bytes = bytes | bytearray


class Reconciled(NamedTuple):
    """In events. ``unsaid``: in the stream, and not acknowledged, as a connection that drops may leave it."""

    acknowledged: int
    lost: int
    doubled: int
    unsaid: int

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.doubled


def reconcile(streams: str, fates: Bytes, *, lines: int = 1) -> Reconciled:
    """Read the whole stream, and compare it with what became of requests of so many lines."""
    return in_fresh_loop(_reconcile(streams, fates, lines))


async def _reconcile(streams: str, fates: Bytes, lines: int) -> Reconciled:
    counts = bytearray(len(fates) * lines)
    async for event in events_of(streams):
        numbered = _decode(event.body)
        place = int(numbered.n) * lines + numbered.line
        if place >= len(counts):
            raise RuntimeError(f"request {numbered.n}, line {numbered.line} is in the stream; nobody sent it")
        counts[place] = min(_COUNT_MAX, counts[place] + 1)
    return compared(fates, counts, lines=lines)


def compared(fates: Bytes, counts: Bytes, *, lines: int) -> Reconciled:
    """``counts``: how often each line of each request is in the stream."""
    acknowledged = lost = doubled = unsaid = 0
    for number, fate in enumerate(fates):
        found = counts[number * lines : (number + 1) * lines]
        missing = found.count(0)
        doubled += lines - missing - found.count(1)
        if fate == Fate.ACCEPTED:
            acknowledged += lines
            lost += missing
        else:
            unsaid += lines - missing
    return Reconciled(acknowledged, lost, doubled, unsaid)


async def events_of(streams: str, stream: str = STREAM) -> AsyncIterator[EventRecord]:
    """All that is in a stream, one partition after the other."""
    log = EmbeddedLog(streams)
    await log.open()
    try:
        for partition in range((await log.stream(stream)).partitions):
            start = 0
            while True:
                found = await log.read(
                    stream, partition, start=start, limit=READ_MAX, bytes_max=READ_BYTES_MAX
                )
                if not found.events:
                    break
                for event in found.events:
                    yield event
                start = found.next
    finally:
        await log.close()
