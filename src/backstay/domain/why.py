"""One sentence about what a task waits for, and the command that would move it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind, StepRecord, UndoKind
from backstay.domain.task import TaskRecord


class Reason(msgspec.Struct, frozen=True):
    reason: str
    command: str | None = None


def explain(
    task: TaskRecord, steps: Sequence[StepRecord], *, runnable: bool, any_scheduler: bool, now: datetime
) -> Reason:
    """Why ``task`` is where it is. ``runnable``: some live scheduler has its workflow and version."""
    match task.state:
        case TaskState.PENDING:
            return _pending(task, runnable=runnable, any_scheduler=any_scheduler)
        case TaskState.PROCESSING:
            return _processing(task, steps, now)
        case TaskState.WAITING:
            return _waiting(task, steps)
        case TaskState.ERROR:
            return Reason(
                f"stopped{_at(task)}: {_error(task)}; an operator must act",
                f"backstay tasks resubmit {task.id}",
            )
        case TaskState.UNDOING:
            return _undoing(task, steps, runnable=runnable)
        case TaskState.UNDO_FAILED:
            stuck = ", ".join(step.key for step in steps if step.state is StepState.UNDO_FAILED)
            return Reason(
                f"the undo of {stuck} keeps failing; an operator must act", f"backstay tasks undo {task.id}"
            )
        case TaskState.PROCESSED | TaskState.UNDONE | TaskState.CANCELLED:
            return Reason(f"it is {task.state}; nothing is left to do")


def _pending(task: TaskRecord, *, runnable: bool, any_scheduler: bool) -> Reason:
    if not any_scheduler:
        return Reason(
            "no scheduler is running on this store; start the application that defines the workflow"
        )
    if not runnable:
        return Reason(
            f"no live scheduler has workflow {task.workflow!r} version {task.version};"
            " start a process with that version of the code"
        )
    return Reason("it is queued; a scheduler will claim it when it has room")


def _processing(task: TaskRecord, steps: Sequence[StepRecord], now: datetime) -> Reason:
    if task.request is not None:
        return Reason(f"{task.request} was requested; its scheduler {task.locked_by} is stopping it")
    parts = [
        _step_sentence(step, now) for step in steps if step.state in (StepState.RUNNING, StepState.PENDING)
    ]
    if not parts:
        return Reason(f"scheduler {task.locked_by} is running its workflow")
    return Reason("; ".join(parts))


def _step_sentence(step: StepRecord, now: datetime) -> str:
    match step.kind:
        case StepKind.SLEEP:
            return f"it sleeps until {_instant(step.complete_by)}"
        case StepKind.SIGNAL:
            return f"it waits for signal {step.operation!r}"
        case StepKind.CHILD:
            return f"it waits for its child {step.key}"
        case _:
            pass
    if step.state is StepState.PENDING:
        return f"step {step.key} waits for a free slot, or the breaker, of agent {step.agent!r}"
    if step.complete_by is not None and step.complete_by < now:
        return f"step {step.key} passed its complete-by {_instant(step.complete_by)}; it will be recovered"
    until = _instant(step.complete_by)
    return f"agent {step.agent!r} works on step {step.key} (attempt {step.attempt}) until {until}"


def _waiting(task: TaskRecord, steps: Sequence[StepRecord]) -> Reason:
    signals = [
        step.operation for step in steps if step.kind is StepKind.SIGNAL and step.state is StepState.RUNNING
    ]
    if signals:
        until = f" (until {_instant(task.wake_at)})" if task.wake_at else ""
        return Reason(
            f"it waits for signal {' or '.join(map(repr, signals))}{until}",
            f"backstay tasks signal {task.id} {signals[0]} JSON",
        )
    children = [step for step in steps if step.kind is StepKind.CHILD and step.state is StepState.RUNNING]
    if children:
        return Reason(
            f"it waits for its children {', '.join(step.key for step in children)}",
            f"backstay tasks why {children[0].operation}",  # its id, which its parent may have chosen
        )
    if any(step.kind is StepKind.SLEEP and step.state is StepState.RUNNING for step in steps):
        return Reason(f"it sleeps until {_instant(task.wake_at)}")
    parked = [step.key for step in steps if step.kind is StepKind.STEP and step.state is StepState.PENDING]
    if parked:
        return Reason(
            f"step {', '.join(parked)} is parked until {_instant(task.wake_at)}"
            f" (its breaker is open, or it failed{_after(task)})",
            f"backstay tasks resubmit {task.id}",
        )
    return Reason(
        f"it rests until {_instant(task.wake_at)}{_after(task)}", f"backstay tasks resubmit {task.id}"
    )


def _undoing(task: TaskRecord, steps: Sequence[StepRecord], *, runnable: bool) -> Reason:
    manual = [step.key for step in steps if step.undo is UndoKind.MANUAL and step.state is StepState.UNDOING]
    if task.parked and manual:
        return Reason(
            f"the undo of {', '.join(manual)} is a person's work; confirm it when it is done",
            f"backstay tasks complete-step {task.id} {manual[0]}",
        )
    if task.parked:
        return Reason(
            f"its undo goes on at {_instant(task.wake_at)}, when no attempt can be at work any more"
        )
    if task.locked_by is None and not runnable:
        return Reason(
            f"its undo needs workflow {task.workflow!r} version {task.version}, which no live scheduler has;"
            " start a process with that version of the code"
        )
    return Reason("its steps are being undone")


def _at(task: TaskRecord) -> str:
    return f" at step {task.error.step}" if task.error and task.error.step else ""


def _after(task: TaskRecord) -> str:
    return f" after {_error(task)}" if task.error else ""


def _error(task: TaskRecord) -> str:
    return f"{task.error.type}: {task.error.message}" if task.error else "no error was recorded"


def _instant(value: datetime | None) -> str:
    return value.isoformat(timespec="seconds").replace("+00:00", "Z") if value else "somebody acts"
