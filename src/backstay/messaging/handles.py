"""A queue and a topic as programs hold them: what ``app.queue`` and ``app.topic`` give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backstay.domain.durations import Duration, Instant
from backstay.domain.message import Properties, Property, Sent, subscription_queue
from backstay.messaging.exchange import Exchange
from backstay.messaging.message import Message

#: Subscribes: topic, name, what it asks of a message, and options of its queue.
Subscribe = Callable[..., None]


class QueueHandle:
    """A queue: send to it, receive from it."""

    def __init__(self, name: str, exchange: Callable[[], Exchange]) -> None:
        self.name = name
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"QueueHandle({self.name!r})"

    async def send(
        self,
        body: Any = None,
        *,
        id: str | None = None,
        session: str | None = None,
        priority: int = 0,
        properties: Properties | None = None,
        at: Instant | None = None,
        ttl: Duration | None = None,
    ) -> Sent:
        """Send a message; it is durable once this comes back.

        With an ``id`` it is sent once within the queue's ``dedup`` window, however often it is tried.
        Messages of one ``session`` are received in order and one at a time. A higher ``priority`` comes
        sooner. ``at``, an instant or a duration from now, is when it may be received first; ``ttl`` how
        long from then on.
        """
        return await self._exchange().send(
            self.name,
            body,
            id=id,
            session=session,
            priority=priority,
            properties=properties,
            at=at,
            ttl=ttl,
        )

    async def receive(
        self,
        max: int = 1,
        *,
        wait: Duration | None = None,
        at_most_once: bool = False,
    ) -> list[Message]:
        """Up to ``max`` messages, locked for the queue's lock time; none, if none comes within ``wait``.

        With ``at_most_once`` they are gone from the queue as they are received: nothing is to be said of
        them, and what you do not finish, nobody does.
        """
        return await self._exchange().receive(self.name, max=max, wait=wait, at_most_once=at_most_once)

    async def receive_deferred(self, *sequences: int) -> list[Message]:
        """Messages that were deferred, by their sequence numbers; those that are not there are left out."""
        return await self._exchange().receive_deferred(self.name, sequences)

    async def cancel(self, sequence: int) -> bool:
        """Take back a message that was sent to be received later; whether it was still waiting."""
        return await self._exchange().cancel(self.name, sequence)


class TopicHandle:
    """A topic: what is sent to it is copied to each subscription that matches."""

    def __init__(
        self, name: str, exchange: Callable[[], Exchange], *, subscribe: Subscribe | None = None
    ) -> None:
        self.name = name
        self._exchange = exchange
        self._subscribe = subscribe

    def __repr__(self) -> str:
        return f"TopicHandle({self.name!r})"

    def subscription(
        self, name: str, where: Mapping[str, Property] | None = None, **options: Any
    ) -> QueueHandle:
        """A subscription, which is a queue of its own; ``options`` are those of ``app.queue``.

        It gets the messages that have each property in ``where``, with just that value; all without it.
        """
        if self._subscribe is not None:
            self._subscribe(self.name, name, where, **options)
        return QueueHandle(subscription_queue(self.name, name), self._exchange)

    async def send(
        self,
        body: Any = None,
        *,
        id: str | None = None,
        session: str | None = None,
        priority: int = 0,
        properties: Properties | None = None,
        at: Instant | None = None,
        ttl: Duration | None = None,
    ) -> Sent:
        """Send a message to every subscription that matches, in one transaction; see ``QueueHandle.send``."""
        return await self._exchange().send(
            self.name,
            body,
            topic=True,
            id=id,
            session=session,
            priority=priority,
            properties=properties,
            at=at,
            ttl=ttl,
        )
