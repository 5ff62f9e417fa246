"""What a scheduler and an agent say to each other, and the way between them.

The scheduler takes a slot first (the agent may be busy, or its breaker open), makes the attempt
durable, and only then sends the request. The agent replies at most once, and never after the
request's complete-by. The agents may be in the same process, or in others that are reached through the
store; what is said is the same (``domain.request``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from backstay.domain.request import Completed, Deferred, Failed, Lost, Reply, Request

__all__ = [
    "AgentLink",
    "Answer",
    "Completed",
    "Deferred",
    "Execution",
    "Failed",
    "Lost",
    "Reply",
    "Request",
    "Ticket",
]

#: What becomes of a request that was sent: a reply, or the certainty that none will come.
Answer = Reply | Lost


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

    def overdue(self, told: Callable[[Answer | None, bool], None]) -> None:
        """Its complete-by passed and no reply was heard: stop it.

        ``told`` hears the reply after all if it was given in time, and whether the body may have begun.
        """

    def leave(self) -> None:
        """Follow it no longer. One that others can follow goes on; the body of any other is stopped."""


class AgentLink(Protocol):
    """The way from a scheduler to its agents."""

    @property
    def through_store(self) -> bool:
        """Whether requests lie in the store, written with the records that they belong to."""

    def reserve(self, agent: str) -> Ticket:
        """Ask for a slot; who is not granted one at once stands in line for it."""

    @property
    def resting(self) -> int:
        """How many requests are at rest: in line for a slot, or waiting for something outside."""

    def when_resting(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever there is one more."""

    def execute(self, ticket: Ticket, request: Request, reply: Callable[[Answer], None]) -> Execution:
        """Start the attempt that ``ticket`` has a slot for."""
