"""Wake-ups and missed complete-bys."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind
from backstay.errors import LeaseLost
from backstay.store.base import Store
from backstay.store.supervision import Freed
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import MANY, NO_GRACE, RUN_TIME, SECOND, Holder, Promises, submitted
from backstay.testing.records import a_step, a_wait, held, let_go, replace


class ExpiryPromises(Promises):
    # Wake-ups

    async def test_a_parked_task_is_claimable_once_its_time_has_come(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.WAITING, wake_at=clock.now() + SECOND)

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 0
        clock.pass_time(SECOND)
        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 1

        assert await store.task("t") == let_go(task, TaskState.PENDING, updated_at=clock.now())
        assert len(await alice.claim()) == 1

    async def test_a_parked_undo_goes_on_as_an_undo(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.UNDOING, parked=True, wake_at=clock.now())

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 1

        [claimed] = await alice.claim()
        assert (claimed.task.state, claimed.task.parked, claimed.task.wake_at) == (
            TaskState.UNDOING,
            False,
            None,
        )

    async def test_a_task_parked_without_a_time_is_not_woken_by_time(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.WAITING, wake_at=None)
        clock.pass_time(timedelta(days=1_000))

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 0

    async def test_one_pass_wakes_no_more_than_its_limit_and_those_first_that_were_due_first(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, "late", "early", "middle")
        due = {"late": 3, "early": 1, "middle": 2}
        for claimed in await alice.claim():
            wake_at = clock.now() + due[claimed.task.id] * SECOND
            await alice.leave(claimed.task, TaskState.WAITING, wake_at=wake_at)
        clock.pass_time(10 * SECOND)

        assert await store.supervision.wake(leader, now=clock.now(), limit=2) == 2

        assert {claimed.task.id for claimed in await alice.claim()} == {"early", "middle"}

    # Runs

    async def test_a_run_past_its_complete_by_is_taken_away_and_counted_as_a_failure(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(RUN_TIME + SECOND)

        assert await store.supervision.expire_runs(
            leader, grace=NO_GRACE, now=clock.now(), limit=MANY
        ) == Freed(runs=1)

        freed = let_go(task, TaskState.PENDING, lock_number=task.lock_number + 1, updated_at=clock.now())
        assert await store.task("t") == replace(freed, failure_count=1)
        assert isinstance(await alice.write(task, steps=[a_step()]), LeaseLost)

    async def test_a_run_in_time_is_left_alone(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(RUN_TIME)

        assert (
            await store.supervision.expire_runs(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)
            == Freed()
        )

        assert await store.task("t") == task

    async def test_an_overrun_undo_is_taken_up_again_without_blame(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, task=held(task, TaskState.UNDOING))
        clock.pass_time(RUN_TIME + SECOND)

        assert await store.supervision.expire_runs(
            leader, grace=NO_GRACE, now=clock.now(), limit=MANY
        ) == Freed(undos=1)

        [claimed] = await bob.claim()
        assert (claimed.task.state, claimed.task.failure_count) == (TaskState.UNDOING, 0)

    async def test_one_pass_expires_no_more_runs_than_its_limit(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(6)))
        for claimed in (await alice.claim())[:3]:
            await alice.write(claimed.task, task=held(claimed.task, TaskState.UNDOING))
        clock.pass_time(RUN_TIME + SECOND)

        passes = [
            await store.supervision.expire_runs(leader, grace=NO_GRACE, now=clock.now(), limit=4)
            for _ in range(3)
        ]

        assert [one.runs + one.undos for one in passes] == [4, 2, 0]
        assert sum(one.undos for one in passes) == 3

    async def test_a_run_that_its_holder_did_not_stop_at_its_hard_end_is_taken_away_after_the_grace(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t", hard_end=clock.now() + SECOND)
        sweep = partial(store.supervision.expire_runs, leader, grace=SECOND, limit=MANY)
        clock.pass_time(2 * SECOND)

        assert await sweep(now=clock.now()) == Freed(), "the holder may still be about to stop it"
        clock.pass_time(SECOND)
        assert await sweep(now=clock.now()) == Freed(runs=1)

        freed = let_go(task, TaskState.PENDING, lock_number=task.lock_number + 1, updated_at=clock.now())
        assert await store.task("t") == replace(freed, failure_count=1)

    async def test_who_claims_a_task_after_its_hard_end_gets_the_grace_as_well(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, "t", hard_end=clock.now() + SECOND)
        clock.pass_time(10 * SECOND)
        [claimed] = await alice.claim()
        sweep = partial(store.supervision.expire_runs, leader, grace=SECOND, limit=MANY)

        assert await sweep(now=clock.now()) == Freed()

        assert await store.task("t") == claimed.task
        clock.pass_time(2 * SECOND)
        assert await sweep(now=clock.now()) == Freed(runs=1)

    async def test_an_undo_has_no_hard_end(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t", hard_end=clock.now())
        await alice.write(task, task=held(task, TaskState.UNDOING))
        clock.pass_time(10 * SECOND)

        sweep = store.supervision.expire_runs(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)

        assert await sweep == Freed()

    # Steps

    async def test_a_step_past_its_complete_by_counts_a_failed_attempt_and_frees_its_task(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        step = a_step(
            StepState.RUNNING, task_key=task.key, attempt=2, complete_by=clock.now(), undo="automatic"
        )
        await alice.write(task, steps=[step])
        clock.pass_time(SECOND)

        expired = await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)

        assert expired == 1
        [after] = await store.steps("t")
        assert after == replace(step, failure_count=1, unsure=True, ended_at=clock.now())
        freed = let_go(task, TaskState.PENDING, lock_number=task.lock_number + 1, updated_at=clock.now())
        assert await store.task("t") == freed, "the task itself did not fail"
        assert isinstance(await alice.write(task, steps=[a_step()]), LeaseLost)

    async def test_a_holder_gets_the_grace_it_was_given_before_a_step_is_taken_from_it(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=[a_step(StepState.RUNNING, complete_by=clock.now())])
        clock.pass_time(SECOND)

        expired = await store.supervision.expire_steps(leader, grace=2 * SECOND, now=clock.now(), limit=MANY)

        assert expired == 0
        assert await store.task("t") == task

    async def test_waits_are_no_steps_and_do_not_expire(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        waits = [
            a_wait(StepKind.SLEEP, "sleep:1", complete_by=clock.now()),
            a_wait(StepKind.SIGNAL, "wait:1", complete_by=clock.now()),
            a_wait(StepKind.CHILD, "child:1"),
        ]
        await alice.write(task, steps=waits)
        clock.pass_time(SECOND)

        assert await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY) == 0

    async def test_a_step_of_a_task_that_nobody_holds_does_not_expire_twice(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        steps = [a_step(StepState.RUNNING, key=key, complete_by=clock.now()) for key in ("a:1", "b:1")]
        await alice.write(task, steps=steps)
        clock.pass_time(SECOND)

        passes = [
            await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)
            for _ in range(2)
        ]

        assert passes == [2, 0]
        after = await store.task("t")
        assert after.lock_number == task.lock_number + 1
        assert {step.failure_count for step in await store.steps("t")} == {1}

    async def test_a_step_that_expired_is_not_counted_again_while_its_next_holder_thinks(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=[a_step(StepState.RUNNING, complete_by=clock.now())])
        clock.pass_time(SECOND)
        await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)
        [claimed] = await bob.claim()
        clock.pass_time(SECOND)

        assert await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY) == 0

        assert await store.task("t") == claimed.task

    async def test_one_pass_expires_no_more_steps_than_its_limit(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(5)))
        for claimed in await alice.claim():
            await alice.write(claimed.task, steps=[a_step(StepState.RUNNING, complete_by=clock.now())])
        clock.pass_time(SECOND)

        passes = [
            await store.supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=3)
            for _ in range(3)
        ]

        assert passes == [3, 2, 0]
