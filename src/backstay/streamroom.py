"""Looks after streams: what is in them, how far groups have got, what was set aside; and puts that back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.clock import Clock
from backstay.definitions.streams import stream_definition
from backstay.domain.audit import Act
from backstay.domain.durations import describe
from backstay.domain.stream import (
    Appended,
    EventRecord,
    Group,
    GroupStanding,
    NewEvent,
    PartitionStanding,
    Quarantined,
    StreamStanding,
    lag,
    slowest,
)
from backstay.domain.target import group_target, stream_target
from backstay.domain.task import check_id
from backstay.errors import BackstayError, InvalidRequest, UnknownStream
from backstay.messaging.lines import AppendedLines, append_lines
from backstay.messaging.streams import Streams
from backstay.settings import Settings
from backstay.store.groups import Groups
from backstay.views import Page

LISTED_MAX: Final = 1_000
#: Events in quarantine are counted no further than this.
COUNTED_MAX: Final = 100_000
#: So many events in quarantine are put back at once; say it again for more.
RESUBMITTED_MAX: Final = 1_000


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in a list: how many partitions, events and bytes it has."""

    name: str
    partitions: int
    events: int
    bytes: int
    groups: list[GroupSummary]


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A group over all partitions."""

    group: str
    lag: int


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """What there is in a partition, offsets from ``first`` up to and without ``end``, and who reads it."""

    partition: int
    first: int
    end: int
    bytes: int
    # The instance that reads it; with several groups, for the first of them that is read.
    owner: str | None


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has got in a partition, or one of the readers that share it."""

    group: str
    partition: int
    slot: int
    # The next offset to read.
    checkpoint: int | None
    # How many events it has yet to pass, and for how long the first of them has waited.
    lag: int
    lag_seconds: float
    owner: str | None
    checkpoint_at: datetime


class StreamView(msgspec.Struct, frozen=True, kw_only=True):
    """A stream: its terms, its partitions, and how far each group has got in them."""

    name: str
    retention: str
    dedup: str
    bytes_max: int
    partitions: list[PartitionView]
    groups: list[GroupView]
    # Of each group: how many events are set aside.
    quarantined: dict[str, int]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its partition."""

    offset: int
    key: str | None
    id: str | None
    body: Any
    enqueued_at: datetime
    headers: dict[str, str]


class EventPage(msgspec.Struct, frozen=True):
    """Events, and the offset to read on from: null at the end."""

    items: list[EventView]
    next: int | None


class QuarantinedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a group could not process, and why."""

    id: int
    group: str
    partition: int
    offset: int
    reason: str
    body: Any
    at: datetime
    key: str | None
    event_id: str | None
    headers: dict[str, str]
    enqueued_at: datetime
    # It will be processed again.
    resubmitted: bool


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """How many events will be processed again, and which."""

    resubmitted: int
    ids: list[int]


class ForgottenGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever reads for it next begins at the first event there is."""

    stream: str
    group: str


class Streamroom:
    """The streams of one log and the groups that one store keeps of them, for whoever looks after them."""

    def __init__(
        self, streams: Streams, groups: Groups, *, settings: Settings, clock: Clock, act: Callable[..., Act]
    ) -> None:
        self._streams = streams
        self._groups = groups
        self._settings = settings
        self._clock = clock
        self._act = act

    # Streams

    async def streams(self, *, after: str | None = None, limit: int = 100) -> Page[StreamSummary]:
        """By their names."""
        found = await self._streams.standings(after=after or "", limit=_checked_limit(limit) + 1)
        page = found[:limit]
        items = [_summary(one, await self._groups.standings(one.stream.name)) for one in page]
        return Page(items, page[-1].stream.name if len(found) > limit else None)

    async def stream(self, name: str) -> StreamView:
        """Raises UnknownStream."""
        standing = await self._standing(name)
        groups = await self._groups.standings(name)
        waiting = await self._waiting(standing, groups)
        sizes = await self._groups.quarantine_sizes(name, counted=COUNTED_MAX)
        return _view(standing, groups, waiting=waiting, quarantined=sizes, now=self._clock.now())

    async def declare(self, name: str, **options: Any) -> tuple[StreamView, bool]:
        """Make a stream, or let other terms count; how it stands then, and whether it is new.

        Raises Conflict when it is there with another number of partitions.
        """
        new = await self._streams.declare_as(stream_definition(name, **options))
        return await self.stream(name), new

    async def _standing(self, name: str) -> StreamStanding:
        found = await self._streams.standings(names=[check_id(name, name="name of the stream")], limit=1)
        if not found:
            raise UnknownStream(name)
        return found[0]

    async def _waiting(
        self, standing: StreamStanding, groups: Sequence[GroupStanding]
    ) -> dict[tuple[str, int], datetime]:
        """Since when the first event that a group has yet to pass has been there, where there is one."""
        found: dict[tuple[str, int], datetime] = {}
        ends = {one.partition: one.end for one in standing.partitions}
        for group in dict.fromkeys(one.group.name for one in groups):
            starts = {
                one.partition: one.checkpoint or 0
                for one in slowest(groups)
                if one.group.name == group and (one.checkpoint or 0) < ends.get(one.partition, 0)
            }
            oldest = await self._streams.log.oldest(standing.stream.name, starts) if starts else {}
            found |= {(group, partition): event.enqueued_at for partition, event in oldest.items()}
        return found

    # Events

    async def append(self, stream: str, body: Any = None, **options: Any) -> Appended:
        """See ``StreamHandle.append``."""
        return await self._streams.append(stream, body, **options)

    async def append_event(self, stream: str, event: NewEvent) -> Appended:
        """The same with an event that was checked."""
        [answer] = await self._streams.append_events(stream, [event])
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    async def append_lines(self, stream: str, text: bytes) -> AppendedLines:
        """Append the good ones among lines of JSON; what became of them."""
        return await append_lines(self._streams, stream, text, bytes_max=self._settings.payload_bytes_max)

    async def events(self, stream: str, partition: int, *, start: int = 0, limit: int = 100) -> EventPage:
        """Events of a partition from the offset ``start`` on, or from the first one that there is."""
        found = await self._streams.read(stream, partition, start=start, limit=_checked_limit(limit))
        more = (
            await self._streams.read(stream, partition, start=found.next, limit=1) if found.events else found
        )
        return EventPage([_event(one) for one in found.events], found.next if more.events else None)

    # Groups

    async def forget(self, stream: str, group: str, *, reason: str | None = None) -> ForgottenGroup:
        """Forget how far a group has got, and what it set aside: whoever reads for it begins anew.

        Also where the stream itself is gone. Raises UnknownGroup, and Conflict while somebody reads for it.
        """
        check_id(stream, name="name of the stream")
        check_id(group, name="name of the group")
        await self._groups.forget(
            Group(stream, group),
            act=self._act("forget", group_target(stream, group), reason),
            now=self._clock.now(),
        )
        return ForgottenGroup(stream=stream, group=group)

    # What was set aside

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int | None = None, limit: int = 100
    ) -> Page[QuarantinedEvent]:
        """Events that were set aside, oldest first."""
        await self._streams.known(stream)
        found = await self._groups.quarantine(
            stream, group=group, after=after or 0, limit=_checked_limit(limit) + 1
        )
        page = found[:limit]
        return Page([_quarantined(one) for one in page], str(page[-1].id) if len(found) > limit else None)

    async def resubmit(self, stream: str, id: int | None = None, *, reason: str | None = None) -> Returned:
        """Have an event in quarantine processed again; all of them without ``id``, up to a bound."""
        await self._streams.known(stream)
        what = "resubmit quarantine" if id is None else f"resubmit quarantined {id}"
        ids = await self._groups.resubmit(
            stream,
            None if id is None else [id],
            limit=RESUBMITTED_MAX,
            act=self._act(what, stream_target(stream), reason),
            now=self._clock.now(),
        )
        return Returned(resubmitted=len(ids), ids=list(ids))


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LISTED_MAX:
        raise InvalidRequest(f"limit is {limit}; it must be 1 to {LISTED_MAX:,}")
    return limit


def _summary(standing: StreamStanding, groups: Iterable[GroupStanding]) -> StreamSummary:
    partitions = {one.partition: one for one in standing.partitions}
    lags: dict[str, int] = {}
    for one in slowest(groups):
        behind = _behind(one, partitions)
        lags[one.group.name] = lags.get(one.group.name, 0) + behind
    return StreamSummary(
        name=standing.stream.name,
        partitions=standing.stream.partitions,
        events=sum(one.end - one.first for one in standing.partitions),
        bytes=standing.bytes,
        groups=[GroupSummary(group=name, lag=behind) for name, behind in sorted(lags.items())],
    )


def _view(
    standing: StreamStanding,
    groups: Sequence[GroupStanding],
    *,
    waiting: Mapping[tuple[str, int], datetime],
    quarantined: Mapping[str, int],
    now: datetime,
) -> StreamView:
    stream = standing.stream
    partitions = {one.partition: one for one in standing.partitions}
    owners: dict[int, str | None] = {}
    for one in groups:
        owners[one.partition] = owners.get(one.partition) or one.holder
    return StreamView(
        name=stream.name,
        retention=describe(stream.retention),
        dedup=describe(stream.dedup),
        bytes_max=stream.bytes_max,
        partitions=[
            PartitionView(
                partition=one.partition,
                first=one.first,
                end=one.end,
                bytes=one.bytes,
                owner=owners.get(one.partition),
            )
            for one in standing.partitions
        ],
        groups=[
            GroupView(
                group=one.group.name,
                partition=one.partition,
                slot=one.slot,
                checkpoint=one.checkpoint,
                lag=_behind(one, partitions),
                lag_seconds=_seconds(waiting.get((one.group.name, one.partition)), now),
                owner=one.holder,
                checkpoint_at=one.updated_at,
            )
            for one in groups
        ],
        quarantined=dict(quarantined),
    )


def _behind(group: GroupStanding, partitions: Mapping[int, PartitionStanding]) -> int:
    standing = partitions.get(group.partition)
    return 0 if standing is None else lag(standing, group.checkpoint)


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def _event(record: EventRecord) -> EventView:
    return EventView(
        offset=record.offset,
        key=record.key,
        id=record.id,
        body=msgspec.json.decode(record.body),
        enqueued_at=record.enqueued_at,
        headers=dict(record.headers or {}),
    )


def _quarantined(one: Quarantined) -> QuarantinedEvent:
    event = one.event
    return QuarantinedEvent(
        id=one.id,
        group=one.group.name,
        partition=event.partition,
        offset=event.offset,
        reason=one.reason,
        body=msgspec.json.decode(event.body),
        at=one.at,
        key=event.key,
        event_id=event.id,
        headers=dict(event.headers or {}),
        enqueued_at=event.enqueued_at,
        resubmitted=one.resubmitted,
    )
