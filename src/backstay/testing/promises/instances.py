"""The living, the dead, and what the dead held."""

from __future__ import annotations

import pytest

from backstay.domain.breaker import BreakerState
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import LeaseLost
from backstay.store.base import AgentReport, NewInstance, Report, Runnable, Store
from backstay.store.decisions import INSTANCES_KEPT
from backstay.store.supervision import Freed
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import (
    LEASE,
    RUN_TIME,
    SECOND,
    SHIP,
    Holder,
    Promises,
    applied,
    submitted,
)
from backstay.testing.records import a_step, held, let_go, replace


class InstancePromises(Promises):
    async def test_an_instance_is_listed_with_what_it_runs(self, store: Store, clock: ManualClock) -> None:
        runs = (SHIP, Runnable("bill", 3, RUN_TIME))

        instance = NewInstance(id="one", host="box", pid=7, roles=("scheduler", "supervisor"), runs=runs)
        await store.register(instance, now=clock.now())

        [one] = await store.instances()
        assert (one.id, one.host, one.pid, one.live) == ("one", "box", 7, True)
        assert one.roles == ("scheduler", "supervisor")
        assert one.runs == (("ship", 1), ("bill", 3))
        assert one.report == Report(), "it has told nothing yet"
        assert one.started_at == one.heartbeat_at == clock.now()

    async def test_the_living_are_listed_however_many_have_died_since(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        clock.pass_time(SECOND)
        for number in range(3):
            other = await Holder.joined(store, clock, f"crashing-{number}")
            await store.retire(other.owner, now=clock.now())

        first, *others = await store.instances()

        assert (first.id, first.live) == ("alice", True)
        assert [one.live for one in others] == [False] * 3

    async def test_those_that_ended_long_ago_are_forgotten(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        gone = await Holder.joined(store, clock, "gone")
        await store.retire(gone.owner, now=clock.now())
        clock.pass_time(INSTANCES_KEPT + SECOND)

        await Holder.joined(store, clock, "new")

        assert {one.id for one in await store.instances()} == {"alice", "new"}

    async def test_a_sign_of_life_is_recorded(self, store: Store, clock: ManualClock, alice: Holder) -> None:
        clock.pass_time(SECOND)

        await store.beat(alice.owner, now=clock.now())

        [one] = await store.instances()
        assert (one.heartbeat_at, one.started_at) == (clock.now(), clock.now() - SECOND)

    async def test_a_sign_of_life_brings_a_report_and_one_without_keeps_the_last(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        bank = AgentReport(
            in_flight=2, waiting=5, concurrency=2, breaker=BreakerState.OPEN, open_until=clock.now()
        )
        report = Report(in_flight=7, agents={"bank": bank})

        await store.beat(alice.owner, now=clock.now(), report=report)
        await store.beat(alice.owner, now=clock.now())

        [one] = await store.instances()
        assert one.report == report
        await store.beat(alice.owner, now=clock.now(), report=Report(in_flight=1))
        [one] = await store.instances()
        assert one.report == Report(in_flight=1)

    async def test_what_a_dead_instance_held_is_free_and_the_crash_is_counted(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(LEASE + SECOND)

        assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed(runs=1)

        assert await store.task("t") == replace(
            task,
            state=TaskState.PENDING,
            locked_by=None,
            complete_by=None,
            lock_number=task.lock_number + 1,
            crash_count=1,
            updated_at=clock.now(),
        )
        [one] = await store.instances()
        assert not one.live

    async def test_a_dead_instance_loses_everything_at_once_and_a_living_one_nothing(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(60)))
        lost, kept = await alice.claim(limit=50), await bob.claim(limit=10)
        clock.pass_time(LEASE + SECOND)
        await store.beat(bob.owner, now=clock.now())

        assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed(runs=50)

        freed = await store.standing([claimed.task.key for claimed in lost])
        assert {one.task.locked_by for one in freed} == {None}
        still = await store.standing([claimed.task.key for claimed in kept])
        assert {one.task.locked_by for one in still} == {"bob"}

    async def test_an_instance_is_alive_until_its_lease_is_over(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await alice.hold("t")
        clock.pass_time(LEASE)

        assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed()

        await store.beat(alice.owner, now=clock.now())

    async def test_a_death_is_counted_once(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await alice.hold("t")
        clock.pass_time(LEASE + SECOND)

        burials = [await store.supervision.bury(leader, lease=LEASE, now=clock.now()) for _ in range(3)]

        assert burials == [Freed(runs=1), Freed(), Freed()]

        assert (await store.task("t")).crash_count == 1

    async def test_an_instance_that_was_stalled_does_not_declare_itself_dead(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(LEASE + SECOND)

        assert (
            await store.supervision.bury(leader, lease=LEASE, now=clock.now(), spare=alice.owner) == Freed()
        )

        assert await alice.write(task, steps=[a_step()]) is None

    async def test_everything_a_dead_instance_still_writes_is_refused(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(20)))
        tasks = [claimed.task for claimed in await alice.claim()]
        clock.pass_time(LEASE + SECOND)
        await store.beat(bob.owner, now=clock.now())
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())
        await bob.claim(limit=10)

        answers = await applied(store, *(alice.turn(task, steps=[a_step()]) for task in tasks))

        assert [type(answer) for answer in answers] == [LeaseLost] * 20
        assert [await store.steps(task.id) for task in tasks] == [[]] * 20
        with pytest.raises(LeaseLost):
            await store.beat(alice.owner, now=clock.now())

    async def test_an_undo_that_a_dead_instance_held_is_freed_stays_an_undo_and_the_crash_is_counted(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        undoing = held(task, TaskState.UNDOING)
        await alice.write(task, steps=[a_step(StepState.UNDOING)], task=undoing)
        clock.pass_time(LEASE + SECOND)

        assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed(undos=1)

        freed = let_go(undoing, TaskState.UNDOING, lock_number=task.lock_number + 1, updated_at=clock.now())
        assert await store.task("t") == replace(freed, crash_count=1)

    async def test_an_instance_that_retires_frees_its_tasks_and_blames_nobody(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder
    ) -> None:
        task = await alice.hold("t")

        assert await store.retire(alice.owner, now=clock.now()) == 1

        assert await store.task("t") == let_go(task, TaskState.PENDING, lock_number=task.lock_number + 1)
        assert {one.id for one in await store.instances() if one.live} == {"bob"}
        [claimed] = await bob.claim()
        assert claimed.task.locked_by == "bob"

    async def test_an_instance_that_retired_writes_nothing_more(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.retire(alice.owner, now=clock.now())

        assert isinstance(await alice.write(task, steps=[a_step()]), LeaseLost)
        with pytest.raises(LeaseLost):
            await store.beat(alice.owner, now=clock.now())
        assert await store.retire(alice.owner, now=clock.now()) == 0

    async def test_an_instance_that_is_buried_already_has_nothing_to_retire_from(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        await alice.hold("t")
        clock.pass_time(LEASE + SECOND)
        await store.beat(bob.owner, now=clock.now())
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())
        await bob.claim()

        assert await store.retire(alice.owner, now=clock.now()) == 0

        assert (await store.task("t")).locked_by == "bob"
