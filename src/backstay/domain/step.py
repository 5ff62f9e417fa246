"""The record of a step: one entry in a task's journal.

Beside the steps proper the journal keeps what else the workflow learnt from outside, so that it
replays: sleeps, signals, children, and values such as ``now()``. They share the record; ``kind``
tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from backstay.domain.states import StepState

MESSAGE_LENGTH_MAX: Final = 2_000

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class StepKind(StrEnum):
    STEP = "step"
    SLEEP = "sleep"
    SIGNAL = "signal"
    CHILD = "child"
    VALUE = "value"


class UndoKind(StrEnum):
    """How a step is undone, if it is: by its agent, or by a person."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


class Outcome(StrEnum):
    """What an undo is told about the step that it undoes."""

    COMPLETED = "completed"
    UNKNOWN = "unknown"


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error as it is recorded and shown."""

    type: str
    message: str
    step: str | None = None
    permanent: bool = False


def failure_of(error: BaseException, *, step: str | None = None, permanent: bool = False) -> Failure:
    """The failure that ``error`` stands for. Whatever it says of itself, it can be recorded."""
    try:
        message = str(error) or repr(error)
    except Exception:  # noqa: BLE001  Other people's __str__ may raise anything at all.
        message = "its message cannot be read"
    # Half of a surrogate pair cannot be written as UTF-8.
    message = message.encode("utf-8", "replace").decode()
    if len(message) > MESSAGE_LENGTH_MAX:
        message = f"{message[: MESSAGE_LENGTH_MAX - 1]}…"
    return Failure(type(error).__name__, message, step=step, permanent=permanent)


class StepRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a task's journal, as the store keeps it."""

    task_key: int
    key: str
    kind: StepKind = StepKind.STEP
    agent: str | None = None
    operation: str
    state: StepState
    attempt: int = 0
    failure_count: int = 0
    # For a step: until when its agent may act. For a sleep or a signal: when the wait ends.
    complete_by: datetime | None = None
    # None only in a step that was planned with the submission and not called yet.
    input: bytes | None = None
    output: bytes | None = None
    error: Failure | None = None
    started_at: datetime | None = None
    # None while the attempt may still be doing something somewhere.
    ended_at: datetime | None = None
    # The order in which results reached the workflow; replay delivers them in the same order.
    position: int | None = None
    undo: UndoKind | None = None
    undo_attempt: int = 0
    undo_failures: int = 0
    pivot: bool = False
    # Some attempt ended without a verdict of the service: its effect may or may not be there.
    unsure: bool = False

    @property
    def settled(self) -> bool:
        """Whether the workflow was given this entry's result or failure."""
        return self.position is not None

    @property
    def outcome(self) -> Outcome | None:
        """What is known of the step's effect; ``None`` when it certainly has none."""
        if self.output is not None:
            return Outcome.COMPLETED
        if self.state is StepState.RUNNING or self.unsure:
            return Outcome.UNKNOWN
        return None


def in_order_of_beginning(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """As a person would read a journal; what was planned and not yet begun comes last.

    Always the same: what began at the same instant comes as it ended, what has not ended last, and then in
    the order of its keys.
    """
    return sorted(steps, key=_beginning)


def _beginning(step: StepRecord) -> tuple[datetime, bool, int, str]:
    return step.started_at or _NEVER, step.position is None, step.position or 0, step.key


def interrupted(step: StepRecord) -> StepRecord:
    """The record of a running step whose attempt nobody will report on any more."""
    reason = f"attempt {step.attempt} was interrupted; whether it took effect is not known"
    return msgspec.structs.replace(
        step,
        state=StepState.FAILED,
        unsure=True,
        error=Failure("Interrupted", reason, step=step.key),
    )
