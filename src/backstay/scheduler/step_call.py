"""A call of a step, from the moment the workflow makes it until it has the result."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from backstay.definitions.agents import Step
from backstay.definitions.codec import TypeCodec
from backstay.domain.instants import instant
from backstay.domain.states import StepState
from backstay.domain.step import Failure, StepRecord
from backstay.errors import StepFailed
from backstay.messaging.wire import Execution, Ticket
from backstay.tracing import Span

replace = msgspec.structs.replace

# Looking a member up in its enum costs as much as a call.
_PENDING: Final = StepState.PENDING
_RUNNING: Final = StepState.RUNNING
_COMPLETED: Final = StepState.COMPLETED


class StepCall:
    """A call of a step that the workflow is waiting for. Also what the ledger keeps of a straight one."""

    __slots__ = (
        "attempt",
        "complete_by",
        "deadline",
        "due",
        "ended_at",
        "execution",
        "future",
        "input",
        "key",
        "output",
        "position",
        "span",
        "started_at",
        "step",
        "ticket",
    )

    future: asyncio.Future[Any]  # made when the call is awaited
    # Of the attempt that was recorded last, in whole microseconds since 1970.
    complete_by: int
    started_at: int
    # Once it is completed.
    output: bytes
    ended_at: int
    position: int

    def __init__(self, key: str, step: Step[..., Any], input: bytes) -> None:
        self.key = key
        self.step = step
        self.input = input
        self.attempt = 0
        self.ticket: Ticket | None = None
        self.execution: Execution | None = None
        # Both on the clock that never jumps: the end of the attempt that was recorded, and by when an
        # answer must be here; None: nobody was asked.
        self.deadline = 0.0
        self.due: float | None = None
        # Of the attempt, if anybody wants to know.
        self.span: Span | None = None

    @property
    def operation(self) -> str:
        return self.step.name

    def first_record(self, task_key: int) -> StepRecord:
        """What is recorded of a call that stands in line."""
        step = self.step
        return StepRecord(
            task_key=task_key,
            key=self.key,
            agent=step.agent.name,
            operation=step.name,
            state=_PENDING,
            input=self.input,
            undo=step.undo_kind,
            pivot=step.pivot,
        )

    def record(self, task_key: int, *, completed: bool) -> StepRecord:
        running = replace(
            self.first_record(task_key),
            state=_RUNNING,
            attempt=1,
            complete_by=instant(self.complete_by),
            started_at=instant(self.started_at),
        )
        if not completed:
            return running
        return replace(
            running,
            state=_COMPLETED,
            output=self.output,
            ended_at=instant(self.ended_at),
            position=self.position,
        )

    def end_span(self, error: Failure | None = None) -> None:
        """It is known what became of the attempt."""
        if self.span is not None:
            self.span.end(error=None if error is None else error.type)
            self.span = None

    def let_go(self) -> None:
        """The workflow has its result: what is kept of it from here on is what was recorded."""
        del self.future
        self.ticket = None

    @property
    def codec(self) -> TypeCodec:
        return self.step.returns

    def failure(self, record: StepRecord) -> Exception:
        return StepFailed(record.key, msgspec.to_builtins(record.error))
