"""A message in the hands of whoever received it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from backstay.domain.durations import Duration, duration
from backstay.domain.message import (
    LOCK_MOST,
    Action,
    Lock,
    MessageRecord,
    Properties,
    Property,
    Settlement,
    checked_reason,
    shortened_detail,
)
from backstay.errors import InvalidRequest


class Settler(Protocol):
    """Where a message is settled."""

    async def settle(self, settlement: Settlement) -> None:
        """Raises LockLost when the lock ran out."""

    async def renew(self, lock: Lock) -> datetime:
        """Until when the message is locked now. Raises LockLost."""

    async def rewrite(self, lock: Lock, body: Any) -> datetime:
        """The same for a message that holds something else from now on."""


class Message:
    """What was sent, and the right to say what became of it.

    Until ``locked_until`` nobody else receives it; ``renew`` moves that on. Settled twice, or too late,
    it raises LockLost: then somebody else may have received it.
    """

    def __init__(
        self,
        id: str,
        body: Any = None,
        properties: Properties | None = None,
        delivery_count: int = 1,
        *,
        queue: str = "",
        sequence: int = 0,
        session: str | None = None,
        priority: int = 0,
        enqueued_at: datetime | None = None,
        locked_until: datetime | None = None,
        lock_token: str = "",
        settler: Settler | None = None,
    ) -> None:
        self.id = id
        self.body = body
        self.properties: Mapping[str, Property] = {} if properties is None else dict(properties)
        #: 1 at the first delivery.
        self.delivery_count = delivery_count
        self.queue = queue
        self.sequence = sequence
        self.session = session
        self.priority = priority
        self.enqueued_at = enqueued_at
        self.locked_until = locked_until
        self.lock_token = lock_token
        #: Whether it was said what became of it.
        self.settled = False
        self._settler = settler

    def __repr__(self) -> str:
        return f"Message({self.id!r}, queue={self.queue!r}, delivery_count={self.delivery_count})"

    @property
    def lock(self) -> Lock:
        return Lock(self.queue, self.id, self.lock_token)

    async def complete(self) -> None:
        """It is done; it will not be received again."""
        await self._settle(Action.COMPLETE)

    async def abandon(self, *, delay: Duration = timedelta(0), detail: str | None = None) -> None:
        """It failed: it is received again after ``delay``, or, if this was the last time, set aside."""
        await self._settle(Action.ABANDON, delay=duration(delay, name="delay"), detail=detail)

    async def release(self) -> None:
        """Nobody tried; it is to be received again, and this delivery does not count."""
        await self._settle(Action.RELEASE)

    async def defer(self) -> None:
        """Not now: only who asks for it by its ``sequence`` receives it again. It no longer expires."""
        await self._settle(Action.DEFER)

    async def dead_letter(self, reason: str, detail: str | None = None) -> None:
        """It will never succeed: set it aside, with a reason, until a person resubmits it."""
        await self._settle(Action.DEAD_LETTER, reason=checked_reason(reason), detail=detail)

    async def renew(self) -> datetime:
        """Keep it for the queue's lock time from now on; until when."""
        self.locked_until = await self._received_by.renew(self.lock)
        return self.locked_until

    async def rewrite(self, body: Any) -> datetime:
        """Let it hold ``body`` from now on, whoever receives it next, and keep it; until when.

        So a receiver that has come half way can write down how far: the next one goes on from there.
        """
        self.locked_until = await self._received_by.rewrite(self.lock, body)
        self.body = body
        return self.locked_until

    async def _settle(
        self,
        action: Action,
        *,
        delay: timedelta = timedelta(0),
        reason: str | None = None,
        detail: str | None = None,
    ) -> None:
        if delay > LOCK_MOST:
            raise InvalidRequest(f"delay is {delay}; at most {LOCK_MOST} are allowed")
        kept = None if detail is None else shortened_detail(detail)
        said = Settlement(lock=self.lock, action=action, delay=delay, reason=reason, detail=kept)
        await self._received_by.settle(said)
        self.settled = True

    @property
    def _received_by(self) -> Settler:
        if self._settler is None:
            raise InvalidRequest(
                f"message {self.id!r} was not received under a lock: there is nothing to settle"
            )
        return self._settler


def as_message(record: MessageRecord, settler: Settler | None) -> Message:
    """What a receiver gets; without a ``settler``, what is gone already."""
    return Message(
        record.id,
        msgspec.json.decode(record.body),
        record.properties,
        record.delivery_count,
        queue=record.queue,
        sequence=record.sequence,
        session=record.session,
        priority=record.priority,
        enqueued_at=record.enqueued_at,
        locked_until=record.visible_at,
        lock_token=record.lock_token or "",
        settler=settler,
    )
