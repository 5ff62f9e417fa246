"""How a run ends, and what that makes of its task's records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from backstay.definitions.registry import Registry
from backstay.domain.alert import AlertKind, NewAlert, of_task
from backstay.domain.operate import failed_at_the_end, reopened
from backstay.domain.recovery import CRASHES, Cause, GiveUp, Park, Recovery, Undo, Verdict, after_failure
from backstay.domain.states import StepState, TaskState, advance_task
from backstay.domain.step import Failure, StepRecord, failure_of
from backstay.domain.task import Request
from backstay.domain.undo import pivot_passed, undo_plan
from backstay.errors import JournalMismatch, StepFailed, TaskFailed
from backstay.scheduler.ledger import Ledger

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Processed:
    """The workflow returned."""

    output: bytes


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An operator stopped it, and there is nothing to undo, or nothing is to be undone."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of the task, and why."""

    verdict: Verdict | Processed | Cancelled
    error: Failure | None = None
    # What an operator had asked for, if that is why.
    request: Request | None = None

    @property
    def abandons_waits(self) -> bool:
        """Whether what the workflow waited for (its children above all) is to be stopped as well."""
        return isinstance(self.verdict, (Processed, Undo, Cancelled))


_CAUSES: Final = {
    Cause.HARD_END: ("HardEnd", "the complete-by given at submission has passed"),
    Cause.CRASHES: ("Crashes", "too many processes died while they held this task"),
    Cause.OVERRUN: ("Overrun", "the workflow passed its complete-by too often"),
}


def by_cause(cause: Cause, ledger: Ledger, recovery: Recovery, now: datetime) -> Ending:
    """The run itself must stop: a limit was passed, not a step."""
    kind, message = _CAUSES[cause]
    return _judged(cause, Failure(kind, message), ledger, recovery, now)


def by_request(request: Request, ledger: Ledger) -> Ending:
    """An operator asked for it."""
    steps = ledger.steps.values()
    error = Failure("Cancelled", f"an operator asked to {request} this task")
    if request is Request.CANCEL or not undo_plan(steps):
        return Ending(Cancelled(), error, request)
    if pivot_passed(steps):
        passed = Failure("Cancelled", "undo was requested, but the point of no return had been passed")
        return Ending(GiveUp(), passed, request)
    return Ending(Undo(), error, request)


def by_exception(
    error: BaseException, ledger: Ledger, recovery: Recovery, *, registry: Registry, now: datetime
) -> Ending:
    """The workflow raised: a final failure of a step goes by the policy, anything else is a mistake."""
    failed = first_failure(error)
    if isinstance(failed, StepFailed):
        record = ledger.steps.get(failed.step)
        return _judged(_cause_of(record, registry), _as_recorded(failed), ledger, recovery, now)
    if isinstance(failed, TaskFailed):
        failure = Failure("TaskFailed", str(failed), step=failed.step, permanent=True)
        return _judged(Cause.PERMANENT, failure, ledger, recovery, now)
    step = error.step if isinstance(error, JournalMismatch) else None
    return Ending(GiveUp(), failure_of(error, step=step))


def conclude(ledger: Ledger, ending: Ending) -> None:
    """Write the ending (all but an undo, which goes on from here) into the ledger."""
    task = ledger.task
    free = replace(
        task, error=ending.error, locked_by=None, complete_by=None, wake_at=None, request=ending.request
    )
    match ending.verdict:
        case Processed(output=output):
            _skip_leftovers(ledger)
            ledger.put_task(replace(free, state=_to(ledger, TaskState.PROCESSED), output=output))
        case Cancelled():
            _skip_leftovers(ledger)
            ledger.put_task(replace(free, state=_to(ledger, TaskState.CANCELLED)))
        case GiveUp():
            ledger.put_task(replace(free, state=_to(ledger, TaskState.ERROR)))
            ledger.call_for(_stopped(ledger, ending.error))
        case Park(until=until):
            for step in failed_at_the_end(free, list(ledger.steps.values())):
                # The count stays: after the rest there is one more attempt, not a fresh set of them.
                again = reopened(step)
                ledger.put(replace(again, failure_count=step.failure_count, ended_at=step.ended_at))
            park(ledger, until=until, error=ending.error)
        case Undo():
            raise AssertionError("an undo is not concluded here")


def _stopped(ledger: Ledger, error: Failure | None) -> NewAlert:
    """A task in error goes on only when a person has looked at it."""
    return of_task(
        AlertKind.TASK_ERROR,
        ledger.task.id,
        message=f"{error.type}: {error.message}" if error else "no error was recorded",
        step=error.step if error else None,
    )


def park(ledger: Ledger, *, until: datetime | None, error: Failure | None) -> None:
    """The task leaves memory; ``until`` is when to look again, ``None`` when somebody will call."""
    task = ledger.task
    ledger.put_task(
        replace(
            task,
            state=_to(ledger, TaskState.WAITING),
            error=error,
            locked_by=None,
            complete_by=None,
            wake_at=until,
            parked=True,
            # A run that parks has kept its complete-by and its process: what happened before is forgiven.
            failure_count=0,
            crash_count=0,
        )
    )


def _judged(cause: Cause, error: Failure, ledger: Ledger, recovery: Recovery, now: datetime) -> Ending:
    verdict = after_failure(
        cause,
        recovery,
        pivot_passed=pivot_passed(ledger.steps.values()),
        now=now,
        hard_end=ledger.task.hard_end,
    )
    return Ending(verdict, error)


def _as_recorded(failed: StepFailed) -> Failure:
    try:
        return msgspec.convert(failed.error, Failure)
    except msgspec.ValidationError:  # The workflow made it up.
        return failure_of(failed, step=failed.step, permanent=True)


def _cause_of(record: StepRecord | None, registry: Registry) -> Cause:
    if record is None or record.error is None:
        return Cause.PERMANENT
    step = registry.steps.get(record.operation)
    # Before all else: whatever its error says, such a step must not get the try that a wait ends in.
    if record.unsure and step is not None and not step.idempotent:
        return Cause.UNREPEATABLE
    if record.error.type == CRASHES:
        return Cause.CRASHES
    return Cause.PERMANENT if record.error.permanent else Cause.EXHAUSTED


def first_failure(error: BaseException) -> BaseException:
    """A group that holds nothing but failures of steps and children counts as the first of them."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first_failure(one) for one in error.exceptions]
    return leaves[0] if all(isinstance(one, (StepFailed, TaskFailed)) for one in leaves) else error


def _skip_leftovers(ledger: Ledger) -> None:
    """Steps that were queued, or planned, and never begun."""
    for step in ledger.pending():
        # One that may have had an effect stays as it is: an undo must still find it.
        if not step.unsure:
            ledger.put(replace(step, state=StepState.SKIPPED))


def _to(ledger: Ledger, target: TaskState) -> TaskState:
    return advance_task(ledger.task.state, target, what=f"task {ledger.task.id}")
