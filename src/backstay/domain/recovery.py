"""What happens after an attempt, or a whole run, failed.

Two questions, each a pure function: may this step be attempted once more (``may_repeat``), and if
not, and the workflow does not go another way, what becomes of the task (``after_failure``)?
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from backstay.domain.durations import Duration, duration
from backstay.domain.retry import ATTEMPTS_MAX
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import InvalidRequest

Then = Literal["undo", "wait", "error"]
#: The type of the failure of a step during which too many processes died.
CRASHES: Final = "Crashes"

_THENS: Final = ("undo", "wait", "error")


@dataclass(frozen=True, slots=True, init=False)
class Recovery:
    """How often a step and a run are repeated, and what comes then.

    ``attempts`` limits the attempts of a step, and apart from that the recoveries of a run that
    overran its complete-by. ``crashes`` limits how many processes may die while holding the task,
    one after the other, before it comes a step further.
    """

    attempts: int
    crashes: int
    wait: timedelta
    then: Then
    undo_attempts: int

    def __init__(
        self,
        attempts: int = 3,
        crashes: int = 10,
        wait: Duration = "10m",
        then: Then = "undo",
        *,
        undo_attempts: int = 3,
    ) -> None:
        for name, value in (("attempts", attempts), ("crashes", crashes), ("undo_attempts", undo_attempts)):
            if not 1 <= value <= ATTEMPTS_MAX:
                raise InvalidRequest(
                    f"Recovery.{name} is {value}; it must lie between 1 and {ATTEMPTS_MAX:,}"
                )
        if then not in _THENS:
            raise InvalidRequest(
                f"Recovery.then is {then!r}; it must be one of {', '.join(map(repr, _THENS))}"
            )
        assign = object.__setattr__
        assign(self, "attempts", attempts)
        assign(self, "crashes", crashes)
        assign(self, "wait", duration(wait, name="Recovery.wait"))
        assign(self, "then", then)
        assign(self, "undo_attempts", undo_attempts)


class Cause(StrEnum):
    """Why a run cannot go on."""

    PERMANENT = "permanent"  # an agent said that trying again would not help
    EXHAUSTED = "exhausted"  # every attempt that the policy grants was made
    UNREPEATABLE = "unrepeatable"  # outcome unknown, and the step must not run twice
    OVERRUN = "overrun"  # the run passed its complete-by too often
    CRASHES = "crashes"  # too many processes died while holding the task
    HARD_END = "hard_end"  # the instant given at submission has passed


@dataclass(frozen=True, slots=True)
class Undo:
    """Undo what was done."""


@dataclass(frozen=True, slots=True)
class Park:
    """Let it rest until then, and try again."""

    until: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop in ``error`` and call a person."""


Verdict = Undo | Park | GiveUp


def may_repeat(step: StepRecord, recovery: Recovery, *, idempotent: bool) -> bool:
    """Whether a step whose last attempt failed may be attempted once more."""
    if step.unsure and not idempotent:
        return False
    return step.failure_count < recovery.attempts


def before_run(task: TaskRecord, recovery: Recovery, now: datetime) -> Cause | None:
    """Why a task that has just been claimed must not run, or ``None`` when it may."""
    if task.hard_end is not None and now >= task.hard_end:
        return Cause.HARD_END
    if task.crash_count >= recovery.crashes:
        return Cause.CRASHES
    if task.failure_count >= recovery.attempts:
        return Cause.OVERRUN
    return None


def after_failure(
    cause: Cause, recovery: Recovery, *, pivot_passed: bool, now: datetime, hard_end: datetime | None
) -> Verdict:
    """What becomes of a task whose run failed for ``cause``."""
    verdict = _forward_only(cause, recovery, now) if pivot_passed else _by_policy(cause, recovery, now)
    if isinstance(verdict, Park) and hard_end is not None:
        return Park(min(verdict.until, hard_end))
    return verdict


def _by_policy(cause: Cause, recovery: Recovery, now: datetime) -> Verdict:
    match recovery.then:
        case "error":
            return GiveUp()
        case "undo":
            return Undo()
        case "wait":
            if cause is Cause.HARD_END:
                return Undo()
            # Waiting ends in another try, which is the one thing this step must not get;
            # and a task that kills processes would go on killing them.
            if cause in (Cause.UNREPEATABLE, Cause.CRASHES):
                return GiveUp()
            return Park(now + recovery.wait)


def _forward_only(cause: Cause, recovery: Recovery, now: datetime) -> Verdict:
    # Past the point of no return nothing is undone: try again later, or call a person.
    if recovery.then != "error" and cause in (Cause.EXHAUSTED, Cause.OVERRUN):
        return Park(now + recovery.wait)
    return GiveUp()
