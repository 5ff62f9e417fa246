"""Which workflow branch, or which attempt of a step, is running right now.

Two context variables tie the user's code to the engine: a workflow's asyncio tasks carry a
``Scope``, the body of a step carries its ``TellingStep``. Both are absent elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

import msgspec

from backstay.domain.journal import Branch
from backstay.domain.step import Outcome

Value = TypeVar("Value")


class RunningWorkflow(Protocol):
    """What a workflow's code reaches through the names it awaits.

    Declarations are typed loosely here: they call the running workflow, so they lie above it.
    """

    def call_step(
        self, branch: Branch, step: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]: ...

    def sleep(self, branch: Branch, time: timedelta) -> Coroutine[Any, Any, None]: ...

    def wait_for(self, branch: Branch, name: str, timeout: timedelta | None) -> Coroutine[Any, Any, Any]: ...

    def start_child(
        self, branch: Branch, workflow: Any, args: tuple[Any, ...], task_id: str | None
    ) -> Coroutine[Any, Any, Any]: ...

    def value(self, branch: Branch, name: str, kind: type[Value], make: Callable[[], Value]) -> Value: ...

    def now(self) -> datetime: ...

    def random(self) -> float: ...


class Scope(msgspec.Struct, frozen=True):
    """One branch of one running workflow."""

    run: RunningWorkflow
    branch: Branch


class RunningStep(Protocol):
    """An attempt under way, as its body sees it."""

    @property
    def remaining(self) -> timedelta: ...

    @property
    def cancelled(self) -> bool: ...


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a step may know about itself: ``current_step()``."""

    task_id: str
    key: str
    attempt: int
    idempotency_key: str
    complete_by: datetime
    outcome: Outcome | None
    # The trace that the submitter began, if it told one: attribute ``traceparent`` of the task.
    traceparent: str | None = None
    _running: RunningStep

    @property
    def remaining(self) -> timedelta:
        """How much time is left, measured on this machine's own steady clock."""
        return self._running.remaining

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more; a step in a thread should look now and then."""
        return self._running.cancelled


class TellingStep(RunningStep, Protocol):
    """One that tells its body about itself when asked, which most bodies never do."""

    def seen_by_body(self) -> StepContext: ...


current_scope: Final[ContextVar[Scope | None]] = ContextVar("backstay_scope", default=None)
running_step: Final[ContextVar[TellingStep | None]] = ContextVar("backstay_step", default=None)


def step_context() -> StepContext | None:
    """What the running step may know about itself; ``None`` where none runs."""
    running = running_step.get()
    return None if running is None else running.seen_by_body()
