"""What a supervisor's round finds to do, what it counts and holds back, and what is kept of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import pytest

from backstay.domain.alert import AlertKind
from backstay.domain.control import Forced, Subject
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.store.base import Runnable, Store
from backstay.store.records import AlertFilter, AuditFilter
from backstay.store.supervision import Recoveries, Round
from backstay.testing.clock import ManualClock
from backstay.testing.promises.controls import force_breaker, pause
from backstay.testing.promises.holder import (
    CANCEL,
    LEASE,
    MANY,
    NO_GRACE,
    RUN_TIME,
    SECOND,
    SHIP,
    Holder,
    Promises,
    batches,
    submitted,
)
from backstay.testing.promises.leader_verbs import (
    SWEEPS,
    Verb,
    a_pause,
    bury,
    expire_runs,
    expire_steps,
    hold_back,
    wake,
)
from backstay.testing.promises.listeners import Ear
from backstay.testing.records import a_step, held, replace

BILL: Final = Runnable("bill", 1, RUN_TIME)
DAY: Final = timedelta(days=1)


class RoundPromises(Promises):
    # Whether there is work

    async def test_where_nothing_is_late_no_work_waits(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        assert not await self._work_waits(store, clock)
        await alice.leave(await alice.hold("later"), TaskState.WAITING, wake_at=clock.now() + RUN_TIME)
        await alice.leave(await alice.hold("called"), TaskState.WAITING, wake_at=None)
        await alice.leave(await alice.hold("over"), TaskState.PROCESSED)
        running = await alice.hold("running", hard_end=clock.now() + LEASE)
        await alice.write(running, steps=[a_step(StepState.RUNNING, complete_by=clock.now() + LEASE)])
        clock.pass_time(LEASE)

        assert not await self._work_waits(store, clock)

    @pytest.mark.parametrize("verb", SWEEPS)
    async def test_work_waits_exactly_until_the_sweep_has_done_it(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, verb: Verb
    ) -> None:
        await self._work_for(verb, store, clock, alice)

        assert await self._work_waits(store, clock)
        await verb(store.supervision, leader, clock)

        assert not await self._work_waits(store, clock)

    async def test_a_run_past_its_hard_end_is_work(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await alice.hold("t", hard_end=clock.now())
        clock.pass_time(SECOND)

        assert await self._work_waits(store, clock)
        assert not await self._work_waits(store, clock, grace=SECOND)
        await expire_runs(store.supervision, leader, clock)

        assert not await self._work_waits(store, clock)

    async def test_who_asks_is_no_work_to_itself_however_late_it_is(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        clock.pass_time(LEASE + SECOND)

        assert await self._work_waits(store, clock)
        assert not await self._work_waits(store, clock, spare=alice)

    async def _work_waits(
        self, store: Store, clock: ManualClock, *, grace: timedelta = NO_GRACE, spare: Holder | None = None
    ) -> bool:
        owner = None if spare is None else spare.owner
        return await store.supervision.work_waits(lease=LEASE, grace=grace, now=clock.now(), spare=owner)

    async def _work_for(self, verb: Verb, store: Store, clock: ManualClock, alice: Holder) -> None:
        task = await alice.hold("t")
        if verb is wake:
            await alice.leave(task, TaskState.WAITING, wake_at=clock.now())
        elif verb is expire_steps:
            await alice.write(task, steps=[a_step(StepState.RUNNING, complete_by=clock.now())])
            clock.pass_time(SECOND)
        elif verb is expire_runs:
            clock.pass_time(RUN_TIME + SECOND)
            await store.beat(alice.owner, now=clock.now())
        else:
            clock.pass_time(LEASE + SECOND)

    # Recoveries

    async def test_a_death_is_one_recovery_of_each_workflow_of_which_tasks_were_held(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        await submitted(store, clock, "s1", "s2", "s3")
        await submitted(store, clock, "b1", workflow="bill")
        await alice.claim(limit=2)
        await bob.claim(runs=[SHIP, BILL])
        await Holder.joined(store, clock, "idle")
        clock.pass_time(LEASE + SECOND)

        await bury(store.supervision, leader, clock)

        recoveries = await store.supervision.recoveries(since=clock.now())
        assert recoveries == [Recoveries("bill", None, 1), Recoveries("ship", None, 2)]

    async def test_each_overrun_is_a_recovery_of_its_workflow_an_undo_as_well(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, "s1", "s2")
        await submitted(store, clock, "b1", workflow="bill")
        [first, *_] = await alice.claim(runs=[SHIP, BILL])
        await alice.write(first.task, task=held(first.task, TaskState.UNDOING))
        clock.pass_time(RUN_TIME + SECOND)

        await expire_runs(store.supervision, leader, clock)

        recoveries = await store.supervision.recoveries(since=clock.now())
        assert recoveries == [Recoveries("bill", None, 1), Recoveries("ship", None, 2)]

    async def test_each_expired_step_is_a_recovery_of_its_agent_in_its_workflow(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        agents = {"a:1": "bank", "b:1": "bank", "c:1": "drone"}
        steps = [
            a_step(StepState.RUNNING, key=key, agent=agent, complete_by=clock.now())
            for key, agent in agents.items()
        ]
        for name in ("s1", "s2"):
            await alice.write(await alice.hold(name), steps=steps)
        clock.pass_time(SECOND)

        await expire_steps(store.supervision, leader, clock)

        recoveries = await store.supervision.recoveries(since=clock.now())
        assert recoveries == [Recoveries("ship", "bank", 4), Recoveries("ship", "drone", 2)]

    async def test_what_ends_or_wakes_as_it_should_is_no_recovery(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("w"), TaskState.WAITING, wake_at=clock.now())
        await wake(store.supervision, leader, clock)
        await alice.claim()
        await store.retire(alice.owner, now=clock.now())
        for verb in SWEEPS:
            await verb(store.supervision, leader, clock)

        assert await store.supervision.recoveries(since=clock.now() - DAY) == []

    async def test_recoveries_are_added_up_since_a_given_instant(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        start = clock.now()
        for name in ("t1", "t2", "t3"):
            await alice.hold(name)
            clock.pass_time(RUN_TIME + SECOND)
            await expire_runs(store.supervision, leader, clock)
            await alice.claim()
        last = clock.now()

        assert await store.supervision.recoveries(since=start) == [Recoveries("ship", None, 1 + 2 + 3)]
        assert await store.supervision.recoveries(since=last) == [Recoveries("ship", None, 3)]
        assert await store.supervision.recoveries(since=last + SECOND) == []

    async def test_what_was_recovered_more_than_a_day_ago_is_forgotten_in_time(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        start = clock.now()
        for workflow in ("ship", "bill"):
            await submitted(store, clock, workflow, workflow=workflow)
            await alice.claim(runs=[SHIP, BILL])
            clock.pass_time(RUN_TIME + SECOND)
            await expire_runs(store.supervision, leader, clock)
            await store.amend(workflow, CANCEL, now=clock.now())
            clock.pass_time(DAY)

        assert await store.supervision.recoveries(since=start) == [Recoveries("bill", None, 1)]

    # Holding back

    @pytest.mark.parametrize(
        ("subject", "kind"),
        [
            (Subject.WORKFLOW, AlertKind.WORKFLOW_PAUSED),
            (Subject.AGENT, AlertKind.AGENT_PAUSED),
        ],
    )
    async def test_what_had_to_be_recovered_too_often_is_paused_with_an_alert_and_a_line_in_the_trail(
        self, store: Store, clock: ManualClock, leader: Leader, subject: Subject, kind: AlertKind
    ) -> None:
        control = a_pause(clock, "ship", subject)
        ear = Ear(store)

        assert await store.supervision.hold_back(leader, control, message="6 in 60 s", now=clock.now())

        assert await store.records.controls() == [control]
        [alert] = await store.records.alerts(AlertFilter(open_only=True))
        assert (alert.kind, alert.message, alert.at) == (kind, "6 in 60 s", clock.now())
        assert (alert.task_id, alert.step) == (None, None)
        [entry] = await store.records.audit(AuditFilter())
        assert (entry.who, entry.action, entry.target) == ("supervisor", "pause", f"{subject}:ship")
        assert (entry.at, entry.reason, entry.before) == (clock.now(), "recovered too often", None)
        assert entry.after is not None
        assert entry.after["paused"] is True
        assert ear.controls

    async def test_what_is_paused_already_is_left_as_it_is(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await pause(store, clock, Subject.WORKFLOW, "ship")
        before = await store.records.controls(), await store.records.audit(AuditFilter())

        assert not await hold_back(store.supervision, leader, clock)

        assert (await store.records.controls(), await store.records.audit(AuditFilter())) == before
        assert await store.records.alerts(AlertFilter()) == []

    async def test_a_breaker_that_a_person_holds_stays_as_it_is(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await force_breaker(store, clock, "bank", Forced.CLOSED)
        control = a_pause(clock, "bank", Subject.AGENT)

        assert await store.supervision.hold_back(leader, control, message="too often", now=clock.now())

        [found] = await store.records.controls()
        assert found == replace(control, breaker=Forced.CLOSED)

    # Rounds

    async def test_rounds_are_kept_and_listed_newest_first(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        first = Round(
            at=clock.now(), epoch=1, freed=2, overrun=3, steps_expired=4, undos=5, woken=6, paused=7
        )
        second = Round(at=clock.now() + SECOND, epoch=leader.epoch, woken=1)

        for done in (first, second):
            await store.supervision.record_round(leader, done)

        assert await store.supervision.rounds(limit=10) == [second, first]
        assert await store.supervision.rounds(limit=1) == [second]

    async def test_of_idle_rounds_in_a_row_only_the_last_is_kept(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        busy, idle = {"woken": 1}, dict[str, int]()
        kinds = [idle, idle, busy, busy, idle, idle, idle, busy, idle]
        done = [Round(at=clock.now() + number * SECOND, **kind) for number, kind in enumerate(kinds)]

        for one in done:
            await store.supervision.record_round(leader, one)

        kept = [done[number] for number in (8, 7, 6, 3, 2, 1)]
        assert await store.supervision.rounds(limit=MANY) == kept

    async def test_no_more_than_the_last_thousand_rounds_are_kept(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        oldest, newest = Round(at=clock.now(), freed=1), Round(at=clock.now(), freed=2)
        between = [Round(at=clock.now(), woken=number) for number in range(1, 1_000)]

        await store.supervision.record_round(leader, oldest)
        for few in batches(between):
            await asyncio.gather(*(store.supervision.record_round(leader, one) for one in few))
        await store.supervision.record_round(leader, newest)

        kept = await store.supervision.rounds(limit=2_000)
        assert (len(kept), kept[0], oldest in kept) == (1_000, newest, False)
