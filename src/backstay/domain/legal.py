"""What an operator may do to a task as it stands: each move that ``operate`` would not refuse.

Nothing is said here of states: each move is tried on the records, and the arrow tables decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial

import msgspec

from backstay.domain.operate import Amendment, cancel, check_hears, complete_step, request_undo, resubmit
from backstay.domain.states import StepState
from backstay.domain.step import StepKind, StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import Conflict


class Move(StrEnum):
    """What can be done to a task."""

    RESUBMIT = "resubmit"
    RESTART = "restart"  # resubmit from the start
    UNDO = "undo"
    CANCEL = "cancel"  # and leave what it did as it is
    COMPLETE_STEP = "complete-step"
    SIGNAL = "signal"


class Legal(msgspec.Struct, frozen=True):
    """A move that is legal now; of one step, or of one signal that is waited for, if it is about one."""

    move: Move
    about: str | None = None


def legal_moves(task: TaskRecord, steps: Sequence[StepRecord], *, now: datetime) -> list[Legal]:
    """Everything that may be done now. A move that somebody else makes first may be refused all the same."""
    return [*_of_task(task, steps), *_of_steps(task, steps, now=now), *_signals(task, steps)]


def _of_task(task: TaskRecord, steps: Sequence[StepRecord]) -> Iterator[Legal]:
    tried: tuple[tuple[Move, Callable[[], Amendment]], ...] = (
        (Move.RESUBMIT, partial(resubmit, task, steps, from_="failed")),
        (Move.RESTART, partial(resubmit, task, steps, from_="start")),
        (Move.UNDO, partial(request_undo, task, steps)),
        (Move.CANCEL, partial(cancel, task, steps, undo=False)),
    )
    yield from (Legal(move) for move, attempt in tried if _is_legal(attempt))


def _of_steps(task: TaskRecord, steps: Sequence[StepRecord], *, now: datetime) -> Iterator[Legal]:
    for step in steps:
        # What is undone by hand is, like what failed, a person's to say; a step at work is its agent's.
        is_for_people = step.kind is StepKind.STEP and step.state is not StepState.RUNNING
        attempt = partial(complete_step, task, steps, key=step.key, output=b"null", now=now)
        if is_for_people and _is_legal(attempt):
            yield Legal(Move.COMPLETE_STEP, step.key)


def _signals(task: TaskRecord, steps: Sequence[StepRecord]) -> Iterator[Legal]:
    if not _is_legal(partial(check_hears, task)):
        return
    waits = (step for step in steps if step.kind is StepKind.SIGNAL and step.state is StepState.RUNNING)
    yield from (Legal(Move.SIGNAL, name) for name in dict.fromkeys(step.operation for step in waits))
    yield Legal(Move.SIGNAL)


def _is_legal(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Conflict:
        return False
    return True
