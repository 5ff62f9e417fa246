"""What an operator may do to a task: each move in each state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import product

import pytest

from backstay.domain import operate
from backstay.domain.operate import Amendment
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import Request, TaskRecord
from backstay.errors import Conflict, IllegalMove, InvalidRequest, UnknownStep
from backstay.testing.records import NOON, a_step, a_task, a_wait, replace

DONE = a_step(key="charge:1", undo=UndoKind.AUTOMATIC)
CHILD = a_wait(StepKind.CHILD, "pack:1")

Move = Callable[[TaskRecord, Sequence[StepRecord]], Amendment]

MOVES: dict[str, Move] = {
    "cancel": lambda task, steps: operate.cancel(task, steps, undo=False),
    "cancel and undo": lambda task, steps: operate.cancel(task, steps, undo=True),
    "undo": operate.request_undo,
    "resubmit": lambda task, steps: operate.resubmit(task, steps, from_="failed"),
    "resubmit from the start": lambda task, steps: operate.resubmit(task, steps, from_="start"),
}

# (move, the task's state) -> the state it gets, or what is asked of its holder. No entry: refused.
OUTCOMES: dict[tuple[str, TaskState], TaskState | Request] = {
    ("cancel", TaskState.PENDING): TaskState.CANCELLED,
    ("cancel", TaskState.PROCESSING): Request.CANCEL,
    ("cancel", TaskState.WAITING): TaskState.CANCELLED,
    ("cancel", TaskState.ERROR): TaskState.CANCELLED,
    ("cancel and undo", TaskState.PENDING): Request.UNDO,
    ("cancel and undo", TaskState.PROCESSING): Request.UNDO,
    ("cancel and undo", TaskState.WAITING): TaskState.UNDOING,
    ("cancel and undo", TaskState.ERROR): TaskState.UNDOING,
    ("cancel and undo", TaskState.UNDO_FAILED): TaskState.UNDOING,
    ("undo", TaskState.PENDING): Request.UNDO,
    ("undo", TaskState.PROCESSING): Request.UNDO,
    ("undo", TaskState.WAITING): TaskState.UNDOING,
    ("undo", TaskState.ERROR): TaskState.UNDOING,
    ("undo", TaskState.PROCESSED): TaskState.UNDOING,
    ("undo", TaskState.UNDO_FAILED): TaskState.UNDOING,
    ("resubmit", TaskState.WAITING): TaskState.PENDING,
    ("resubmit", TaskState.ERROR): TaskState.PENDING,
    ("resubmit", TaskState.UNDO_FAILED): TaskState.UNDOING,
    ("resubmit from the start", TaskState.WAITING): TaskState.PENDING,
    ("resubmit from the start", TaskState.ERROR): TaskState.PENDING,
}


@pytest.mark.parametrize(("name", "state"), list(product(MOVES, TaskState)))
def test_each_move_in_each_state_of_a_task_that_did_something(name: str, state: TaskState):
    task, outcome = a_task(state), OUTCOMES.get((name, state))

    if outcome is None:
        with pytest.raises(IllegalMove, match=f"task t is {state} and cannot become"):
            MOVES[name](task, [DONE])
    elif isinstance(outcome, Request):
        assert MOVES[name](task, [DONE]) == Amendment(replace(task, request=outcome))
    else:
        after = MOVES[name](task, [DONE]).task
        assert after.state is outcome
        assert (after.parked, after.wake_at, after.request, after.locked_by) == (False, None, None, None)


# Cancel


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.WAITING, TaskState.ERROR])
def test_cancelling_with_undo_a_task_that_has_nothing_to_undo_just_cancels_it(state: TaskState):
    after = operate.cancel(a_task(state), [a_step(StepState.FAILED), a_step(undo=None)], undo=True).task

    assert after.state is TaskState.CANCELLED


@pytest.mark.parametrize(("undo", "request_"), [(False, Request.CANCEL), (True, Request.UNDO)])
def test_a_waiting_task_with_running_children_is_cancelled_by_a_scheduler_that_stops_them(
    undo: bool, request_: Request
):
    after = operate.cancel(a_task(TaskState.WAITING), [CHILD], undo=undo).task

    assert (after.state, after.request, after.parked) == (TaskState.PENDING, request_, False)


def test_a_cancelled_task_keeps_the_error_that_it_stopped_with():
    assert operate.cancel(a_task(TaskState.ERROR), [], undo=False).task.error is not None


def test_cancelling_answers_what_was_asked_before():
    asked = a_task(TaskState.PENDING, request=Request.UNDO)

    assert operate.cancel(asked, [], undo=False).task.request is None


# Undo


@pytest.mark.parametrize(
    "state", [TaskState.PROCESSING, TaskState.WAITING, TaskState.PROCESSED, TaskState.ERROR]
)
def test_a_task_past_its_point_of_no_return_is_not_undone(state: TaskState):
    pivot = replace(DONE, pivot=True)

    with pytest.raises(IllegalMove, match="its point of no return has been passed"):
        operate.request_undo(a_task(state), [pivot])


def test_a_pending_task_that_did_nothing_is_cancelled_rather_than_undone():
    with pytest.raises(IllegalMove, match="it did nothing yet; cancel it instead"):
        operate.request_undo(a_task(TaskState.PENDING), [])


def test_undoing_again_gives_every_failed_undo_a_fresh_set_of_attempts():
    stuck = a_step(
        StepState.UNDO_FAILED, undo=UndoKind.AUTOMATIC, undo_failures=3, error=Failure("Down", "still")
    )
    undone = a_step(StepState.UNDONE, key="ship:1")

    amendment = operate.request_undo(a_task(TaskState.UNDO_FAILED), [stuck, undone])

    assert amendment.steps == [replace(stuck, state=StepState.UNDOING, undo_failures=0, error=None)]


# Resubmit


def test_a_resubmitted_task_starts_with_clean_counts():
    stopped = a_task(TaskState.ERROR, failure_count=3, crash_count=2)

    after = operate.resubmit(stopped, [], from_="failed").task

    assert (after.failure_count, after.crash_count, after.error) == (0, 0, None)


def test_the_step_that_stopped_the_task_is_attempted_again_and_what_was_done_stays_done():
    failed = a_step(StepState.FAILED, key="ship:1", position=2, failure_count=3, unsure=True)
    stopped = a_task(TaskState.ERROR, error=Failure("Refused", "no", step="ship:1"))

    amendment = operate.resubmit(stopped, [DONE, failed], from_="failed")

    [again] = amendment.steps
    assert (again.key, again.state, again.failure_count, again.position) == (
        "ship:1",
        StepState.PENDING,
        0,
        None,
    )
    assert again.unsure, "that an attempt may have taken effect is not forgotten"
    assert not amendment.forget_journal


def test_failures_that_the_workflow_went_around_stay_as_they_are():
    around = a_step(StepState.FAILED, key="fast:1", position=1)
    last = a_step(StepState.FAILED, key="slow:1", position=2)
    sibling = a_step(StepState.FAILED, key="slow:2", position=3)
    stopped = a_task(TaskState.ERROR, error=Failure("Refused", "no", step="slow:1"))

    again = operate.resubmit(stopped, [around, last, sibling], from_="failed").steps

    assert [step.key for step in again] == ["slow:1", "slow:2"]


def test_an_error_that_no_step_is_blamed_for_reopens_no_step():
    failed = a_step(StepState.FAILED, position=1)

    assert operate.resubmit(a_task(TaskState.ERROR), [failed], from_="failed").steps == []


def test_a_mismatch_is_not_the_failure_of_the_step_that_it_names():
    failed = a_step(StepState.FAILED, key="ship:1", position=1)
    stopped = a_task(TaskState.ERROR, error=Failure("JournalMismatch", "another input", step="ship:1"))

    assert operate.resubmit(stopped, [failed], from_="failed").steps == []


def test_from_the_start_means_that_the_journal_is_dropped():
    assert operate.resubmit(a_task(TaskState.ERROR), [DONE], from_="start").forget_journal


def test_a_task_that_has_not_stopped_is_not_resubmitted():
    with pytest.raises(IllegalMove, match="it has not stopped; a scheduler takes it up by itself"):
        operate.resubmit(a_task(TaskState.PENDING), [], from_="failed")


def test_a_task_that_a_scheduler_works_on_is_not_resubmitted_under_its_hands():
    with pytest.raises(IllegalMove, match="a scheduler is working on it"):
        operate.resubmit(a_task(TaskState.PROCESSING), [], from_="failed")


def test_another_place_to_begin_from_is_refused():
    with pytest.raises(InvalidRequest, match='from is \'middle\'; it must be "failed" or "start"'):
        operate.resubmit(a_task(TaskState.ERROR), [], from_="middle")  # type: ignore[arg-type]


# Complete a step


@pytest.mark.parametrize("state", [StepState.PENDING, StepState.FAILED, StepState.RUNNING])
@pytest.mark.parametrize("of", [TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING, TaskState.ERROR])
def test_a_result_recorded_by_hand_completes_the_step_and_frees_the_task(state: StepState, of: TaskState):
    step, later = a_step(state, key="ship:1"), NOON + timedelta(hours=1)

    amendment = operate.complete_step(
        a_task(of, lock_number=4), [DONE, step], key="ship:1", output=b"9", now=later
    )

    [done] = amendment.steps
    assert (done.state, done.output, done.ended_at, done.error) == (StepState.COMPLETED, b"9", later, None)
    assert done.position == 2, "it comes after everything that the workflow was given"
    after = amendment.task
    assert (after.state, after.locked_by, after.complete_by) == (TaskState.PENDING, None, None)
    assert after.lock_number == 5, "whoever held the task is fenced off"


def test_a_failure_that_the_workflow_was_given_keeps_its_place_in_the_order():
    failed = a_step(StepState.FAILED, key="ship:1", position=5)

    [done] = operate.complete_step(
        a_task(TaskState.ERROR), [failed], key="ship:1", output=b"9", now=NOON
    ).steps

    assert done.position == 5


@pytest.mark.parametrize("state", [StepState.UNDOING, StepState.UNDO_FAILED])
@pytest.mark.parametrize("of", [TaskState.UNDOING, TaskState.UNDO_FAILED])
def test_an_undo_confirmed_by_hand_is_undone_and_the_rest_of_the_undo_goes_on(
    state: StepState, of: TaskState
):
    step = a_step(state, key="ship:1", undo=UndoKind.MANUAL)

    amendment = operate.complete_step(a_task(of), [step], key="ship:1", output=b"null", now=NOON)

    assert [done.state for done in amendment.steps] == [StepState.UNDONE]
    assert (amendment.task.state, amendment.task.parked) == (TaskState.UNDOING, False)


def test_a_result_that_stopped_the_workflow_may_be_put_right_by_hand():
    mismatch = Failure("JournalMismatch", "its recorded result no longer fits", step="ship:1")
    wrong = a_step(StepState.COMPLETED, key="ship:1", output=b'"ten"', position=3)

    amendment = operate.complete_step(
        a_task(TaskState.ERROR, error=mismatch), [wrong], key="ship:1", output=b"10", now=NOON
    )

    assert [(one.state, one.output, one.position) for one in amendment.steps] == [
        (StepState.COMPLETED, b"10", 3)
    ]
    assert amendment.task.state is TaskState.PENDING


@pytest.mark.parametrize("state", [StepState.COMPLETED, StepState.SKIPPED, StepState.UNDONE])
def test_a_step_that_is_over_is_not_completed_by_hand(state: StepState):
    with pytest.raises(IllegalMove, match=f"step ship:1 is {state} and cannot become completed"):
        operate.complete_step(
            a_task(TaskState.ERROR), [a_step(state, key="ship:1")], key="ship:1", output=b"1", now=NOON
        )


@pytest.mark.parametrize(
    "of", [TaskState.PROCESSED, TaskState.UNDOING, TaskState.UNDONE, TaskState.CANCELLED]
)
def test_a_task_that_goes_no_further_takes_no_result(of: TaskState):
    with pytest.raises(IllegalMove):
        operate.complete_step(a_task(of), [a_step(StepState.FAILED)], key="charge:1", output=b"1", now=NOON)


@pytest.mark.parametrize("key", ["nothing:1", "pack:1"])
def test_only_a_step_proper_is_completed_by_hand(key: str):
    with pytest.raises(UnknownStep, match=f"task 't' has no step '{key}'"):
        operate.complete_step(a_task(TaskState.ERROR), [DONE, CHILD], key=key, output=b"1", now=NOON)


# What a parent does to its child


def test_a_child_that_is_processed_already_is_undone_with_its_parent():
    assert operate.stop_child(a_task(TaskState.PROCESSED), [DONE], undo=True).task.state is TaskState.UNDOING


def test_a_child_that_is_processed_already_is_not_cancelled_any_more():
    with pytest.raises(IllegalMove):
        operate.stop_child(a_task(TaskState.PROCESSED), [DONE], undo=False)


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize(
    "state", [TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING, TaskState.ERROR]
)
def test_any_other_child_is_stopped_like_any_other_task(state: TaskState, undo: bool):
    child = a_task(state)

    assert operate.stop_child(child, [DONE], undo=undo) == operate.cancel(child, [DONE], undo=undo)


# Who hears a signal


@pytest.mark.parametrize("state", TaskState)
def test_a_task_hears_signals_until_nothing_in_it_will_ask_for_one(state: TaskState):
    if state in (TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED):
        with pytest.raises(Conflict, match="nothing in it will ask for a signal any more"):
            operate.check_hears(a_task(state))
    else:
        operate.check_hears(a_task(state))
