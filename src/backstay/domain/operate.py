"""What an operator may do to a task: each move a pure function of the task and its steps.

A task that a scheduler holds is changed by its holder: the move leaves a ``request`` in the row.
A task that nobody holds is changed on the spot.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from backstay.domain.states import TASK_ARROWS, StepState, TaskState, advance_step, advance_task
from backstay.domain.step import StepKind, StepRecord
from backstay.domain.task import Request, TaskRecord
from backstay.domain.undo import pivot_passed, tried_again, undo_plan
from backstay.errors import Conflict, IllegalMove, InvalidRequest, JournalMismatch, UnknownStep

replace = msgspec.structs.replace

From = Literal["failed", "start"]

#: Nobody has to let these go on.
_BY_ITSELF: Final = {
    TaskState.PENDING: "it has not stopped; a scheduler takes it up by itself",
    TaskState.PROCESSING: "a scheduler is working on it",
}


class Amendment(msgspec.Struct, frozen=True):
    """The outcome of a move: the task's row, the steps that changed, and whether the journal is dropped."""

    task: TaskRecord
    steps: Sequence[StepRecord] = ()
    forget_journal: bool = False


def cancel(task: TaskRecord, steps: Sequence[StepRecord], *, undo: bool) -> Amendment:
    """Stop a task; with ``undo`` what it did is undone."""
    if undo and undo_plan(steps) and task.state is not TaskState.PROCESSED:
        return request_undo(task, steps)
    if _needs_holder(task, steps):
        return Amendment(_ask(task, Request.UNDO if undo else Request.CANCEL))
    return Amendment(_moved(task, TaskState.CANCELLED))


def request_undo(task: TaskRecord, steps: Sequence[StepRecord]) -> Amendment:
    """Undo what a task did. An undo that failed is tried again."""
    if pivot_passed(steps):
        raise IllegalMove(
            f"task {task.id}",
            source=task.state,
            target=TaskState.UNDOING,
            why="its point of no return has been passed",
        )
    if task.state in (TaskState.PROCESSING, TaskState.PENDING):
        if not steps and task.state is TaskState.PENDING:
            raise IllegalMove(
                f"task {task.id}",
                source=task.state,
                target=TaskState.UNDOING,
                why="it did nothing yet; cancel it instead",
            )
        return Amendment(_ask(task, Request.UNDO))
    again = [tried_again(step) for step in steps if step.state is StepState.UNDO_FAILED]
    return Amendment(_moved(task, TaskState.UNDOING), again)


def stop_child(task: TaskRecord, steps: Sequence[StepRecord], *, undo: bool) -> Amendment:
    """What a parent that is stopped or undone does to its child, however far that has come."""
    if undo and task.state is TaskState.PROCESSED:
        return request_undo(task, steps)
    return cancel(task, steps, undo=undo)


def resubmit(task: TaskRecord, steps: Sequence[StepRecord], *, from_: From) -> Amendment:
    """Let a stopped task go on at the step that failed, or begin anew."""
    if from_ not in ("failed", "start"):
        raise InvalidRequest(f'from is {from_!r}; it must be "failed" or "start"')
    if task.state is TaskState.UNDO_FAILED and from_ == "failed":
        return request_undo(task, steps)
    if task.state in _BY_ITSELF:
        raise IllegalMove(
            f"task {task.id}", source=task.state, target=TaskState.PENDING, why=_BY_ITSELF[task.state]
        )
    moved = replace(_moved(task, TaskState.PENDING), failure_count=0, crash_count=0, request=None)
    if from_ == "start":
        return Amendment(moved, forget_journal=True)
    return Amendment(moved, [reopened(step) for step in failed_at_the_end(task, steps)])


def complete_step(
    task: TaskRecord, steps: Sequence[StepRecord], *, key: str, output: bytes, now: datetime
) -> Amendment:
    """Record by hand what an agent could not: a result, or that an undo has been done."""
    step = next((step for step in steps if step.key == key and step.kind is StepKind.STEP), None)
    if step is None:
        raise UnknownStep(task.id, key)
    if step.state in (StepState.UNDOING, StepState.UNDO_FAILED):
        undone = replace(step, state=StepState.UNDONE, error=None, complete_by=None)
        return Amendment(_freed(task, TaskState.UNDOING), [undone])
    # A result that the workflow could not read, which stopped it, may be put right.
    unread = step.state is StepState.COMPLETED and _stopped_at(task, key)
    done = replace(
        step,
        state=step.state if unread else advance_step(step.state, StepState.COMPLETED, what=f"step {key}"),
        output=output,
        error=None,
        ended_at=now,
        position=step.position if step.position is not None else next_position(steps),
    )
    return Amendment(_freed(task, TaskState.PENDING), [done])


def check_hears(task: TaskRecord) -> None:
    """Raise unless somebody may still ask for a signal that is sent to ``task`` now."""
    if not TASK_ARROWS[task.state] or task.state is TaskState.PROCESSED:
        raise Conflict(f"task {task.id} is {task.state}; nothing in it will ask for a signal any more")


def failed_at_the_end(task: TaskRecord, steps: Sequence[StepRecord]) -> list[StepRecord]:
    """The failed steps that stopped the task, as opposed to those that its workflow went around."""
    # A mismatch names the step at which the code went astray; it is not that step's failure.
    if task.error is None or task.error.type == JournalMismatch.__name__:
        return []
    blamed = task.error.step
    first = next((step for step in steps if step.key == blamed and step.state is StepState.FAILED), None)
    if first is None or first.position is None:
        return []
    last = first.position
    return [step for step in steps if step.state is StepState.FAILED and (step.position or 0) >= last]


def reopened(step: StepRecord) -> StepRecord:
    """A failed step as it stands before it is attempted again."""
    return replace(
        step,
        state=advance_step(step.state, StepState.PENDING, what=f"step {step.key}"),
        failure_count=0,
        complete_by=None,
        error=None,
        ended_at=None,
        position=None,
    )


def next_position(steps: Sequence[StepRecord]) -> int:
    return max((step.position for step in steps if step.position is not None), default=0) + 1


def _stopped_at(task: TaskRecord, key: str) -> bool:
    """Whether the task stopped because what is recorded of this step does not fit its code."""
    error = task.error
    mismatch = error is not None and (error.type, error.step) == (JournalMismatch.__name__, key)
    return task.state is TaskState.ERROR and mismatch


def _needs_holder(task: TaskRecord, steps: Sequence[StepRecord]) -> bool:
    if task.state is TaskState.PROCESSING:
        return True
    # Children that still run are stopped by a scheduler, which is why the task goes through one.
    running = any(step.kind is StepKind.CHILD and step.state is StepState.RUNNING for step in steps)
    return running and task.state in (TaskState.WAITING, TaskState.PENDING, TaskState.ERROR)


def _ask(task: TaskRecord, request: Request) -> TaskRecord:
    if task.state in (TaskState.WAITING, TaskState.ERROR):
        task = _moved(task, TaskState.PENDING)
    return replace(task, request=request)


def _moved(task: TaskRecord, target: TaskState) -> TaskRecord:
    """The task in another state, held by nobody, due at once if it is to be worked on."""
    advance_task(task.state, target, what=f"task {task.id}")
    # What an undo is for stays with the task; a task that goes on starts with a clean slate.
    error = None if target is TaskState.PENDING else task.error
    # What was asked of the task is for whoever claims it next; any other move has answered it.
    request = task.request if target is TaskState.PENDING else None
    return replace(task, state=target, error=error, request=request, wake_at=None, parked=False)


def _freed(task: TaskRecord, target: TaskState) -> TaskRecord:
    """The task ready to be claimed in ``target``; whoever held it is fenced off."""
    moved = task if task.state is target else _moved(task, target)
    return replace(
        moved,
        wake_at=None,
        parked=False,
        locked_by=None,
        complete_by=None,
        lock_number=task.lock_number + 1,
    )
