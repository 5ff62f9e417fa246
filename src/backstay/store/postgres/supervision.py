"""What PostgreSQL does for the supervisor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from backstay.domain.control import Control, held_back
from backstay.domain.intensity import pausing
from backstay.domain.lease import Leader, Owner
from backstay.domain.request import BrokenOff
from backstay.errors import LeaseLost, StoreUnavailable
from backstay.store.base import Changes
from backstay.store.decisions import (
    FORGOTTEN_PER_ROW,
    RECOVERIES_KEPT,
    ROUNDS_KEPT,
    Tally,
    broken_off,
    crashes,
    freed,
    is_repeated,
    taken_away,
)
from backstay.store.postgres.connection import Server
from backstay.store.postgres.contact import Contact
from backstay.store.postgres.lane import STANDING, Operation
from backstay.store.postgres.records import PostgresRecords
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import SHAPE, Judged, Tables
from backstay.store.supervision import Freed, Recoveries, Round

Answer = TypeVar("Answer")


class PostgresSupervision:
    """The supervisor's verbs on a database that many hosts share: its clock judges who is late."""

    def __init__(
        self,
        session: Callable[[], Session],
        records: PostgresRecords,
        *,
        server: Server,
        contact: Contact,
        judged: Judged,
    ) -> None:
        self._session = session
        self._records = records
        self._server = server
        self._contact = contact
        self._judged = judged

    # Who leads

    async def lead(self, holder: str, *, lease: timedelta, now: datetime) -> Leader:
        async def operation(tables: Tables, _changes: Changes) -> Leader:
            wanted = {"holder": holder, "lease": lease, "now": self._judged(now)}
            rows = await tables.run("renew_lead", **wanted) or await tables.run("take_lead", **wanted)
            [row] = rows or await tables.run("leader")
            return SHAPE.leader(row)

        try:
            return await self._session().write(operation)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                await self._session().read(_cut_off)
            raise

    async def step_down(self, leader: Leader, *, now: datetime) -> None:  # noqa: ARG002  Nobody is late here.
        async def operation(tables: Tables, _changes: Changes) -> None:
            await tables.run("step_down", holder=leader.holder, epoch=leader.epoch)

        await self._session().write(operation)

    async def leader(self) -> Leader:
        async def look(tables: Tables) -> Leader:
            [row] = await tables.run("leader")
            return SHAPE.leader(row)

        return await self._session().read(look)

    # One round

    async def work_waits(
        self, *, lease: timedelta, grace: timedelta, now: datetime, spare: Owner | None
    ) -> bool:
        async def look(tables: Tables) -> bool:
            late = self.late(lease=lease, now=now, spare=spare)
            [[waits]] = await tables.run("work_waits", grace=grace, **late)
            return bool(waits)

        return await self._session().read(look)

    async def bury(
        self, leader: Leader, *, lease: timedelta, now: datetime, spare: Owner | None = None
    ) -> Freed:
        async def operation(tables: Tables, changes: Changes) -> Freed:
            if not self.may_judge(lease):
                return Freed()
            late = self.late(lease=lease, now=now, spare=spare)
            dead = [SHAPE.instance_record(row) for row in await tables.run("suspects", **late)]
            if not dead:
                await _free_the_late(tables, late)
            judged = self._judged(now)
            held = [
                await tables.end_instance(Owner(one.id, one.epoch), now=judged, crashes=1) for one in dead
            ]
            left = [await tables.break_off(one.id, BrokenOff.DIED, changes) for one in dead]
            await self._count(tables, crashes(held) + broken_off(left), now)
            changes.claimable = changes.claimable or any(held)
            return freed(state for tasks in held for _, state in tasks)

        return await self._fenced(leader, now, operation)

    def may_judge(self, lease: timedelta) -> bool:
        """Whether the silence of others says anything to us."""
        return self._contact.unbroken(lease)

    def late(self, *, lease: timedelta, now: datetime, spare: Owner | None) -> dict[str, Any]:
        """What decides whose lease ran out."""
        judged = self._judged(now)
        asked = judged or self._server.now()
        return {"lease": lease, "spare": None if spare is None else spare.id, "asked": asked, "now": judged}

    async def wake(self, leader: Leader, *, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            woken = await tables.run("wake_due", now=self._judged(now), limit=limit)
            changes.claimable = changes.claimable or bool(woken)
            return len(woken)

        return await self._fenced(leader, now, operation)

    async def expire_runs(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> Freed:
        async def operation(tables: Tables, changes: Changes) -> Freed:
            rows = await tables.run("expire_runs", grace=grace, now=self._judged(now), limit=limit)
            await self._count(tables, Counter((workflow, None) for workflow, _, _ in rows), now)
            taken_away([key for _, _, key in rows], changes)
            return freed(state for _, state, _ in rows)

        return await self._fenced(leader, now, operation)

    async def expire_steps(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            judged = self._judged(now)
            overdue = await tables.run("steps_overdue", grace=grace, now=judged, limit=limit)
            if not overdue:
                return 0
            # Now that their tasks are locked: what has just been answered or begun anew is not overdue.
            expired = await tables.run(
                "expire_step",
                task_key=[task_key for task_key, _, _ in overdue],
                key=[key for _, key, _ in overdue],
                grace=grace,
                now=judged,
            )
            keys = sorted({task_key for task_key, _ in expired})
            await tables.run("take_away", keys=keys, now=judged)
            workflows = {task_key: workflow for task_key, _, workflow in overdue}
            await self._count(
                tables, Counter((workflows[task_key], agent) for task_key, agent in expired), now
            )
            taken_away(keys, changes)
            return len(expired)

        return await self._fenced(leader, now, operation)

    # What came of it

    async def recoveries(self, *, since: datetime) -> list[Recoveries]:
        async def look(tables: Tables) -> list[Recoveries]:
            return [Recoveries(*row) for row in await tables.run("recoveries", since=since)]

        return await self._session().read(look)

    async def hold_back(self, leader: Leader, control: Control, *, message: str, now: datetime) -> bool:
        async def operation(tables: Tables, changes: Changes) -> bool:
            known = await self._records.locked_control(tables, control.subject, control.name)
            pause = held_back(control, known)
            if pause is None:
                return False
            act, alert = pausing(pause, message)
            await self._records.put_control(tables, changes, known, pause, act, now=now)
            await tables.put_alerts([(alert, now)])
            return True

        return await self._fenced(leader, now, operation)

    async def record_round(self, leader: Leader, done: Round) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            newest = await tables.run("list_rounds", limit=1)
            values = SHAPE.round_values(done)
            if is_repeated(SHAPE.round(newest[0]) if newest else None, done):
                await tables.run("repeat_round", round_id=newest[0][0], **values)
            else:
                await tables.run("insert_round", **values)
                await tables.run("forget_rounds", keep=ROUNDS_KEPT)

        await self._fenced(leader, done.at, operation)

    async def rounds(self, *, limit: int) -> list[Round]:
        async def look(tables: Tables) -> list[Round]:
            return [SHAPE.round(row) for row in await tables.run("list_rounds", limit=limit)]

        return await self._session().read(look)

    async def fenced(self, leader: Leader, now: datetime, operation: Operation[Answer]) -> Answer:
        """Run ``operation`` if ``leader`` still leads. Raises LeaseLost."""
        return await self._fenced(leader, now, operation)

    # Underneath

    async def _fenced(self, leader: Leader, now: datetime, operation: Operation[Answer]) -> Answer:
        """Run ``operation`` if ``leader`` still leads; a lock on its row keeps that true until the commit."""

        async def fenced(tables: Tables, changes: Changes) -> Answer:
            leads = await tables.run("leads", holder=leader.holder, epoch=leader.epoch, now=self._judged(now))
            if not leads:
                raise LeaseLost("the lead of the supervisors", str(leader.holder))
            return await operation(tables, changes)

        return await self._session().write(fenced)

    async def _count(self, tables: Tables, recovered: Tally, now: datetime) -> None:
        """Keep how often what was recovered, and forget what is long past."""
        if not recovered:
            return
        await tables.run(
            "insert_recovery",
            workflow=[workflow for workflow, _ in recovered],
            agent=[agent for _, agent in recovered],
            number=list(recovered.values()),
            now=self._judged(now),
        )
        await tables.run(
            "forget_recoveries",
            kept=RECOVERIES_KEPT,
            limit=FORGOTTEN_PER_ROW * len(recovered),
            now=self._judged(now),
        )


async def _free_the_late(tables: Tables, late: dict[str, Any]) -> None:
    """Somebody may be late and not buried, because a transaction of its own still holds its row."""
    [[some]] = await tables.run("any_late", **late)
    if some:
        await _cut_off(tables)


async def _cut_off(tables: Tables) -> None:
    await tables.run("cut_off", standing=STANDING)
