"""What those who look after queues can do: look, put back, delete. Each verb is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from backstay.domain.audit import Act
from backstay.domain.message import MessageRecord, Subscription
from backstay.domain.standing import Level, QueueStanding, SessionStanding


class QueueCare(Protocol):
    """Nothing of it locks or counts a delivery. Who names a queue that is not there gets UnknownQueue."""

    # Look

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int, counted: int
    ) -> list[QueueStanding]:
        """Queues in the order of their names, and how many messages they hold, as far as ``counted``."""

    async def levels(self, *, limit: int, counted: int) -> list[Level]:
        """Of the first queues by their names: how many can be received now, by priority, and since when."""

    async def sessions(
        self, queue: str, *, after: str = "", limit: int, counted: int
    ) -> list[SessionStanding]:
        """The sessions of a queue by their names, as far as ``counted`` of their messages."""

    async def topics(self) -> Mapping[str, list[Subscription]]:
        """Every topic, with its subscriptions."""

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        """What would be received next, then what cannot be received now."""

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        """What was set aside, by sequence number, with the reason."""

    # Step in; all of it is in the audit trail, and takes up what is called for of the queue

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        """Put dead letters back at the end of their queue, as if they had never been received.

        All of them without ``ids``, up to ``limit``; the new sequence numbers.
        """

    async def discard(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> int:
        """Drop dead letters for good: all of them without ``ids``, up to ``limit``; how many those were."""

    async def purge(self, queue: str, *, limit: int, act: Act, now: datetime) -> int:
        """Drop up to ``limit`` messages in whatever state they are; how many those were."""

    async def delete(self, queue: str, *, most: int, act: Act, now: datetime) -> int:
        """Delete a queue with the messages in it, which are dropped, and the subscription that it is.

        Raises QueueNotEmpty when there are more than ``most``, and then drops nothing.
        """
