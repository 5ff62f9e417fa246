"""A reader of a stream as far as a store can see one: what the tests act through."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest

from backstay.domain.lease import Owner
from backstay.domain.ownership import Claim, Ownership, holding_of
from backstay.domain.stream import EventRecord, Group, GroupStanding, Holding, NewQuarantined, Quarantined
from backstay.errors import BackstayError
from backstay.store.base import Store
from backstay.store.groups import Advance, Advanced, Start
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, MANY, Holder, Promises
from backstay.testing.records import NOON, new_task

ARCHIVE: Final = Group("telemetry", "archive")


def an_event(offset: int = 0, **fields: Any) -> EventRecord:
    common = {"partition": 0, "body": b'{"load":7}', "key": None, "id": None, "headers": None}
    return EventRecord(**{**common, "offset": offset, "enqueued_at": NOON, **fields})


def a_start(id: str, offset: int = 0, *, partition: int = 0, **fields: Any) -> Start:
    """A task that is made of the event at ``offset``."""
    return Start(new_task(id, **fields), an_event(offset, partition=partition))


def set_aside(offset: int = 0, *, reason: str = "no", **fields: Any) -> NewQuarantined:
    return NewQuarantined(event=an_event(offset, **fields), reason=reason)


class Reader:
    """Holds units for a group, and advances in them."""

    def __init__(self, store: Store, clock: ManualClock, owner: Owner, group: Group = ARCHIVE) -> None:
        self._groups = store.groups
        self._clock = clock
        self._partitions = 0
        self.owner = owner
        self.group = group

    async def join(
        self, partitions: int, *, readers: int = 1, claim: Claim | None = None, log: str = "log"
    ) -> None:
        await self._groups.join(
            self.group,
            partitions=partitions,
            readers=readers,
            claim=claim,
            log=log,
            owner=self.owner,
            lease=LEASE,
            now=self._clock.now(),
        )
        self._partitions = partitions

    async def leave(self) -> None:
        await self._groups.leave(self.group, owner=self.owner)

    async def look(self, *, log: str = "log", lease: timedelta = LEASE) -> Ownership:
        return await self._groups.ownership(
            self.group, log=log, owner=self.owner, lease=lease, now=self._clock.now()
        )

    async def free(self, *partitions: int, log: str = "log", lease: timedelta = LEASE) -> list[GroupStanding]:
        """Those of these partitions that nobody holds; it joins for them if it has not yet."""
        if max(partitions, default=-1) >= self._partitions:
            await self.join(max(partitions) + 1, log=log)
        seen = await self.look(log=log, lease=lease)
        return [one for one in seen.units if one.partition in partitions and one.holder is None]

    async def take(self, *units: GroupStanding, log: str = "log") -> list[Holding]:
        return await self._groups.take(units, log=log, owner=self.owner, now=self._clock.now())

    async def hold(self, *partitions: int, log: str = "log", lease: timedelta = LEASE) -> list[Holding]:
        """Take those of these partitions that are free; all that it holds by then."""
        await self.take(*await self.free(*partitions, log=log, lease=lease), log=log)
        seen = await self.look(log=log, lease=lease)
        return [holding_of(one) for one in seen.units if one.holder == self.owner.id]

    async def held(self, partition: int = 0) -> Holding:
        """One partition, that is free."""
        found = {one.partition: one for one in await self.hold(partition)}
        return found[partition]

    async def release(self, *holdings: Holding) -> None:
        await self._groups.release(holdings, owner=self.owner, now=self._clock.now())

    async def advance_all(
        self, advances: Sequence[Advance], *, quarantine_max: int = MANY
    ) -> list[Advanced | BackstayError]:
        return await self._groups.advance(
            advances, owner=self.owner, quarantine_max=quarantine_max, now=self._clock.now()
        )

    async def advance(
        self, holding: Holding, *, quarantine_max: int = MANY, **made: Any
    ) -> Advanced | BackstayError:
        """One advance; what it is answered."""
        advance = Advance(holding=holding, **made)
        [answer] = await self.advance_all([advance], quarantine_max=quarantine_max)
        return answer

    async def quarantine(self) -> list[Quarantined]:
        return await self._groups.quarantine(self.group.stream, group=self.group.name, limit=MANY)

    async def standings(self) -> dict[int, GroupStanding]:
        """How the group stands, by partition."""
        standings = await self._groups.standings(self.group.stream)
        return {one.partition: one for one in standings if one.group == self.group}

    async def checkpoint(self, partition: int = 0) -> int | None:
        return (await self.standings())[partition].checkpoint


class ReadingPromises(Promises):
    """Two instances that read for the same group."""

    @pytest.fixture
    async def reader(self, store: Store, clock: ManualClock, alice: Holder) -> Reader:
        return Reader(store, clock, alice.owner)

    @pytest.fixture
    async def rival(self, store: Store, clock: ManualClock, bob: Holder) -> Reader:
        return Reader(store, clock, bob.owner)
