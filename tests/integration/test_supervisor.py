"""The supervisor: one of many leads, its rounds free what nobody moves, and what comes back is held back.

Proves SAS-05, SAS-06, SAS-09, SAS-12, SAS-28, VA-06, VA-07, VA-08, LE-1 to LE-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from backstay.definitions.registry import Registry
from backstay.domain.alert import AlertKind
from backstay.domain.control import Subject
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import StoreUnavailable
from backstay.operating import Operator
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.records import AlertFilter, AuditFilter
from backstay.store.supervision import Freed, Supervision
from backstay.supervisor.loop import Supervisor
from backstay.supervisor.sweep import EXPIRY_GRACE, PAGE
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import RUN_TIME, Holder, submitted
from backstay.testing.records import a_step, let_go
from tests.support.databases import Database, PostgresDatabase

SECOND = timedelta(seconds=1)
SETTINGS = Settings(recoveries_max=2)
LEASE = SETTINGS.lease


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    # Time passes when the test says so, on the server as well.
    by_hand = {"server_clock": False} if isinstance(database, PostgresDatabase) else {}
    store = database.store(**by_hand)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def worker(store: Store, clock: ManualClock) -> Holder:
    return await Holder.joined(store, clock, "worker")


def supervisor(store: Store, clock: ManualClock, name: str = "one", **settings: Any) -> Supervisor:
    return Supervisor(
        store.supervision, name, settings=Settings(**{"recoveries_max": 2, **settings}), clock=clock
    )


def operator(store: Store, clock: ManualClock) -> Operator:
    return Operator(store, Registry(), settings=SETTINGS, clock=clock, who="ada")


async def leader_of(store: Store) -> Leader:
    return await store.supervision.leader()


class TestWhoLeads:
    async def test_the_first_who_asks_leads_and_the_others_wait(self, store: Store, clock: ManualClock):
        one, two = supervisor(store, clock, "one"), supervisor(store, clock, "two")

        assert await one.run_once() is not None
        assert await two.run_once() is None

        assert (await leader_of(store)).holder == "one"
        assert (one.leads, two.leads) == (True, False)

    async def test_of_many_who_ask_at_once_exactly_one_leads(self, store: Store, clock: ManualClock):
        many = [supervisor(store, clock, f"number-{number}") for number in range(8)]

        rounds = await asyncio.gather(*(one.run_once() for one in many))

        assert sum(done is not None for done in rounds) == 1
        assert sum(one.leads for one in many) == 1

    async def test_a_leader_renews_with_each_heartbeat_and_not_more_often(
        self, store: Store, clock: ManualClock
    ):
        one = supervisor(store, clock)
        await one.run_once()
        begun = await leader_of(store)

        clock.pass_time(SETTINGS.heartbeat - SECOND)
        await one.run_once()
        assert await leader_of(store) == begun

        clock.pass_time(SECOND)
        await one.run_once()
        renewed = await leader_of(store)
        assert (renewed.epoch, renewed.until) == (begun.epoch, clock.now() + LEASE)

    async def test_who_steps_down_is_followed_at_once(self, store: Store, clock: ManualClock):
        one, two = supervisor(store, clock, "one"), supervisor(store, clock, "two")
        await one.run_once()
        await two.run_once()

        await one.step_down()

        assert await two.run_once() is not None
        assert (await leader_of(store)).holder == "two"

    async def test_a_leader_that_stalls_loses_the_lead_although_it_lives(
        self, store: Store, clock: ManualClock
    ):
        one, two = supervisor(store, clock, "one"), supervisor(store, clock, "two")
        await one.run_once()
        first = await leader_of(store)
        clock.pass_time(LEASE + SECOND)

        assert await two.run_once() is not None

        second = await leader_of(store)
        assert (second.holder, second.epoch) == ("two", first.epoch + 1)
        assert await one.run_once() is None
        assert not one.leads

    async def test_one_that_is_displaced_in_the_middle_of_a_round_changes_nothing_after_that(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        task = await worker.hold("t")
        clock.pass_time(RUN_TIME + SECOND)

        class Stalling:
            """Stands still between looking and acting, for as long as another needs to take over."""

            def __getattr__(self, name: str) -> Any:
                return getattr(store.supervision, name)

            async def bury(self, leader: Leader, **how: Any) -> Freed:
                clock.pass_time(LEASE + SECOND)
                assert await supervisor(store, clock, "two").run_once() is not None
                return await store.supervision.bury(leader, **how)

        stalling: Supervision = Stalling()
        one = Supervisor(stalling, "one", settings=SETTINGS, clock=clock)

        assert await one.run_once() is None

        found = await store.task("t")
        assert (found.state, found.lock_number) == (TaskState.PENDING, task.lock_number + 1)
        assert (await leader_of(store)).holder == "two"

    async def test_one_whose_lease_runs_out_in_the_middle_of_a_round_stops_although_nobody_took_over(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        await worker.hold("t")
        clock.pass_time(RUN_TIME + SECOND)

        class Stalling:
            def __getattr__(self, name: str) -> Any:
                return getattr(store.supervision, name)

            async def expire_runs(self, leader: Leader, **how: Any) -> Freed:
                raise AssertionError("it must not come so far")

            async def work_waits(self, **how: Any) -> bool:
                clock.pass_time(LEASE + SECOND)
                return True

        stalling: Supervision = Stalling()
        one = Supervisor(stalling, "one", settings=SETTINGS, clock=clock)

        assert await one.run_once() is None
        assert (await store.task("t")).state is TaskState.PROCESSING

    async def test_while_the_store_is_away_nobody_leads_and_nobody_breaks(
        self, store: Store, clock: ManualClock
    ):
        class Away:
            def __init__(self) -> None:
                self.away = True
                self.asked = 0

            def __getattr__(self, name: str) -> Any:
                return getattr(store.supervision, name)

            async def lead(self, holder: str, *, lease: timedelta, now: datetime) -> Leader:
                self.asked += 1
                if self.away:
                    clock.pass_time(SECOND)
                    raise StoreUnavailable("away")
                return await store.supervision.lead(holder, lease=lease, now=now)

        away = Away()
        one = Supervisor(
            away,
            "one",
            settings=Settings(supervisor_period=timedelta(milliseconds=1), heartbeat=SECOND),
            clock=clock,
        )
        running = asyncio.create_task(one.run())
        while away.asked < 3:
            await asyncio.sleep(0)
        assert not running.done()

        away.away = False
        clock.pass_time(2 * SECOND)
        while not one.leads:
            await asyncio.sleep(0.001)

        running.cancel()
        await asyncio.wait([running])
        assert (await leader_of(store)).holder is None, "a graceful stop gives up the lead"


class TestRounds:
    async def test_what_a_round_did_is_kept_and_idle_ones_only_with_a_renewal(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        one = supervisor(store, clock)
        await one.run_once()
        clock.pass_time(SECOND)
        await one.run_once()
        [idle] = await store.supervision.rounds(limit=10)
        assert (idle.at, idle.idle) == (clock.now() - SECOND, True)

        await worker.hold("t")
        clock.pass_time(RUN_TIME + SECOND)
        await store.beat(worker.owner, now=clock.now())
        await one.run_once()

        [busy, *_] = await store.supervision.rounds(limit=10)
        assert (busy.at, busy.recovered, busy.overrun) == (clock.now(), 1, 1)

    async def test_a_run_that_nobody_moves_is_taken_up_again_from_where_it_stood(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        # VA-07: every step is as it should be, the process lives, and still nothing happens.
        task = await worker.hold("t")
        await worker.write(task, steps=[a_step(StepState.COMPLETED, key="charge:1")])
        clock.pass_time(RUN_TIME + SECOND)
        await store.beat(worker.owner, now=clock.now())

        done = await supervisor(store, clock).run_once()

        assert done is not None
        assert (done.freed, done.overrun) == (0, 1)
        other = await Holder.joined(store, clock, "other")
        [claimed] = await other.claim()
        assert (claimed.task.id, claimed.task.failure_count) == ("t", 1)
        assert [(step.key, step.state) for step in claimed.steps] == [("charge:1", StepState.COMPLETED)]

    async def test_a_task_whose_holder_sleeps_through_its_hard_end_is_taken_away(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        await worker.hold("t", hard_end=clock.now() + SECOND)
        clock.pass_time(SECOND + EXPIRY_GRACE)
        assert (await supervisor(store, clock, "early").run_once(recorded=True)) is not None
        assert (await store.task("t")).state is TaskState.PROCESSING

        clock.pass_time(LEASE)
        await store.beat(worker.owner, now=clock.now())
        done = await supervisor(store, clock, "late").run_once()

        assert done is not None
        assert done.overrun == 1
        assert (await store.task("t")).state is TaskState.PENDING

    async def test_more_than_a_page_is_done_in_one_round(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        ids = [f"t{number}" for number in range(PAGE + 200)]
        await submitted(store, clock, *ids)
        due = clock.now() + SECOND
        answers = [
            worker.post(one.task, task=let_go(one.task, TaskState.WAITING, parked=True, wake_at=due))
            for one in await worker.claim()
        ]
        assert set(await asyncio.gather(*answers)) == {None}
        clock.pass_time(2 * SECOND)

        done = await supervisor(store, clock).run_once()

        assert done is not None
        assert done.woken == len(ids)

    async def test_two_supervisors_never_recover_the_same_step(
        self, store: Store, clock: ManualClock, worker: Holder
    ):
        task = await worker.hold("t")
        running = a_step(StepState.RUNNING, key="charge:1", complete_by=clock.now() + SECOND)
        await worker.write(task, steps=[running])
        clock.pass_time(SECOND + EXPIRY_GRACE + SECOND)
        await store.beat(worker.owner, now=clock.now())
        many = [supervisor(store, clock, f"number-{number}") for number in range(5)]

        await asyncio.gather(*(one.run_once() for one in many for _ in range(3)))

        [step] = await store.steps("t")
        assert (step.failure_count, step.unsure) == (1, True)
        assert (await store.task("t")).lock_number == task.lock_number + 1


class TestIntensity:
    async def die(self, store: Store, clock: ManualClock, name: str) -> None:
        """A process takes up the task and is never heard of again."""
        victim = await Holder.joined(store, clock, name)
        assert len(await victim.claim()) == 1
        clock.pass_time(LEASE + SECOND)

    async def test_a_workflow_that_keeps_killing_its_process_is_paused_with_an_alert(
        self, store: Store, clock: ManualClock
    ):
        await submitted(store, clock, "poison")
        one = supervisor(store, clock)
        rounds = []
        for number in range(3):
            await self.die(store, clock, f"victim-{number}")
            rounds.append(await one.run_once())

        assert [done and done.paused for done in rounds] == [0, 0, 1]
        [control] = await store.records.controls()
        assert (control.subject, control.name, control.by) == (Subject.WORKFLOW, "ship", "supervisor")
        [alert] = await store.records.alerts(AlertFilter())
        assert alert.kind is AlertKind.WORKFLOW_PAUSED
        assert "workflow ship is paused after 3 recoveries within 1m" in alert.message
        [entry] = await store.records.audit(AuditFilter())
        assert (entry.who, entry.action, entry.target) == ("supervisor", "pause", "workflow:ship")
        heir = await Holder.joined(store, clock, "heir")
        assert await heir.claim() == []

    async def test_what_a_person_lets_go_on_is_not_paused_again_for_what_happened_before(
        self, store: Store, clock: ManualClock
    ):
        await submitted(store, clock, "poison")
        one = supervisor(store, clock)
        for number in range(3):
            await self.die(store, clock, f"victim-{number}")
            await one.run_once()

        await operator(store, clock).resume_workflow("ship", reason="fixed")
        await self.die(store, clock, "one-more")
        done = await one.run_once()

        assert done is not None
        assert (done.freed, done.paused) == (1, 0)

    async def test_one_dead_process_counts_once_however_much_it_held(self, store: Store, clock: ManualClock):
        await submitted(store, clock, *(f"t{number}" for number in range(50)))
        victim = await Holder.joined(store, clock, "victim")
        assert len(await victim.claim()) == 50
        clock.pass_time(LEASE + SECOND)

        done = await supervisor(store, clock).run_once()

        assert done is not None
        assert (done.freed, done.paused) == (50, 0)

    async def test_what_is_spread_over_a_longer_time_is_no_reason_to_pause(
        self, store: Store, clock: ManualClock
    ):
        await submitted(store, clock, "unlucky")
        one = supervisor(store, clock, recoveries_within=timedelta(seconds=20))
        for number in range(5):
            await self.die(store, clock, f"victim-{number}")
            await one.run_once()

        assert await store.records.controls() == []

    async def test_an_agent_whose_steps_keep_hanging_is_paused_and_not_the_workflow(
        self, store: Store, clock: ManualClock
    ):
        await submitted(store, clock, "t")
        one = supervisor(store, clock)
        for number in range(3):
            holder = await Holder.joined(store, clock, f"deaf-{number}")
            [claimed] = await holder.claim()
            hung = a_step(
                StepState.RUNNING, key="charge:1", attempt=number + 1, complete_by=clock.now() + SECOND
            )
            assert await holder.write(claimed.task, steps=[hung]) is None
            clock.pass_time(SECOND + EXPIRY_GRACE + SECOND)
            await store.beat(holder.owner, now=clock.now())
            await one.run_once()

        [control] = await store.records.controls()
        assert (control.subject, control.name) == (Subject.AGENT, "bank")
        [alert] = await store.records.alerts(AlertFilter())
        assert alert.kind is AlertKind.AGENT_PAUSED
