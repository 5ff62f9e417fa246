"""Streams: events in partitions, in the order in which they came, and how far each group has got.

    producers ──► partition 0  │0│1│2│3│4│5│ … end
                  partition 1  │0│1│2│ … end
                                   ▲     ▲
                       group "archive"   group "scheduler": the checkpoint is the next offset to read

An offset belongs to one event of its partition for ever. Offsets grow; a log may leave some out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from backstay.domain.durations import LONGEST, describe
from backstay.domain.task import check_id
from backstay.domain.text import is_text
from backstay.errors import InvalidInput, InvalidRequest

PARTITIONS_USUAL: Final = 32
PARTITIONS_MOST: Final = 1_024
#: Of one partition, for one group.
READERS_MOST: Final = 32

KEY_LENGTH_MAX: Final = 200
HEADERS_MAX: Final = 32
HEADERS_BYTES_MAX: Final = 8 * 1024
REASON_LENGTH_MAX: Final = 2_000

#: Of one append; more come in several.
APPEND_MAX: Final = 10_000
#: Of one read, and of the bodies that it gives; the first comes whatever its size.
READ_MAX: Final = 10_000
READ_BYTES_MAX: Final = 8 * 1024 * 1024

RETENTION_LEAST: Final = timedelta(seconds=1)
DEDUP_MOST: Final = timedelta(days=7)

# Odd and large (the golden ratio of 2**32): every bit of a checksum counts for the upper half of the product.
_SPREAD: Final = 0x9E3779B1

_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as it is declared. The number of its partitions never changes; other terms count anew."""

    name: str
    partitions: int = PARTITIONS_USUAL
    # What is older than this is removed, once every group has passed it.
    retention: timedelta = timedelta(days=7)
    # So much is kept at the most: what every group has passed makes room. Without that, appends are refused.
    bytes_max: int = 8 * 1024**3
    # For so long an event with the id of another one counts as the same; zero: never.
    dedup: timedelta = timedelta(minutes=10)


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as it is appended. The body is JSON."""

    body: bytes
    # Events of one key stay in order.
    key: str | None = None
    # Appended once within the stream's window, however often it is tried.
    id: str | None = None
    headers: Mapping[str, str] | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where an event is: durable once this is given."""

    partition: int
    offset: int
    # Whether its id was known: then this is where it was before, and nothing was appended.
    duplicate: bool = False


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event in its partition."""

    partition: int
    offset: int
    body: bytes
    key: str | None
    id: str | None
    headers: Mapping[str, str] | None
    enqueued_at: datetime


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event as an application reads it: its body is the value that was sent."""

    body: Any
    key: str | None = None
    id: str | None = None
    partition: int = 0
    offset: int = 0
    enqueued_at: datetime | None = None
    headers: Mapping[str, str] = {}


class Slice(msgspec.Struct, frozen=True):
    """What a read gave, and the offset to read on from: past the last event, or past a gap."""

    events: list[EventRecord]
    next: int


class Unread(msgspec.Struct, frozen=True):
    """The events of a key that a group has yet to pass, as far as somebody looked."""

    events: list[Event]
    # Whether there may be more that was not looked through.
    more: bool


class PartitionStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What there is in a partition: offsets from ``first`` up to, and without, ``end``."""

    partition: int
    first: int
    end: int
    bytes: int = 0


class StreamStanding(msgspec.Struct, frozen=True, kw_only=True):
    stream: Stream
    partitions: list[PartitionStanding]

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.partitions)


# How far groups have got: kept in the state store, whatever log the stream is in


class Group(msgspec.Struct, frozen=True, order=True):
    """Who reads a stream, independently of all others who do."""

    stream: str
    name: str


class Unit(NamedTuple):
    """What one reader of a group reads: a partition, or one slot of a partition that several share."""

    partition: int
    slot: int = 0


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that an instance reads for a group, and the number under which it does.

    ``epoch`` moves on with every change of hands: what an earlier holder still writes is refused.
    """

    group: Group
    partition: int
    slot: int = 0
    epoch: int
    # The next offset to read; None while nothing was ever read.
    checkpoint: int | None

    @property
    def unit(self) -> Unit:
        return Unit(self.partition, self.slot)

    @property
    def label(self) -> str:
        slot = f"slot {self.slot} of " if self.slot else ""
        return (
            f"{slot}partition {self.partition} of stream {self.group.stream!r} for group {self.group.name!r}"
        )


class GroupStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has got in one unit, and who reads it."""

    group: Group
    partition: int
    slot: int = 0
    checkpoint: int | None
    holder: str | None
    epoch: int
    updated_at: datetime

    @property
    def unit(self) -> Unit:
        return Unit(self.partition, self.slot)


class NewQuarantined(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a group could not process, set aside with the reason; its partition moves on."""

    event: EventRecord
    reason: str


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    group: Group
    event: EventRecord
    reason: str
    at: datetime
    # A person asked for it to be processed again.
    resubmitted: bool = False


# Rules


def partition_of(event: NewEvent, partitions: int, *, turn: int) -> int:
    """Where an event goes: by its key; by its id, so that a retry meets the first try; else by turns."""
    name = event.key if event.key is not None else event.id
    return turn % partitions if name is None else zlib.crc32(name.encode()) % partitions


def slot_of(event: EventRecord, readers: int) -> int:
    """Which of the readers that share a partition has this event: those of one key have the same.

    The remainder of the checksum is what brought it into the partition: the same for all that are there.
    """
    name = event.key if event.key is not None else event.id
    return event.offset % readers if name is None else slot_of_name(name, readers)


def slot_of_name(name: str, readers: int) -> int:
    """The same for all events of a key."""
    return (zlib.crc32(name.encode()) * _SPREAD >> 16 & 0xFFFF) % readers


def lag(standing: PartitionStanding, checkpoint: int | None) -> int:
    """How many events a group has yet to pass; a log that leaves offsets out has fewer."""
    return standing.end - max(standing.first, min(checkpoint or 0, standing.end))


def slowest(standings: Iterable[GroupStanding]) -> list[GroupStanding]:
    """Of each group in each partition the slot that is furthest behind: as far as all of them have got."""
    found: dict[tuple[Group, int], GroupStanding] = {}
    for one in standings:
        known = found.setdefault((one.group, one.partition), one)
        if (one.checkpoint or 0) < (known.checkpoint or 0):
            found[one.group, one.partition] = one
    return [*found.values()]


def floors(standings: Iterable[GroupStanding]) -> dict[int, int]:
    """Of each partition the offset below which every reader of every group is finished: what may go."""
    found: dict[int, int] = {}
    for one in standings:
        reached = one.checkpoint or 0
        found[one.partition] = min(found.get(one.partition, reached), reached)
    return found


# Checks


def checked_stream(stream: Stream) -> Stream:
    check_id(stream.name, name="name of the stream")
    if not 1 <= stream.partitions <= PARTITIONS_MOST:
        raise InvalidRequest(f"partitions is {stream.partitions}; it must be 1 to {PARTITIONS_MOST:,}")
    _within("retention", stream.retention, RETENTION_LEAST, LONGEST)
    _within("dedup", stream.dedup, timedelta(0), DEDUP_MOST)
    if stream.bytes_max < 1:
        raise InvalidRequest(f"bytes_max is {stream.bytes_max}; it must be at least 1")
    return stream


def checked_key(key: object) -> str:
    if not is_text(key) or not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise InvalidInput(f"key is {key!r:.60}; it must be text of 1 to {KEY_LENGTH_MAX} characters")
    return key


def checked_headers(given: object) -> dict[str, str]:
    """Return what is given if it is a small object of texts."""
    if not isinstance(given, Mapping) or not all(is_text(part) for pair in given.items() for part in pair):
        raise InvalidInput(f"headers is {given!r:.60}; it must be an object of texts")
    if len(given) > HEADERS_MAX or len(_encode(given)) > HEADERS_BYTES_MAX:
        raise InvalidInput(
            f"headers has {len(given)} entries with {len(_encode(given)):,} bytes of JSON;"
            f" {HEADERS_MAX} entries with {HEADERS_BYTES_MAX:,} bytes are allowed"
        )
    return dict(given)


def _within(name: str, value: timedelta, least: timedelta, most: timedelta) -> None:
    if not least <= value <= most:
        raise InvalidRequest(
            f"{name} is {describe(value)}; it must lie between {describe(least)} and {describe(most)}"
        )
