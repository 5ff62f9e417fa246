"""What queues can do. Each verb is one transaction: it happens entirely or not at all.

A message is received under a lock and stays in its queue until whoever received it says what became
of it. Every such word names the token of the delivery, and is refused with LockLost once the lock ran
out: nothing is ever settled by accident, and nothing silently.

Verbs that many callers use at once take many messages: each of those is answered for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from backstay.domain.message import (
    Lock,
    MessageRecord,
    NewMessage,
    Queue,
    Sent,
    Settlement,
    Subscription,
)
from backstay.errors import BackstayError
from backstay.messaging.care import QueueCare

#: Called with the names of queues in which there may be something to receive; None: in any of them.
Caller = Callable[[frozenset[str] | None], None]


class Queues(QueueCare, Protocol):
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

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        """Put messages into queues. One that its sender named is sent once within the queue's window.

        What goes to a topic is copied to each subscription that matches, or to none if one refuses it.
        An answer may be UnknownQueue, InvalidInput or QueueFull; the others are sent all the same. How full
        a queue is may be known from a moment ago, but never does it refuse what was sent before.
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

    async def take(self, queue: str, *, limit: int, now: datetime) -> list[MessageRecord]:
        """The same, but nothing is locked: what is given is gone, whatever becomes of it."""

    async def receive_deferred(
        self, queue: str, sequences: Sequence[int], *, secret: str, now: datetime
    ) -> list[MessageRecord]:
        """Lock those of these messages that were deferred. Raises UnknownQueue.

        Abandoned, or left until the lock ran out, they are deferred again, unless it was their last delivery.
        """

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        """Whether a receive would find something: one cheap look, so that waiting writes nothing."""

    async def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> list[BackstayError | None]:
        """Carry out what became of messages. ``LockLost`` for each whose token is no longer current."""

    async def renew(self, locks: Sequence[Lock], *, now: datetime) -> list[datetime | BackstayError]:
        """Keep messages for the queue's lock time from now on: until when, or ``LockLost``."""

    async def rewrite(self, lock: Lock, body: bytes, *, now: datetime) -> datetime | BackstayError:
        """Let a message that is locked hold something else, and keep it: until when, or ``LockLost``."""

    def listen(self, caller: Caller) -> Callable[[], None]:
        """Call ``caller`` when there may be something to receive; returns how to stop that."""
