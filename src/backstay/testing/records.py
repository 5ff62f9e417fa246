"""Records for tests: well-formed in every state, and only as detailed as a test wants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.instants import micros
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.store.base import StepBegan, StepCompleted

replace: Final = msgspec.structs.replace

NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)
BROKEN: Final = Failure("Refused", "the service said no")

# What the schema wants of a record in each state, beyond what every record has.
_TASK_FIELDS: Final[dict[TaskState, dict[str, Any]]] = {
    TaskState.PROCESSING: {"locked_by": "somebody", "complete_by": NOON + timedelta(minutes=10)},
    TaskState.PROCESSED: {"output": b'"done"'},
    TaskState.WAITING: {"parked": True},
    TaskState.ERROR: {"error": BROKEN},
}
_ENDED: Final[dict[str, Any]] = {"attempt": 1, "started_at": NOON, "ended_at": NOON}
_COMPLETED: Final[dict[str, Any]] = {**_ENDED, "output": b"7", "position": 1}
_STEP_FIELDS: Final[dict[StepState, dict[str, Any]]] = {
    StepState.PENDING: {},
    StepState.RUNNING: {"attempt": 1, "started_at": NOON, "complete_by": NOON + timedelta(seconds=30)},
    StepState.COMPLETED: _COMPLETED,
    StepState.FAILED: {**_ENDED, "error": BROKEN},
    StepState.SKIPPED: {},
    StepState.UNDOING: _COMPLETED,
    StepState.UNDONE: _COMPLETED,
    StepState.UNDO_FAILED: _COMPLETED,
}


def new_task(id: str = "t", **fields: Any) -> NewTask:
    """A task as it is submitted."""
    return NewTask(**{"id": id, "workflow": "ship", "version": 1, "input": b"{}", **fields})


def a_task(state: TaskState = TaskState.PENDING, **fields: Any) -> TaskRecord:
    """A task as it stands in ``state``."""
    common = {"key": 1, "id": "t", "workflow": "ship", "version": 1, "input": b"{}"}
    times = {"created_at": NOON, "updated_at": NOON}
    return TaskRecord(**{**common, **times, "state": state, **_TASK_FIELDS.get(state, {}), **fields})


def a_step(state: StepState = StepState.COMPLETED, **fields: Any) -> StepRecord:
    """A step as it stands in ``state``."""
    common = {"task_key": 1, "key": "charge:1", "agent": "bank", "operation": "charge", "input": b"[]"}
    return StepRecord(**{**common, "state": state, **_STEP_FIELDS[state], **fields})


def begun(step: StepRecord) -> StepBegan:
    """The move of a step that runs for the first time, in the form that costs less."""
    assert step.agent is not None
    assert step.complete_by is not None
    assert step.started_at is not None
    return StepBegan(
        task_key=step.task_key,
        key=step.key,
        agent=step.agent,
        operation=step.operation,
        complete_by=micros(step.complete_by),
        input=(step.input or b"").decode(),
        started_at=micros(step.started_at),
        undo=step.undo,
        pivot=step.pivot,
    )


def done(step: StepRecord) -> StepCompleted:
    """The move of a step that was running and is completed, in the form that costs less."""
    assert step.ended_at is not None
    assert step.position is not None
    return StepCompleted(
        task_key=step.task_key,
        key=step.key,
        output=(step.output or b"").decode(),
        ended_at=micros(step.ended_at),
        position=step.position,
    )


def a_wait(kind: StepKind, key: str, *, operation: str | None = None, **fields: Any) -> StepRecord:
    """An open entry of the journal that is not a step: a sleep, a signal, a child."""
    fields = {"state": StepState.RUNNING, "started_at": NOON, **fields}
    name = operation or key.partition(":")[0]
    return StepRecord(
        **{"task_key": 1, "key": key, "kind": kind, "operation": name, "input": b"null", **fields}
    )


def held(task: TaskRecord, state: TaskState, **fields: Any) -> TaskRecord:
    """``task`` in another state, still in the hands of its holder."""
    return replace(task, **{"state": state, **fields})


def let_go(task: TaskRecord, state: TaskState, **fields: Any) -> TaskRecord:
    """``task`` as its holder leaves it: in ``state``, and nobody's."""
    nobodys = {"locked_by": None, "complete_by": None}
    return replace(task, **{"state": state, **_TASK_FIELDS.get(state, {}), **nobodys, **fields})
