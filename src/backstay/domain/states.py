"""The two state machines. One table each; the store repeats it, the docs draw it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from backstay.errors import IllegalMove


class TaskState(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    PROCESSED = "processed"
    WAITING = "waiting"
    ERROR = "error"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo_failed"
    CANCELLED = "cancelled"


class StepState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDOING = "undoing"
    UNDONE = "undone"
    UNDO_FAILED = "undo_failed"


TASK_ARROWS: Final[Mapping[TaskState, frozenset[TaskState]]] = {
    TaskState.PENDING: frozenset({TaskState.PROCESSING, TaskState.CANCELLED}),
    TaskState.PROCESSING: frozenset(
        {
            TaskState.PROCESSED,
            TaskState.WAITING,
            TaskState.PENDING,
            TaskState.ERROR,
            TaskState.UNDOING,
            TaskState.CANCELLED,
        }
    ),
    TaskState.WAITING: frozenset(
        {TaskState.PENDING, TaskState.ERROR, TaskState.UNDOING, TaskState.CANCELLED}
    ),
    TaskState.ERROR: frozenset({TaskState.PENDING, TaskState.UNDOING, TaskState.CANCELLED}),
    TaskState.PROCESSED: frozenset({TaskState.UNDOING}),
    TaskState.UNDOING: frozenset({TaskState.UNDONE, TaskState.UNDO_FAILED}),
    TaskState.UNDO_FAILED: frozenset({TaskState.UNDOING, TaskState.UNDONE}),
    TaskState.UNDONE: frozenset(),
    TaskState.CANCELLED: frozenset(),
}

STEP_ARROWS: Final[Mapping[StepState, frozenset[StepState]]] = {
    StepState.PENDING: frozenset({StepState.RUNNING, StepState.SKIPPED, StepState.COMPLETED}),
    StepState.RUNNING: frozenset({StepState.COMPLETED, StepState.FAILED, StepState.PENDING}),
    StepState.COMPLETED: frozenset({StepState.UNDOING}),
    StepState.FAILED: frozenset(
        {StepState.PENDING, StepState.UNDOING, StepState.SKIPPED, StepState.COMPLETED}
    ),
    StepState.SKIPPED: frozenset(),
    StepState.UNDOING: frozenset({StepState.UNDONE, StepState.UNDO_FAILED}),
    StepState.UNDO_FAILED: frozenset({StepState.UNDOING, StepState.UNDONE}),
    StepState.UNDONE: frozenset(),
}

#: A task in one of these is waited for by nobody's scheduler: it ended, or a person must act.
SETTLED: Final = frozenset(
    {TaskState.PROCESSED, TaskState.ERROR, TaskState.UNDONE, TaskState.UNDO_FAILED, TaskState.CANCELLED}
)

State = TypeVar("State", TaskState, StepState)


def advance_task(source: TaskState, target: TaskState, *, what: str = "the task") -> TaskState:
    """Return ``target``, or raise if the machine has no such arrow."""
    return _advance(TASK_ARROWS, source, target, what)


def advance_step(source: StepState, target: StepState, *, what: str = "the step") -> StepState:
    """Return ``target``, or raise if the machine has no such arrow."""
    return _advance(STEP_ARROWS, source, target, what)


def _advance(arrows: Mapping[State, frozenset[State]], source: State, target: State, what: str) -> State:
    if target not in arrows[source]:
        raise IllegalMove(what, source=source, target=target)
    return target
