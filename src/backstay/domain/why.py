"""One sentence about what a task waits for, and the command that would move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from backstay.domain.control import Control, Controls, Forced, Subject
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind, StepRecord, UndoKind
from backstay.domain.task import TaskRecord


class Reason(msgspec.Struct, frozen=True):
    reason: str
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else is known while a task waits."""

    now: datetime
    # Live processes that run workflows; and whether one of them has this task's, in its version.
    schedulers: int
    runnable: bool
    # The agents that live processes have, and until when at most which of their breakers are open.
    agents: frozenset[str] = frozenset()
    # Whether any live process does the work of agents, or is about to.
    hosted: bool = True
    open_breakers: Mapping[str, datetime] = field(default_factory=dict)
    controls: Controls = field(default_factory=Controls)


def explain(task: TaskRecord, steps: Sequence[StepRecord], around: Surroundings) -> Reason:
    """Why ``task`` is where it is."""
    match task.state:
        case TaskState.PENDING:
            return _nobody_claims(task, around) or Reason(
                "it is queued; a scheduler will claim it when it has room"
            )
        case TaskState.PROCESSING:
            return _processing(task, steps, around)
        case TaskState.WAITING:
            return _waiting(task, steps, around)
        case TaskState.ERROR:
            return Reason(
                f"stopped{_at(task)}: {_error(task)}; an operator must act",
                f"backstay tasks resubmit {task.id}",
            )
        case TaskState.UNDOING:
            return _undoing(task, steps, around)
        case TaskState.UNDO_FAILED:
            return _undo_failed(task, [step for step in steps if step.state is StepState.UNDO_FAILED])
        case TaskState.UNDONE:
            return _undone(steps)
        case TaskState.PROCESSED | TaskState.CANCELLED:
            return Reason(f"it is {task.state}; nothing is left to do")


def _nobody_claims(task: TaskRecord, around: Surroundings) -> Reason | None:
    """Why no scheduler would take the task up, if none would."""
    if not around.schedulers:
        return Reason(
            "no scheduler is running on this store; start the application that defines the workflow"
        )
    if not around.runnable:
        return Reason(
            f"no live scheduler has workflow {task.workflow!r} version {task.version};"
            " start a process with that version of the code"
        )
    pause = around.controls.pause_of(Subject.WORKFLOW, task.workflow)
    if pause is None:
        return None
    return Reason(
        f"workflow {task.workflow!r} is {_paused(pause)}", f"backstay workflows resume {task.workflow}"
    )


def _processing(task: TaskRecord, steps: Sequence[StepRecord], around: Surroundings) -> Reason:
    if not around.schedulers:
        return Reason(
            f"scheduler {task.locked_by} is gone, and no other is running on this store;"
            " start the application that defines the workflow"
        )
    if task.request is not None:
        return Reason(f"{task.request} was requested; its scheduler {task.locked_by} is stopping it")
    under_way = [step for step in steps if step.state in (StepState.RUNNING, StepState.PENDING)]
    if not under_way:
        return Reason(f"scheduler {task.locked_by} is running its workflow")
    parts = [_step_reason(step, around) for step in under_way]
    command = next((part.command for part in parts if part.command), None)
    return Reason("; ".join(part.reason for part in parts), command)


def _step_reason(step: StepRecord, around: Surroundings) -> Reason:
    match step.kind:
        case StepKind.SLEEP:
            return Reason(f"it sleeps until {_instant(step.complete_by)}")
        case StepKind.SIGNAL:
            return Reason(f"it waits for signal {step.operation!r}")
        case StepKind.CHILD:
            return Reason(f"it waits for its child {step.key}", f"backstay tasks why {step.operation}")
        case _:
            pass
    if step.state is StepState.PENDING:
        return _held_back(step, around) or Reason(
            f"step {step.key} waits for a free slot of agent {step.agent!r}"
        )
    if step.complete_by is not None and step.complete_by < around.now:
        return Reason(
            f"step {step.key} passed its complete-by {_instant(step.complete_by)}; it will be recovered"
        )
    until = _instant(step.complete_by)
    return Reason(f"agent {step.agent!r} works on step {step.key} (attempt {step.attempt}) until {until}")


def _held_back(step: StepRecord, around: Surroundings) -> Reason | None:
    """Why its agent would not begin the step, whether or not a slot is free."""
    agent = step.agent or ""
    control = around.controls.of(Subject.AGENT, agent)
    if control is not None and control.paused:
        return Reason(
            f"step {step.key} waits because agent {agent!r} is {_paused(control)}",
            f"backstay agents resume {agent}",
        )
    if control is not None and control.breaker is Forced.OPEN:
        return Reason(
            f"step {step.key} waits because {control.by} holds the breaker of agent {agent!r} open",
            f"backstay agents breaker {agent} auto",
        )
    if agent in around.open_breakers:
        return Reason(
            f"step {step.key} waits for agent {agent!r},"
            f" whose breaker is open until {_instant(around.open_breakers[agent])}",
            f"backstay agents breaker {agent} closed",
        )
    if agent not in around.agents and (around.agents or not around.hosted):
        return Reason(
            f"step {step.key} waits for agent {agent!r}, which no live process has;"
            " start one with the role agents",
            "backstay serve MODULE:APP --roles agents",
        )
    return None


def _paused(control: Control) -> str:
    because = f" ({control.reason})" if control.reason else ""
    return f"paused by {control.by} since {_instant(control.at)}{because}"


def _waiting(task: TaskRecord, steps: Sequence[StepRecord], around: Surroundings) -> Reason:
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
    parked = [step for step in steps if step.kind is StepKind.STEP and step.state is StepState.PENDING]
    held_back = next((reason for step in parked if (reason := _held_back(step, around))), None)
    if held_back is not None:
        return held_back
    if parked:
        keys = ", ".join(step.key for step in parked)
        return Reason(
            f"step {keys} is parked until {_instant(task.wake_at)}"
            f" (its breaker was open, or it failed{_after(task)})",
            f"backstay tasks resubmit {task.id}",
        )
    return Reason(
        f"it rests until {_instant(task.wake_at)}{_after(task)}", f"backstay tasks resubmit {task.id}"
    )


def _undoing(task: TaskRecord, steps: Sequence[StepRecord], around: Surroundings) -> Reason:
    manual = [step.key for step in steps if step.undo is UndoKind.MANUAL and step.state is StepState.UNDOING]
    if task.parked and manual:
        stuck = [step.key for step in steps if step.state is StepState.UNDO_FAILED]
        beside = f"; beside that the undo of {', '.join(stuck)} keeps failing" if stuck else ""
        return Reason(
            f"the undo of {', '.join(manual)} is a person's work; confirm it when it is done{beside}",
            f"backstay tasks complete-step {task.id} {manual[0]}",
        )
    if task.parked:
        return Reason(
            f"its undo goes on at {_instant(task.wake_at)}, when no attempt can be at work any more"
        )
    if task.locked_by is None:
        nobody = _nobody_claims(task, around)
        if nobody is not None:
            return Reason(f"its undo waits: {nobody.reason}", nobody.command)
    return _undo_under_way(steps, around)


def _undo_under_way(steps: Sequence[StepRecord], around: Surroundings) -> Reason:
    undoing = [step for step in steps if step.state is StepState.UNDOING]
    child = next((step for step in undoing if step.kind is StepKind.CHILD), None)
    if child is not None:
        return Reason(
            f"its steps are being undone; now its child {child.key}", f"backstay tasks why {child.operation}"
        )
    held_back = next((reason for step in undoing if (reason := _held_back(step, around))), None)
    if held_back is not None:
        return Reason(f"its steps are being undone; {held_back.reason}", held_back.command)
    at = f"; now {', '.join(step.key for step in undoing)}" if undoing else ""
    return Reason(f"its steps are being undone{at}")


def _undo_failed(task: TaskRecord, stuck: Sequence[StepRecord]) -> Reason:
    keys = ", ".join(step.key for step in stuck)
    said = next((f" ({step.error.type}: {step.error.message})" for step in stuck if step.error), "")
    return Reason(
        f"the undo of {keys} keeps failing{said}; an operator must act", f"backstay tasks undo {task.id}"
    )


def _undone(steps: Sequence[StepRecord]) -> Reason:
    done = (step for step in steps if step.kind is StepKind.STEP and step.state is StepState.COMPLETED)
    kept = ", ".join(step.key for step in done)
    return Reason(f"it is undone; {f'no undo is declared for {kept}' if kept else 'nothing is left to do'}")


def _at(task: TaskRecord) -> str:
    return f" at step {task.error.step}" if task.error and task.error.step else ""


def _after(task: TaskRecord) -> str:
    return f" after {_error(task)}" if task.error else ""


def _error(task: TaskRecord) -> str:
    return f"{task.error.type}: {task.error.message}" if task.error else "no error was recorded"


def _instant(value: datetime | None) -> str:
    return value.isoformat(timespec="seconds").replace("+00:00", "Z") if value else "somebody acts"
