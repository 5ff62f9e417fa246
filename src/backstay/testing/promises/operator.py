"""Moves by hand: read, decide, write, as one transaction."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from backstay.domain import operate
from backstay.domain.operate import Amendment
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import Request, TaskRecord
from backstay.errors import IllegalMove, LeaseLost, UnknownStep, UnknownTask
from backstay.store.base import Amend, Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import CANCEL, SECOND, Holder, Promises, submitted
from backstay.testing.records import a_step, a_wait, held, let_go, replace

CANCEL_AND_UNDO: Final = partial(operate.cancel, undo=True)
RESUBMIT: Final = partial(operate.resubmit, from_="failed")
BEGIN_ANEW: Final = partial(operate.resubmit, from_="start")


def completing(key: str, clock: ManualClock) -> Amend:
    return partial(operate.complete_step, key=key, output=b'"by hand"', now=clock.now())


class OperatorPromises(Promises):
    # Cancel and undo

    async def test_a_task_that_nobody_holds_is_cancelled_on_the_spot(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        [task] = await submitted(store, clock, "t")
        clock.pass_time(SECOND)

        after = await store.amend("t", CANCEL, now=clock.now())

        assert after == replace(task, state=TaskState.CANCELLED, updated_at=clock.now())
        assert await store.task("t") == after
        assert await alice.claim() == []

    async def test_a_task_that_is_held_gets_a_request_and_its_holder_goes_on_writing(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        after = await store.amend("t", CANCEL, now=clock.now())

        assert after == replace(task, request=Request.CANCEL)
        [standing] = await store.standing([task.key])
        assert standing.task == replace(after, input=b""), "how it stands, not what it holds"
        assert await alice.write(task, steps=[a_step()]) is None

    async def test_a_request_that_comes_just_before_a_run_stops_in_error_is_obeyed_by_the_next_holder(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.amend("t", CANCEL, now=clock.now())

        await alice.leave(task, TaskState.ERROR)

        [claimed] = await alice.claim()
        assert claimed.task.request is Request.CANCEL

    async def test_a_request_that_its_holder_answers_with_an_error_is_answered_for_good(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.amend("t", CANCEL, now=clock.now())

        await alice.leave(task, TaskState.ERROR, request=Request.CANCEL)

        after = await store.task("t")
        assert (after.state, after.request) == (TaskState.ERROR, None)
        assert await alice.claim() == []

    async def test_a_waiting_task_is_undone_at_once_by_whoever_claims_it(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.WAITING, steps=[a_step(undo=UndoKind.AUTOMATIC)])

        await store.amend("t", CANCEL_AND_UNDO, now=clock.now())

        [claimed] = await alice.claim()
        assert (claimed.task.state, claimed.task.parked) == (TaskState.UNDOING, False)

    async def test_a_processed_task_can_be_undone(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.PROCESSED, steps=[a_step(undo=UndoKind.AUTOMATIC)])

        await store.amend("t", operate.request_undo, now=clock.now())

        [claimed] = await alice.claim()
        assert claimed.task.state is TaskState.UNDOING

    async def test_an_undo_that_failed_is_tried_again(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, task=held(task, TaskState.UNDOING))
        stuck = a_step(StepState.UNDO_FAILED, undo=UndoKind.AUTOMATIC, undo_failures=3)
        await alice.leave(task, TaskState.UNDO_FAILED, steps=[stuck])

        await store.amend("t", operate.request_undo, now=clock.now())

        [claimed] = await alice.claim()
        assert claimed.task.state is TaskState.UNDOING
        assert [(step.state, step.undo_failures) for step in claimed.steps] == [(StepState.UNDOING, 0)]

    # Resubmit

    async def test_a_stopped_task_goes_on_at_the_step_that_failed(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        done = a_step(key="charge:1", position=1)
        failed = a_step(StepState.FAILED, key="ship:1", position=2, failure_count=3)
        error = Failure("Refused", "no", step="ship:1")
        await alice.leave(task, TaskState.ERROR, steps=[done, failed], error=error, failure_count=2)

        await store.amend("t", RESUBMIT, now=clock.now())

        [claimed] = await alice.claim()
        assert {step.key: step.state for step in claimed.steps} == {
            "charge:1": StepState.COMPLETED,
            "ship:1": StepState.PENDING,
        }
        assert (claimed.task.error, claimed.task.failure_count) == (None, 0)

    async def test_a_task_that_begins_anew_has_no_journal_and_may_consume_its_signals_again(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())
        [standing] = await store.standing([task.key])
        consumed = [(standing.signals[0].number, "wait:1")]
        stopped = let_go(task, TaskState.ERROR)
        await alice.write(task, steps=[a_step()], consumed=consumed, task=stopped)

        await store.amend("t", BEGIN_ANEW, now=clock.now())

        [claimed] = await alice.claim()
        assert claimed.steps == []
        assert claimed.signals == standing.signals

    # Complete a step

    async def test_a_result_recorded_by_hand_lets_the_task_go_on(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        failed = a_step(StepState.FAILED, key="ship:1", position=1)
        await alice.leave(await alice.hold("t"), TaskState.ERROR, steps=[failed])

        await store.amend("t", completing("ship:1", clock), now=clock.now())

        [claimed] = await alice.claim()
        assert [(step.state, step.output) for step in claimed.steps] == [(StepState.COMPLETED, b'"by hand"')]

    async def test_a_result_recorded_by_hand_takes_the_task_from_its_holder(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=[a_step(StepState.PENDING, key="ship:1")])

        await store.amend("t", completing("ship:1", clock), now=clock.now())

        late = await alice.write(task, steps=[a_step(StepState.RUNNING, key="ship:1")])
        assert isinstance(late, LeaseLost)
        assert [step.state for step in await store.steps("t")] == [StepState.COMPLETED]

    async def test_a_manual_undo_that_a_person_confirms_lets_the_undo_go_on(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        manual = a_step(StepState.UNDOING, key="ship:1", undo=UndoKind.MANUAL)
        await alice.leave(await alice.hold("t"), TaskState.UNDOING, steps=[manual], parked=True)

        await store.amend("t", completing("ship:1", clock), now=clock.now())

        [claimed] = await alice.claim()
        assert claimed.task.state is TaskState.UNDOING
        assert [step.state for step in claimed.steps] == [StepState.UNDONE]

    # What is refused

    @pytest.mark.parametrize(
        ("state", "move"),
        [
            (TaskState.CANCELLED, CANCEL),
            (TaskState.PROCESSED, CANCEL),
            (TaskState.PROCESSED, RESUBMIT),
            (TaskState.CANCELLED, operate.request_undo),
            (TaskState.UNDOING, CANCEL_AND_UNDO),
            (TaskState.PROCESSED, completing("charge:1", ManualClock())),
        ],
    )
    async def test_an_illegal_move_is_refused_and_changes_nothing(
        self,
        store: Store,
        clock: ManualClock,
        alice: Holder,
        state: TaskState,
        move: Amend,
    ) -> None:
        await alice.leave(await alice.hold("t"), state, steps=[a_step(StepState.FAILED)])
        before = await store.task("t"), await store.steps("t")
        clock.pass_time(SECOND)

        with pytest.raises(IllegalMove):
            await store.amend("t", move, now=clock.now())

        assert (await store.task("t"), await store.steps("t")) == before

    async def test_a_task_in_the_hands_of_a_scheduler_is_not_resubmitted(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        with pytest.raises(IllegalMove, match="a scheduler is working on it"):
            await store.amend("t", RESUBMIT, now=clock.now())

        assert await store.task("t") == task

    async def test_a_step_that_the_task_does_not_have_is_not_completed(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.ERROR)

        with pytest.raises(UnknownStep):
            await store.amend("t", completing("nothing:1", clock), now=clock.now())

        assert (await store.task("t")).state is TaskState.ERROR

    async def test_a_move_on_a_task_that_does_not_exist_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        with pytest.raises(UnknownTask):
            await store.amend("nobody", CANCEL, now=clock.now())

    async def test_a_decision_that_fails_halfway_changes_nothing_and_harms_nobody_else(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        def broken(_task: TaskRecord, _steps: list[StepRecord]) -> Amendment:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await store.amend("t", broken, now=clock.now())

        assert await alice.write(task, steps=[a_step()]) is None

    # What a decision is shown

    async def test_a_decision_sees_the_journal_in_the_order_in_which_it_was_begun(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        steps = [
            a_step(StepState.PENDING, key="planned:1"),
            a_step(key="second:1", started_at=clock.now() + SECOND),
            a_wait(StepKind.SLEEP, "first:1", started_at=clock.now()),
        ]
        await alice.write(task, steps=steps)

        seen = await self._seen(store, clock)

        assert [step.key for step in seen] == ["first:1", "second:1", "planned:1"]
        assert seen == await store.steps("t")

    async def _seen(self, store: Store, clock: ManualClock) -> list[StepRecord]:
        seen: list[StepRecord] = []

        def look(task: TaskRecord, steps: list[StepRecord]) -> Amendment:
            seen.extend(steps)
            return Amendment(task)

        await store.amend("t", look, now=clock.now())
        return seen
