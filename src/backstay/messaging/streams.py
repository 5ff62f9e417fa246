"""Where a process appends to streams and reads them: checks everything before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from backstay.clock import Clock
from backstay.definitions.codec import check_size, encode
from backstay.definitions.registry import Registry
from backstay.definitions.streams import StreamDefinition
from backstay.domain.stream import (
    APPEND_MAX,
    PARTITIONS_USUAL,
    READ_BYTES_MAX,
    READ_MAX,
    Appended,
    Event,
    EventRecord,
    Group,
    NewEvent,
    Slice,
    Stream,
    StreamStanding,
    Unread,
    checked_headers,
    checked_key,
    checked_stream,
    partition_of,
    slot_of_name,
)
from backstay.domain.task import check_id
from backstay.errors import BackstayError, Closed, InvalidRequest, UnknownStream
from backstay.messaging.bell import Bell
from backstay.messaging.stream import Log, Standings
from backstay.observe import appended
from backstay.settings import Settings

_NO_HEADERS: Final[Mapping[str, str]] = {}

_decode: Final = msgspec.json.Decoder().decode


class Streams:
    """The streams of one log. What the application declares is made when it is first used."""

    def __init__(
        self,
        log: Log,
        registry: Registry,
        *,
        settings: Settings,
        clock: Clock,
        groups: Standings | None = None,
    ) -> None:
        self.log = log
        self._groups = groups
        self.bell = Bell(log.listen)
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._made: set[str] = set()

    def close(self) -> None:
        self.bell.close()

    # Declare

    async def declare_all(self) -> None:
        """Make every stream that the application declares."""
        for name in self._registry.streams:
            await self.make(name)

    async def make(self, name: str) -> None:
        """Make the stream of this name if the application declares it, once."""
        if self.is_made(name):
            return
        await self.declare_as(self._registry.streams[name])
        self._made.add(name)

    async def declare_as(self, declared: StreamDefinition) -> bool:
        """Make a stream as declared, or let its terms count for it; whether it is new. Raises Conflict."""
        return await self.declare(await self._terms(declared))

    async def _terms(self, declared: StreamDefinition) -> Stream:
        """With the partitions that the stream has, if the application leaves that open."""
        partitions = PARTITIONS_USUAL
        if declared.partitions is None:
            known = await self.find(declared.name)
            partitions = PARTITIONS_USUAL if known is None else known.partitions
        return declared.terms(self._settings, partitions=partitions)

    async def declare(self, stream: Stream) -> bool:
        """Make a stream, or let other terms count for it; whether it is new. Raises Conflict."""
        checked = checked_stream(stream)
        self._settings.check_outlives(f"the retention of stream {checked.name!r},", checked.retention)
        self._settings.check_outlives(f"the dedup window of stream {checked.name!r},", checked.dedup)
        return await self.log.declare(checked, now=self._clock.now())

    # Append

    async def append(
        self,
        stream: str,
        body: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Appended:
        """Append one event; durable once this comes back. Raises UnknownStream, EventConflict, StreamFull."""
        new = self.new_event(stream, body, key=key, id=id, headers=headers)
        [answer] = await self.append_events(stream, [new])
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    async def append_all(self, stream: str, events: Iterable[Event]) -> list[Appended | BackstayError]:
        """Append events in their order; of each where it is, or EventConflict.

        One that is wrong in itself is raised, and nothing is appended then.
        """
        new = [
            self.new_event(stream, one.body, key=one.key, id=one.id, headers=one.headers or None)
            for one in events
        ]
        return await self.append_events(stream, new)

    async def append_events(self, stream: str, events: Sequence[NewEvent]) -> list[Appended | BackstayError]:
        """The same with events that were checked (``new_event``), however many."""
        await self.make(stream)
        answers: list[Appended | BackstayError] = []
        for begin in range(0, len(events), APPEND_MAX):
            part = events[begin : begin + APPEND_MAX]
            answers += await self.log.append(stream, part, now=self._clock.now())
        count_appended(stream, answers)
        return answers

    def is_made(self, name: str) -> bool:
        """Whether ``make`` has nothing to do for this name."""
        return name in self._made or name not in self._registry.streams

    def new_event(
        self,
        stream: str,
        body: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> NewEvent:
        """The event that these arguments describe. Raises a kind of InvalidRequest, and writes nothing."""
        what = f"body of an event of {check_id(stream, name='name of the stream')}"
        return NewEvent(
            body=check_size(encode(body, what), what, self._settings.payload_bytes_max),
            key=None if key is None else checked_key(key),
            id=None if id is None else check_id(id),
            headers=None if headers is None else checked_headers(headers) or None,
        )

    # Read

    async def read(
        self,
        stream: str,
        partition: int,
        *,
        start: int = 0,
        limit: int,
        bytes_max: int = READ_BYTES_MAX,
    ) -> Slice:
        """Up to ``limit`` events from the offset ``start`` on. Raises UnknownStream, OffsetAhead."""
        checked_limit(limit)
        if start < 0:
            raise InvalidRequest(f"an offset is {start}; it must be 0 or more")
        return await self.log.read(stream, partition, start=start, limit=limit, bytes_max=bytes_max)

    async def unread(self, stream: str, group: str, *, key: str, limit: int) -> Unread:
        """The events of ``key`` among the next ``limit`` that a group has yet to pass in its partition.

        Raises UnknownStream. A group that never read anything has yet to pass all of them.
        """
        checked_limit(limit)
        partition = partition_of(_keyed(key), (await self.known(stream)).partitions, turn=0)
        offset = await self._checkpoint(Group(stream, group), partition, key)
        found: list[Event] = []
        while limit > 0:
            part = await self.log.read(stream, partition, start=offset, limit=limit, bytes_max=READ_BYTES_MAX)
            if not part.events:
                return Unread(found, more=False)
            found += [as_event(record) for record in part.events if record.key == key]
            offset, limit = part.next, limit - len(part.events)
        return Unread(found, more=True)

    async def _checkpoint(self, group: Group, partition: int, key: str) -> int:
        """How far the group has got with what it has to do for the key."""
        if self._groups is None:
            raise Closed("how far groups have got is known in the state store; there is none here")
        standings = await self._groups.standings(group.stream)
        slots = [one for one in standings if (one.group, one.partition) == (group, partition)]
        return (slots[slot_of_name(key, len(slots))].checkpoint or 0) if slots else 0

    async def find(self, name: str) -> Stream | None:
        """The stream of this name as it is in the log, if it is."""
        try:
            return await self.log.stream(name)
        except UnknownStream:
            return None

    async def known(self, name: str) -> Stream:
        """The stream of this name, which is made if the application declares it. Raises UnknownStream."""
        await self.make(check_id(name, name="name of the stream"))
        return await self.log.stream(name)

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int
    ) -> list[StreamStanding]:
        """Streams in the order of their names, with what is in their partitions."""
        return await self.log.standings(names=names, after=after, limit=limit)


def count_appended(stream: str, answers: Iterable[Appended | BackstayError]) -> None:
    for one in answers:
        if type(one) is Appended and not one.duplicate:
            appended[stream] += 1


def _keyed(key: str) -> NewEvent:
    return NewEvent(body=b"", key=checked_key(key))


def as_event(record: EventRecord) -> Event:
    """What an application reads."""
    return Event(
        body=_decode(record.body),
        key=record.key,
        id=record.id,
        partition=record.partition,
        offset=record.offset,
        enqueued_at=record.enqueued_at,
        headers=record.headers or _NO_HEADERS,
    )


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= READ_MAX:
        raise InvalidRequest(f"limit is {limit}; it must be 1 to {READ_MAX:,}")
    return limit
