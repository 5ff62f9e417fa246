"""What SQLite does for the supervisor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from backstay.domain.control import Control, held_back
from backstay.domain.instants import micros
from backstay.domain.intensity import pausing
from backstay.domain.lease import Leader, Owner, is_stale
from backstay.domain.request import BrokenOff
from backstay.errors import LeaseLost
from backstay.store.base import Changes, InstanceRecord
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
from backstay.store.sqlite.liveness import Liveness
from backstay.store.sqlite.records import put_control
from backstay.store.sqlite.rows import SHAPE
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables
from backstay.store.supervision import Freed, Recoveries, Round

Answer = TypeVar("Answer")


class SqliteSupervision:
    """The supervisor's verbs on one file. Its lock files tell of a death before any lease does."""

    def __init__(self, session: Callable[[], Session], liveness: Liveness) -> None:
        self._session = session
        self._liveness = liveness

    # Who leads

    async def lead(self, holder: str, *, lease: timedelta, now: datetime) -> Leader:
        def operation(tables: Tables, _changes: Changes) -> Leader:
            until = micros(now + lease)
            if tables.run("renew_lead", holder=holder, until=until, now=micros(now)).rowcount == 0:
                self._take_lead(tables, holder, until=until, now=now)
            return tables.leader()

        # An instance holds its lock already. Whoever is none holds one for as long as it leads.
        just_held = self._liveness.hold_if_free(holder)
        leader = Leader()
        try:
            leader = await self._session().write(operation)
        finally:
            if just_held and leader.holder != holder:
                self._liveness.release(holder)
        return leader

    def _take_lead(self, tables: Tables, holder: str, *, until: int, now: datetime) -> None:
        """Take the lead if it is free."""
        before = tables.leader().holder
        gone = before is not None and self._liveness.is_dead(before)
        tables.run("take_lead", holder=holder, until=until, gone=gone, now=micros(now))
        if before is not None and gone and not tables.epochs([before]):
            # The file of an instance stays: its burial asks for it.
            self._liveness.forget(before)

    async def step_down(self, leader: Leader, *, now: datetime) -> None:  # noqa: ARG002  Nobody is late here.
        holder = leader.holder
        if holder is None:
            return

        def operation(tables: Tables, _changes: Changes) -> bool:
            tables.run("step_down", holder=holder, epoch=leader.epoch)
            return tables.leader().holder != holder and not tables.epochs([holder])

        if await self._session().write(operation):
            self._liveness.release(holder)

    async def leader(self) -> Leader:
        def look(tables: Tables) -> Leader:
            leader = tables.leader()
            gone = leader.holder is not None and self._liveness.is_dead(leader.holder)
            return Leader(epoch=leader.epoch) if gone else leader

        return await self._session().read(look)

    # One round

    async def work_waits(
        self, *, lease: timedelta, grace: timedelta, now: datetime, spare: Owner | None
    ) -> bool:
        def look(tables: Tables) -> bool:
            [waits] = tables.run("work_waits", now=micros(now), before=micros(now - grace)).fetchone()
            return bool(waits) or bool(self.dead(tables, lease=lease, now=now, spare=spare))

        return await self._session().read(look)

    async def bury(
        self, leader: Leader, *, lease: timedelta, now: datetime, spare: Owner | None = None
    ) -> Freed:
        def operation(tables: Tables, changes: Changes) -> Freed:
            dead = self.dead(tables, lease=lease, now=now, spare=spare)
            held = [tables.end_instance(Owner(one.id, one.epoch), now=now, crashes=1) for one in dead]
            for one in dead:
                self._liveness.forget(one.id)
            left = [tables.break_off(one.id, BrokenOff.DIED, changes) for one in dead]
            _count(tables, crashes(held) + broken_off(left), now)
            changes.claimable = changes.claimable or any(held)
            return freed(state for tasks in held for _, state in tasks)

        return await self._fenced(leader, now, operation)

    def dead(
        self, tables: Tables, *, lease: timedelta, now: datetime, spare: Owner | None
    ) -> list[InstanceRecord]:
        """Who is to be declared dead: its process has ended, or its lease has."""
        live = [SHAPE.instance_record(row) for row in tables.run("suspects").fetchall()]
        others = [one for one in live if spare is None or one.id != spare.id]
        return [
            one
            for one in others
            if is_stale(one.heartbeat_at, lease=lease, now=now) or self._liveness.is_dead(one.id)
        ]

    async def wake(self, leader: Leader, *, now: datetime, limit: int) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            woken = tables.run("wake_due", now=micros(now), limit=limit).rowcount
            changes.claimable = changes.claimable or woken > 0
            return woken

        return await self._fenced(leader, now, operation)

    async def expire_runs(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> Freed:
        def operation(tables: Tables, changes: Changes) -> Freed:
            rows = tables.run(
                "expire_runs", now=micros(now), before=micros(now - grace), limit=limit
            ).fetchall()
            _count(tables, Counter((workflow, None) for workflow, _, _ in rows), now)
            taken_away([key for _, _, key in rows], changes)
            return freed(state for _, state, _ in rows)

        return await self._fenced(leader, now, operation)

    async def expire_steps(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            overdue = tables.run("steps_overdue", before=micros(now - grace), limit=limit).fetchall()
            for task_key, key, _, _ in overdue:
                tables.run("expire_step", task_key=task_key, key=key, now=micros(now))
            keys = sorted({task_key for task_key, *_ in overdue})
            for task_key in keys:
                tables.run("take_away", key=task_key, now=micros(now))
            _count(tables, Counter((workflow, agent) for _, _, workflow, agent in overdue), now)
            taken_away(keys, changes)
            return len(overdue)

        return await self._fenced(leader, now, operation)

    # What came of it

    async def recoveries(self, *, since: datetime) -> list[Recoveries]:
        return await self._session().read(
            lambda tables: [Recoveries(*row) for row in tables.run("recoveries", since=micros(since))]
        )

    async def hold_back(self, leader: Leader, control: Control, *, message: str, now: datetime) -> bool:
        def operation(tables: Tables, changes: Changes) -> bool:
            known = tables.control(control.subject, control.name)
            pause = held_back(control, known)
            if pause is None:
                return False
            act, alert = pausing(pause, message)
            put_control(tables, changes, known, pause, act, now=now)
            tables.put_alerts([(alert, now)])
            return True

        return await self._fenced(leader, now, operation)

    async def record_round(self, leader: Leader, done: Round) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            newest = tables.run("list_rounds", limit=1).fetchone()
            values = SHAPE.round_values(done)
            if is_repeated(newest and SHAPE.round(newest), done):
                tables.run("repeat_round", round_id=newest[0], **values)
            else:
                tables.run("insert_round", **values)
                tables.run("forget_rounds", keep=ROUNDS_KEPT)

        await self._fenced(leader, done.at, operation)

    async def rounds(self, *, limit: int) -> list[Round]:
        return await self._session().read(
            lambda tables: [SHAPE.round(row) for row in tables.run("list_rounds", limit=limit)]
        )

    async def fenced(
        self, leader: Leader, now: datetime, operation: Callable[[Tables, Changes], Answer]
    ) -> Answer:
        """Run ``operation`` if ``leader`` still leads. Raises LeaseLost."""
        return await self._fenced(leader, now, operation)

    # Underneath

    async def _fenced(
        self, leader: Leader, now: datetime, operation: Callable[[Tables, Changes], Answer]
    ) -> Answer:
        """Run ``operation`` if ``leader`` still leads; the write lock keeps that true until the commit."""

        def fenced(tables: Tables, changes: Changes) -> Answer:
            found = tables.run("leads", holder=leader.holder, epoch=leader.epoch, now=micros(now))
            if found.fetchone() is None:
                raise LeaseLost("the lead of the supervisors", str(leader.holder))
            return operation(tables, changes)

        return await self._session().write(fenced)


def _count(tables: Tables, recovered: Tally, now: datetime) -> None:
    """Keep how often what was recovered, and forget what is long past."""
    if not recovered:
        return
    rows = [(micros(now), workflow, agent, number) for (workflow, agent), number in recovered.items()]
    tables.run_many("insert_recovery", rows)
    tables.run("forget_recoveries", before=micros(now - RECOVERIES_KEPT), limit=FORGOTTEN_PER_ROW * len(rows))
