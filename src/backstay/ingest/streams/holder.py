"""Looks who reads for a group, takes this process's share of it, and tells what to give up.

The holder of a unit is this process's instance: what a dead process held is free as soon as it is known to be
dead. Among those that live everybody looks at the same rows and goes by the same rule (``domain.ownership``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from backstay.domain.ownership import Claim, Ownership, Patience, holding_of, moves
from backstay.domain.stream import Group, GroupStanding, Holding, Unit
from backstay.errors import UnknownStream
from backstay.ingest.streams.services import Services
from backstay.observe import PARTITION_TAKEN_AWAY, emit

# How often it is looked who reads, and holds what; whoever changes that calls those whom the store can reach.
LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Round:
    """What this process holds, and what of that is to be another's."""

    held: Sequence[Holding]
    give_up: Sequence[Unit]


class Holder:
    """What this process has to do with all others that read a stream for a group."""

    def __init__(self, group: Group, services: Services, *, readers: int = 1) -> None:
        self.group = group
        self._services = services
        self._readers = readers
        self._partitions = 0
        self._log = ""
        # As long as a graceful stop may take, what is in hand may take to be finished.
        self._patience = Patience(services.settings.drain.total_seconds())

    async def run_once(self) -> Round:
        """Take what is ours and free.

        Raises OtherLog, ReadersDiffer, and LeaseLost if this instance was declared dead.
        """
        services = self._services
        me = services.owner.id
        seen = await self._look()
        wanted = moves(seen, me)
        overdue = self._patience.ended(wanted.awaited, seen=seen, now=services.clock.monotonic())
        taken = await self._take([*wanted.take, *overdue])
        for one in overdue:
            emit(PARTITION_TAKEN_AWAY, **self.fields(one.unit), holder=one.holder)
        held = [holding_of(one) for one in seen.units if one.holder == me]
        return Round([*held, *taken], wanted.give_up)

    async def _look(self) -> Ownership:
        services = self._services
        await self._know_stream()
        seen = await self._ownership()
        if self._is_ours(seen):
            return seen
        await services.store.groups.join(
            self.group,
            partitions=self._partitions,
            readers=self._readers,
            claim=self._claim(),
            log=self._log,
            owner=services.owner,
            lease=services.settings.lease,
            now=services.clock.now(),
        )
        return await self._ownership()

    async def _ownership(self) -> Ownership:
        services = self._services
        return await services.store.groups.ownership(
            self.group,
            log=self._log,
            owner=services.owner,
            lease=services.settings.lease,
            now=services.clock.now(),
        )

    def _is_ours(self, seen: Ownership) -> bool:
        """Whether we are a member of a group with the units that we know; somebody may have forgotten it."""
        is_member = any(one.id == self._services.owner.id for one in seen.members)
        return is_member and len(seen.units) == self._partitions * self._readers

    async def _know_stream(self) -> None:
        if self._partitions:
            return
        streams = self._services.streams
        await streams.make(self.group.stream)
        stream = await streams.find(self.group.stream)
        if stream is None:
            raise UnknownStream(self.group.stream)
        self._log = await streams.log.identity(self.group.stream)
        self._partitions = stream.partitions

    def _claim(self) -> Claim | None:
        settings = self._services.settings
        if settings.partition_assignment == "balanced":
            return None
        return Claim(settings.partition_ordinal, settings.partition_members)

    async def _take(self, units: Sequence[GroupStanding]) -> list[Holding]:
        if not units:
            return []
        services = self._services
        return await services.store.groups.take(
            units, log=self._log, owner=services.owner, now=services.clock.now()
        )

    async def release(self, holdings: Sequence[Holding]) -> None:
        """Let others take these at once."""
        services = self._services
        await services.store.groups.release(holdings, owner=services.owner, now=services.clock.now())

    async def leave(self) -> None:
        """Have others take over all that we hold, as soon as we let go of it."""
        await self._services.store.groups.leave(self.group, owner=self._services.owner)

    def fields(self, unit: Unit) -> dict[str, Any]:
        """How a line in the log names a unit."""
        slot = {"slot": unit.slot} if self._readers > 1 else {}
        return {"stream": self.group.stream, "group": self.group.name, "partition": unit.partition, **slot}
