"""A task's steps on a line of time: what of it began when, how long it took, and until when it may take.

Pure: made of the records of a task and an instant. Places on the line are in percent of its length, so that
it fits whatever width it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.domain.states import SETTLED, StepState
from backstay.domain.step import StepKind, StepRecord, UndoKind
from backstay.domain.task import TaskRecord
from backstay.domain.wording import took

#: So many steps are drawn; of a longer journal the first ones.
ROWS_MAX: Final = 400
TICKS: Final = 4

#: Nothing is so short that it cannot be seen.
_LEAST_WIDTH: Final = 0.35
_SHORTEST: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_TENTHS_BELOW: Final = timedelta(seconds=60)


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where, in percent."""

    left: float
    width: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A step, or something that the workflow waited for."""

    key: str
    what: str
    kind: str
    state: str
    agent: str | None
    # What is the same for all of these: "attempt 3, failed twice".
    tries: str
    bar: Bar | None
    length: str
    # Until when it may take, if that is still to be seen.
    complete_by: float | None
    error: str | None
    # The place in the order of the undo: 1 is undone first.
    undo: int | None
    undo_by_hand: bool
    pivot: bool


class Tick(msgspec.Struct, frozen=True):
    """A mark on the line, and how long after its beginning it is."""

    at: float
    text: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    rows: list[Row]
    left_out: int
    ticks: list[Tick]
    began: datetime
    length: str
    # Where now is; nowhere, once the task has settled.
    now: float | None
    # How many steps are, or were, undone.
    undone: int


def timeline(task: TaskRecord, steps: Sequence[StepRecord], *, now: datetime) -> Timeline:
    shown = [step for step in steps if step.kind is not StepKind.VALUE]
    drawn, left_out = shown[:ROWS_MAX], max(0, len(shown) - ROWS_MAX)
    scale = _scale(task, drawn, now)
    order = _undo_order(shown)
    return Timeline(
        rows=[_row(step, scale, now, order.get(step.key)) for step in drawn],
        left_out=left_out,
        ticks=[scale.tick(part / TICKS) for part in range(TICKS + 1)],
        began=scale.first,
        length=_length(scale.last - scale.first),
        now=None if task.state in SETTLED else scale.place(now),
        undone=len(order),
    )


class _Scale(msgspec.Struct, frozen=True):
    """What of time is shown."""

    first: datetime
    last: datetime

    def place(self, at: datetime) -> float:
        part = (at - self.first) / (self.last - self.first)
        return round(100 * min(1.0, max(0.0, part)), 3)

    def bar(self, begin: datetime, end: datetime) -> Bar:
        left = min(self.place(begin), 100 - _LEAST_WIDTH)
        width = max(_LEAST_WIDTH, self.place(end) - left)
        return Bar(left=round(left, 3), width=round(min(width, 100 - left), 3))

    def tick(self, part: float) -> Tick:
        return Tick(round(100 * part, 3), f"+{_length((self.last - self.first) * part)}")


def _length(time: timedelta) -> str:
    """As ``took``, with tenths where marks a second apart would read the same."""
    is_short = _SECOND <= time < _TENTHS_BELOW
    return f"{time / _SECOND:.1f}s" if is_short else took(time)


def _scale(task: TaskRecord, steps: Iterable[StepRecord], now: datetime) -> _Scale:
    """From the task's beginning to the last thing that is known of it, or to now while it moves."""
    first = task.created_at
    known = [instant for step in steps for instant in (step.started_at, step.ended_at) if instant is not None]
    last = max([first + _SHORTEST, *known, now if task.state not in SETTLED else task.updated_at])
    return _Scale(min([first, *known]), last)


def _row(step: StepRecord, scale: _Scale, now: datetime, undo: int | None) -> Row:
    # Nobody knows when an attempt ended of which nobody heard: it may be at work until its complete-by.
    end = step.ended_at or (now if step.state is StepState.RUNNING else step.complete_by) or step.started_at
    bar = None if step.started_at is None or end is None else scale.bar(step.started_at, min(end, scale.last))
    may_take_longer = step.state is StepState.RUNNING and step.complete_by is not None
    seen = may_take_longer and step.complete_by is not None and step.complete_by <= scale.last
    return Row(
        key=step.key,
        what=step.operation,
        kind=step.kind.value,
        state=step.state.value,
        agent=step.agent,
        tries=_tries(step),
        bar=bar,
        length="" if step.started_at is None or end is None else _length(end - step.started_at),
        complete_by=scale.place(step.complete_by) if seen and step.complete_by is not None else None,
        error=None if step.error is None else f"{step.error.type}: {step.error.message}",
        undo=undo,
        undo_by_hand=step.undo is UndoKind.MANUAL,
        pivot=step.pivot,
    )


def _tries(step: StepRecord) -> str:
    said = []
    if step.attempt > 1:
        said.append(f"attempt {step.attempt}")
    if step.failure_count:
        said.append(f"failed {_times(step.failure_count)}")
    if step.undo_attempt > 1:
        said.append(f"undo attempt {step.undo_attempt}")
    if step.undo_failures:
        said.append(f"undo failed {_times(step.undo_failures)}")
    return ", ".join(said)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


_UNDONE: Final = frozenset({StepState.UNDOING, StepState.UNDONE, StepState.UNDO_FAILED})


def _undo_order(steps: Iterable[StepRecord]) -> dict[str, int]:
    """The steps that are being undone, or were: newest first, as an undo takes them."""
    undone = [step for step in steps if step.state in _UNDONE]
    undone.sort(key=lambda step: step.position or float("inf"), reverse=True)
    return {step.key: number for number, step in enumerate(undone, start=1)}
