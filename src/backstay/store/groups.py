"""What a state store keeps of groups: how far they have got, who reads for them, what they set aside.

A unit, which is a partition or a slot of one, is read for a group by one instance at a time, its *holder*.
Every write of a holder names the instance's epoch and the epoch of its holding, and is refused with LeaseLost
when either moved: a reader that was displaced changes nothing. Who ought to hold what is decided elsewhere
(``domain.ownership``): here it is seen, and changed by comparing epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from backstay.domain.audit import Act
from backstay.domain.lease import Owner
from backstay.domain.message import NewMessage
from backstay.domain.ownership import Claim, Ownership
from backstay.domain.stream import EventRecord, Group, GroupStanding, Holding, NewQuarantined, Quarantined
from backstay.domain.task import NewTask
from backstay.errors import BackstayError


class Start(msgspec.Struct, frozen=True):
    """A task, and the event that it was made of."""

    task: NewTask
    event: EventRecord


class Send(msgspec.Struct, frozen=True):
    """A message to a queue, and the event that it was made of."""

    message: NewMessage
    event: EventRecord


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """What a holder made of events of its partition, and how far it has got with that."""

    holding: Holding
    # The next offset to read after a crash: everything below is finished. None: as before.
    to: int | None = None
    starts: Sequence[Start] = ()
    # One of an event at most. Only of events below ``to``, so that none is sent before its position is kept.
    messages: Sequence[Send] = ()
    quarantined: Sequence[NewQuarantined] = ()
    # Ids of events in quarantine that were resubmitted, and have been processed now, one way or the other.
    settled: Sequence[int] = ()


class Advanced(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an advance."""

    # Tasks that are new. The others were there before: their events came twice.
    started: int = 0
    # Messages that are new. The others were sent before.
    sent: int = 0
    # Tasks that cannot be entered, as a rule since their id belongs to another one, and messages that their
    # queue does not take: their events were set aside.
    conflicts: int = 0


class Groups(Protocol):
    """Each method is one transaction: it happens entirely or not at all."""

    # Who reads

    async def join(
        self,
        group: Group,
        *,
        partitions: int,
        readers: int = 1,
        claim: Claim | None = None,
        log: str,
        owner: Owner,
        lease: timedelta,
        now: datetime,
    ) -> None:
        """Say that ``owner`` reads for a group until it leaves, or ends; a partition has ``readers`` units.

        The number of readers changes when nobody else reads: then each unit begins where the slowest of its
        partition was. Raises ReadersDiffer until then; OtherLog as ``ownership`` does; and LeaseLost when
        ``owner`` was declared dead.
        """

    async def leave(self, group: Group, *, owner: Owner) -> None:
        """What ``owner`` holds is shared out among the others from now on; it may finish what is in hand."""

    async def ownership(
        self, group: Group, *, log: str, owner: Owner, lease: timedelta, now: datetime
    ) -> Ownership:
        """Who reads for a group, and who holds what, as ``owner`` sees it.

        An instance that ended, or gave no sign of life for ``lease``, is no member and no holder. ``log`` is
        the identity of what is read: raises OtherLog when the group has got anywhere in another one.
        """

    async def take(
        self, units: Sequence[GroupStanding], *, log: str, owner: Owner, now: datetime
    ) -> list[Holding]:
        """Take units that have not changed hands since they were seen like this; those that were taken.

        Their epochs move on: whoever held one is refused from then on. One that is just being written to
        may be left for another time. Raises LeaseLost when ``owner`` was declared dead.
        """

    async def release(self, holdings: Sequence[Holding], *, owner: Owner, now: datetime) -> None:
        """A graceful stop: others may take these at once. Those that were lost by now are left alone."""

    # How far

    async def advance(
        self, advances: Sequence[Advance], *, owner: Owner, quarantine_max: int, now: datetime
    ) -> list[Advanced | BackstayError]:
        """Enter tasks, send messages, set events aside, move checkpoints on: each entirely or not at all.

        A checkpoint never moves back, and an event is set aside once, however often that is said. A task
        that is there already counts as entered; where its id belongs to another one, its event is set
        aside instead. A message is sent if its event lies beyond the checkpoint, or leaves the quarantine
        with this advance: otherwise it was sent before. All of it may be said again after any failure.

        An answer may be LeaseLost, when the holding was lost; QuarantineFull, when more than
        ``quarantine_max`` events of the group would be set aside; QueueFull or UnknownQueue, when not every
        message can be sent. Others advance all the same.
        """

    async def standings(self, stream: str) -> list[GroupStanding]:
        """Every group of a stream in every unit that it ever had, by name, partition and slot."""

    async def forget(self, group: Group, *, act: Act, now: datetime) -> None:
        """Forget a group that nobody reads for any more, with its quarantine. In the audit trail.

        Raises UnknownGroup, and Conflict while a live instance reads for it.
        """

    # What was set aside

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int = 0, limit: int
    ) -> list[Quarantined]:
        """Events in quarantine, in the order of their ids."""

    async def quarantine_sizes(self, stream: str, *, counted: int) -> Mapping[str, int]:
        """Of each group how many events are in quarantine, counted no further than ``counted``."""

    async def resubmit(
        self, stream: str, ids: Sequence[int] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        """Have events in quarantine processed again by their groups; which. In the audit trail.

        All of them without ``ids``, up to ``limit``. Raises UnknownEvent for one that is not there.
        """

    async def resubmitted(self, group: Group, partitions: Sequence[int], *, limit: int) -> list[Quarantined]:
        """Events of these partitions that are to be processed again, in the order of their ids."""
