"""What queues can do. Each verb is one transaction: it happens entirely or not at all.

A message is received under a lock and stays in its queue until whoever received it says what became
of it. Every such word names the token of the delivery, and is refused with LockLost once the lock ran
out: nothing is ever settled by accident, and nothing silently.

Verbs that many callers use at once take many messages: each of those is answered for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from backstay.domain.audit import Act
from backstay.domain.message import (
    Lock,
    MessageRecord,
    NewMessage,
    Queue,
    QueueStanding,
    Sent,
    Settlement,
    Subscription,
)
from backstay.errors import BackstayError

#: Called with the names of queues in which there may be something to receive; None: in any of them.
Caller = Callable[[frozenset[str] | None], None]


class Queues(Protocol):
    """The queues and topics of one store. Times are passed in; a shared store judges by its own clock."""

    # What there is

    async def declare(self, queue: Queue, *, now: datetime) -> bool:
        """Make a queue, or let other terms count for one that is there; whether it is new."""

    async def declare_topic(self, name: str, *, now: datetime) -> bool:
        """Make a topic; whether it is new."""

    async def subscribe(self, subscription: Subscription, queue: Queue, *, now: datetime) -> bool:
        """Make a subscription with its queue, or change which messages it gets; whether it is new.

        It gets what is sent from now on. Raises UnknownQueue where there is no such topic.
        """

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int, counted: int
    ) -> list[QueueStanding]:
        """Queues in the order of their names, and how many messages they hold, as far as ``counted``."""

    async def topics(self) -> Mapping[str, list[Subscription]]:
        """Every topic, with its subscriptions."""

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        """Put messages into queues. One that its sender named is sent once within the queue's window.

        What goes to a topic is copied to each subscription that matches, or to none if one refuses it.
        An answer may be UnknownQueue or InvalidInput; the others are sent all the same.
        """

    async def cancel(self, queue: str, sequence: int, *, now: datetime) -> bool:
        """Take back a message that was sent to be received later; whether it was still waiting."""

    # The way out

    async def receive(self, queue: str, *, limit: int, secret: str, now: datetime) -> list[MessageRecord]:
        """Lock up to ``limit`` messages, most urgent first; of each session one, in the order it was sent.

        Fewer, where their bodies together would be too large.

        ``secret`` is nobody else's: tokens are made of it. What was received too often, or has expired,
        is set aside on the way. Raises UnknownQueue.
        """

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        """Whether a receive would find something: one cheap look, so that waiting writes nothing."""

    async def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> list[BackstayError | None]:
        """Carry out what became of messages. ``LockLost`` for each whose token is no longer current."""

    async def renew(self, locks: Sequence[Lock], *, now: datetime) -> list[datetime | BackstayError]:
        """Keep messages for the queue's lock time from now on: until when, or ``LockLost``."""

    def listen(self, caller: Caller) -> Callable[[], None]:
        """Call ``caller`` when there may be something to receive; returns how to stop that."""

    # Looking, and stepping in

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        """What would be received next, then what cannot be received now; nothing is locked or counted."""

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        """What was set aside, by sequence number, with the reason."""

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        """Put dead letters back at the end of their queue, as if they had never been received.

        All of them without ``ids``, up to ``limit``; the new sequence numbers. In the audit trail.
        """
