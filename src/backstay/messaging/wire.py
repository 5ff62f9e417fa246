"""What a scheduler and an agent say to each other.

The scheduler takes a slot first (the agent may be busy, or its breaker open), makes the attempt
durable, and only then sends the request. The agent replies at most once, and never after the
request's complete-by.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import msgspec

from backstay.domain.step import Failure, Outcome


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Do this step, or undo it. ``idempotency_key`` is the same for every attempt of either."""

    task_id: str
    step: str
    agent: str
    operation: str
    attempt: int
    input: bytes
    # In whole microseconds since 1970.
    complete_by: int
    # Beside the instant: hosts may disagree about what time it is, not about how long a second lasts.
    remaining_seconds: float
    undo: bool = False
    outcome: Outcome | None = None
    result: bytes | None = None

    @property
    def idempotency_key(self) -> str:
        return f"{self.task_id}/{self.step}/undo" if self.undo else f"{self.task_id}/{self.step}"


class Completed(msgspec.Struct, frozen=True, gc=False):
    """It is done."""

    output: bytes


class Failed(msgspec.Struct, frozen=True):
    """It is not done, or nobody knows: ``unsure`` when some try ended without the service's verdict."""

    error: Failure
    unsure: bool
    # How long the service asked to be left alone.
    retry_after: timedelta | None = None


class Deferred(msgspec.Struct, frozen=True):
    """The breaker opened before the tries were used up; ask again later. No failure is counted."""

    error: Failure
    unsure: bool


Reply = Completed | Failed | Deferred


class Ticket(Protocol):
    """A place at an agent, or in the line for one."""

    @property
    def granted(self) -> bool: ...

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when the slot is granted, and when the breaker opens before that."""

    def open_in_seconds(self) -> float:
        """How long the agent's breaker stays open at least; 0 when only a slot is missing."""

    def give_back(self) -> None:
        """Leave the line, or free a slot that was granted and not used."""


class Execution(Protocol):
    """A request under way."""

    def cancel(self, ended: Callable[[], None]) -> None:
        """Nobody waits for the reply any more; ``ended`` is called when the body is known to have stopped."""


class AgentLink(Protocol):
    """The way from a scheduler to its agents."""

    def reserve(self, agent: str) -> Ticket:
        """Ask for a slot; who is not granted one at once stands in line for it."""

    @property
    def resting(self) -> int:
        """How many requests are at rest: in line for a slot, or waiting for something outside."""

    def when_resting(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever there is one more."""

    def execute(self, ticket: Ticket, request: Request, reply: Callable[[Reply], None]) -> Execution:
        """Start the attempt that ``ticket`` has a slot for."""
