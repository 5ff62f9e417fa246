"""Which steps are undone, in which order, and when each may start."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from backstay.domain.states import StepState
from backstay.domain.step import StepRecord, UndoKind

_OVER: Final = frozenset({StepState.UNDONE, StepState.UNDO_FAILED, StepState.SKIPPED})

# A step that never gave the workflow a result is newer than every one that did.
_NEWEST: Final = float("inf")


def undo_plan(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps still to be undone, newest first: those with an effect, known or possible, and an undo."""
    wanted = [
        step for step in steps if step.undo is not None and step.state not in _OVER and _has_effect(step)
    ]
    return sorted(wanted, key=_age, reverse=True)


def tried_again(step: StepRecord) -> StepRecord:
    """A step as it stands when an undo that failed is tried once more."""
    if step.state is not StepState.UNDO_FAILED:
        return step
    return msgspec.structs.replace(step, state=StepState.UNDOING, undo_failures=0, error=None)


def pivot_passed(steps: Iterable[StepRecord]) -> bool:
    """Whether the point of no return lies behind, or may lie behind."""
    return any(step.pivot and step.outcome is not None for step in steps)


def may_start_at(step: StepRecord) -> datetime | None:
    """When the undo of ``step`` may start; ``None`` means at once.

    An attempt that nobody saw end may still be at work, until its complete-by.
    """
    if step.state is StepState.UNDOING or step.ended_at is not None:
        return None
    return step.complete_by


def is_manual(step: StepRecord) -> bool:
    return step.undo is UndoKind.MANUAL


def _has_effect(step: StepRecord) -> bool:
    return step.state is StepState.UNDOING or step.outcome is not None


def _age(step: StepRecord) -> tuple[float, float]:
    position = _NEWEST if step.position is None else step.position
    return position, step.started_at.timestamp() if step.started_at else 0.0
