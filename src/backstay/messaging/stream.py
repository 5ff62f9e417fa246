"""What a log can do: partitioned, append-only, read by anybody as often as they like.

A log knows nothing of who reads it. How far each group has got is kept in the state store, so that what
a group makes of an event and how far it has got can be one transaction; the log is told how far it may
forget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from backstay.domain.stream import (
    Appended,
    EventRecord,
    GroupStanding,
    NewEvent,
    Slice,
    Stream,
    StreamStanding,
)
from backstay.errors import BackstayError

#: Called with the names of streams to which something was appended; None: to any of them.
Caller = Callable[[frozenset[str] | None], None]


class Standings(Protocol):
    """Who knows how far groups have got: the state store's ``groups``."""

    async def standings(self, stream: str) -> list[GroupStanding]: ...


class Log(Protocol):
    """The streams of one log. Times are passed in; a broker may judge by its own clock."""

    async def open(self, *, must_exist: bool = False) -> None:
        """Connect. With ``must_exist`` nothing is created: a log that is not there has no streams."""

    async def close(self) -> None:
        """Write what was handed in, then let go of everything."""

    # What there is

    async def declare(self, stream: Stream, *, now: datetime) -> bool:
        """Make a stream, or let other terms count for one that is there; whether it is new.

        Raises Conflict when it is there with another number of partitions.
        """

    async def stream(self, name: str) -> Stream:
        """Raises UnknownStream."""

    async def identity(self, stream: str) -> str:
        """What no other stream was ever called, also none of the same name. Raises UnknownStream.

        A checkpoint is kept with it: in another log the same offset is another event.
        """

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int
    ) -> list[StreamStanding]:
        """Streams in the order of their names, with what is in their partitions."""

    # The way in

    async def append(
        self, stream: str, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Appended | BackstayError]:
        """Append events, each to the partition of its key; durable once this comes back.

        Those of one call that share a partition keep their order. An id that was appended within the
        window is answered with its place; with another key or body it is refused with EventConflict, and
        the others are appended all the same. Raises UnknownStream; StreamFull when there is no room.
        """

    # The way out

    async def read(self, stream: str, partition: int, *, start: int, limit: int, bytes_max: int) -> Slice:
        """Up to ``limit`` events from the offset ``start`` on; fewer, where their bodies would be too large.

        From the first one that there is, if ``start`` was forgotten. Empty at the end of the partition.
        Raises UnknownStream, also for a partition that it does not have, and OffsetAhead when ``start``
        lies beyond the end: then the checkpoint is of another log than this.
        """

    async def oldest(self, stream: str, starts: Mapping[int, int]) -> dict[int, EventRecord]:
        """Of each partition the first event at or after an offset, where there is one."""

    def listen(self, caller: Caller) -> Callable[[], None]:
        """Call ``caller`` when something was appended; returns how to stop that."""

    # Forgetting

    async def trim(self, stream: str, floors: Mapping[int, int], *, now: datetime, limit: int) -> int:
        """Forget what lies below the floor of its partition and is too old, or more than there is room for.

        The oldest first, up to ``limit`` events; how many that were. A partition without a floor is read
        by nobody: of that one everything may go that is too old or too much.
        """
