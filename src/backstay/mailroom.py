"""Looks after queues: what is in them, what was set aside, putting that back, and making room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.clock import Clock
from backstay.definitions.queues import queue_definition, subscription_definition
from backstay.domain.audit import Act
from backstay.domain.bound import MESSAGES_MOST
from backstay.domain.durations import describe
from backstay.domain.message import (
    MessageRecord,
    MessageState,
    Property,
    Sent,
    checked_limit,
)
from backstay.domain.standing import QueueStanding, SessionStanding
from backstay.domain.target import queue_target
from backstay.domain.task import check_id
from backstay.errors import UnknownQueue
from backstay.messaging.exchange import Exchange
from backstay.messaging.message import Message
from backstay.settings import Settings
from backstay.views import Page

#: Messages are counted no further than this; in a list of queues, than that.
COUNTED_MAX: Final = 100_000
LISTED_COUNT_MAX: Final = 10_000
#: So many dead letters are put back at once; say it again for more.
RESUBMITTED_MAX: Final = 1_000
#: So many messages are dropped in one transaction; those of a queue that is deleted, in as many as it takes.
DROPPED_MAX: Final = 5_000


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its terms, and how many messages are in it."""

    name: str
    lock: str
    max_deliveries: int
    dedup: str
    ttl: str | None
    dead_letter_expired: bool
    sessions: bool
    max_messages: int
    # To be received now, those of sessions included that come one after the other.
    ready: int
    # To be received later.
    scheduled: int
    locked: int
    # To be received by their numbers only.
    deferred: int
    dead: int


class ReceivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is its receiver's until ``locked_until``."""

    id: str
    sequence: int
    body: Any
    properties: dict[str, Property]
    session: str | None
    priority: int
    delivery_count: int
    # Empty for what was received at most once: there is nothing to settle.
    lock_token: str
    locked_until: datetime | None
    enqueued_at: datetime | None


class PeekedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in its queue."""

    id: str
    sequence: int
    state: str
    body: Any
    properties: dict[str, Property]
    session: str | None
    priority: int
    delivery_count: int
    enqueued_at: datetime
    # When it can be received: because its lock runs out, or its time has come.
    visible_at: datetime | None
    expires_at: datetime | None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was set aside, and why."""

    id: str
    sequence: int
    reason: str
    detail: str | None
    dead_at: datetime
    body: Any
    properties: dict[str, Property]
    session: str | None
    priority: int
    delivery_count: int
    enqueued_at: datetime


class Resubmitted(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were put back, and their new numbers."""

    resubmitted: int
    sequences: list[int]


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters were dropped for good."""

    discarded: int


class DeletedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is no more, and how many messages went with it."""

    name: str
    messages: int


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    subscriptions: list[SubscriptionView]


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    # The queue that it is.
    queue: str
    where: dict[str, Property]


class Mailroom:
    """The queues of one store, for whoever looks after them."""

    def __init__(
        self, exchange: Exchange, *, settings: Settings, clock: Clock, act: Callable[..., Act]
    ) -> None:
        self._exchange = exchange
        self._queues = exchange.queues
        self._settings = settings
        self._clock = clock
        self._act = act

    # Queues and topics

    async def queues(self, *, after: str | None = None, limit: int = 100) -> Page[QueueView]:
        """By their names."""
        found = await self._queues.standings(
            after=after or "", limit=checked_limit(limit, name="limit") + 1, counted=LISTED_COUNT_MAX
        )
        page = found[:limit]
        return Page([view_of(one) for one in page], page[-1].queue.name if len(found) > limit else None)

    async def queue(self, name: str) -> QueueView:
        """Raises UnknownQueue."""
        found = await self._queues.standings(
            names=[check_id(name, name="name of the queue")], limit=1, counted=COUNTED_MAX
        )
        if not found:
            raise UnknownQueue(name)
        return view_of(found[0])

    async def declare(self, name: str, **options: Any) -> tuple[QueueView, bool]:
        """Make a queue, or give one other terms; how it stands then, and whether it is new."""
        terms = queue_definition(name, **options).terms(self._settings)
        new = await self._queues.declare(terms, now=self._clock.now())
        return await self.queue(name), new

    async def topics(self) -> Page[TopicView]:
        found = await self._queues.topics()
        return Page(
            [
                TopicView(
                    name=name,
                    subscriptions=[
                        SubscriptionView(name=one.name, queue=one.queue, where=one.where)
                        for one in subscriptions
                    ],
                )
                for name, subscriptions in found.items()
            ]
        )

    async def declare_topic(self, name: str) -> bool:
        """Make a topic; whether it is new."""
        return await self._queues.declare_topic(
            check_id(name, name="name of the topic"), now=self._clock.now()
        )

    async def subscribe(
        self, topic: str, name: str, where: Mapping[str, Property] | None = None, **options: Any
    ) -> tuple[QueueView, bool]:
        """Make a subscription, or change it; how its queue stands then, and whether it is new."""
        declared = subscription_definition(topic, name, where, **options)
        new = await self._queues.subscribe(
            declared.subscription, declared.queue.terms(self._settings), now=self._clock.now()
        )
        return await self.queue(declared.queue.name), new

    async def delete(self, name: str, *, force: bool = False, reason: str | None = None) -> DeletedQueue:
        """Delete a queue, and the subscription that it is; with ``force`` the messages in it as well.

        Raises QueueNotEmpty. Those who send to it are told UnknownQueue from then on.
        """
        target = queue_target(check_id(name, name="name of the queue"))
        dropped = await self._purge(name, self._act("drop messages", target, reason)) if force else 0
        dropped += await self._queues.delete(
            name,
            most=DROPPED_MAX if force else 0,
            act=self._act("delete", target, reason),
            now=self._clock.now(),
        )
        return DeletedQueue(name=name, messages=dropped)

    async def _purge(self, name: str, act: Act) -> int:
        """Drop what is in a queue, but for the last few; whoever sends faster than that is not chased."""
        dropped = 0
        for _ in range(MESSAGES_MOST // DROPPED_MAX):
            page = await self._queues.purge(name, limit=DROPPED_MAX, act=act, now=self._clock.now())
            dropped += page
            if page < DROPPED_MAX:
                break
        return dropped

    # Messages

    async def send(self, to: str, body: Any, **options: Any) -> Sent:
        """See ``QueueHandle.send``; ``topic=True`` sends to a topic."""
        return await self._exchange.send(to, body, **options)

    async def peek(self, queue: str, *, limit: int = 100) -> Page[PeekedMessage]:
        """What would be received next, then what cannot be received now. Nothing is locked or counted."""
        found = await self._queues.peek(
            check_id(queue, name="name of the queue"), limit=checked_limit(limit, name="limit")
        )
        return Page([_peeked(one) for one in found])

    async def sessions(
        self, queue: str, *, after: str | None = None, limit: int = 100
    ) -> Page[SessionStanding]:
        """The sessions of a queue, and how many messages wait in each."""
        found = await self._queues.sessions(
            check_id(queue, name="name of the queue"),
            after=after or "",
            limit=checked_limit(limit, name="limit") + 1,
            counted=LISTED_COUNT_MAX,
        )
        return Page(found[:limit], found[limit - 1].session if len(found) > limit else None)

    async def dead_letters(
        self, queue: str, *, after: int | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        """What was set aside, oldest first."""
        found = await self._queues.dead(
            check_id(queue, name="name of the queue"),
            after=after or 0,
            limit=checked_limit(limit, name="limit") + 1,
        )
        page = found[:limit]
        return Page([_dead(one) for one in page], str(page[-1].sequence) if len(found) > limit else None)

    async def resubmit(self, queue: str, id: str | None = None, *, reason: str | None = None) -> Resubmitted:
        """Put a dead letter back at the end of its queue; all of them without ``id``, up to a bound."""
        target = queue_target(check_id(queue, name="name of the queue"))
        sequences = await self._queues.resubmit(
            queue,
            None if id is None else [check_id(id)],
            limit=RESUBMITTED_MAX,
            act=self._act("resubmit dead letters" if id is None else f"resubmit {id}", target, reason),
            now=self._clock.now(),
        )
        return Resubmitted(resubmitted=len(sequences), sequences=sequences)

    async def discard(self, queue: str, id: str | None = None, *, reason: str | None = None) -> Discarded:
        """Drop a dead letter for good; all of them without ``id``, up to a bound."""
        target = queue_target(check_id(queue, name="name of the queue"))
        number = await self._queues.discard(
            queue,
            None if id is None else [check_id(id)],
            limit=DROPPED_MAX,
            act=self._act("discard dead letters" if id is None else f"discard {id}", target, reason),
            now=self._clock.now(),
        )
        return Discarded(discarded=number)


def received(message: Message) -> ReceivedMessage:
    """A received message as it is told to somebody elsewhere."""
    return ReceivedMessage(
        id=message.id,
        sequence=message.sequence,
        body=message.body,
        properties=dict(message.properties),
        session=message.session,
        priority=message.priority,
        delivery_count=message.delivery_count,
        lock_token=message.lock_token,
        locked_until=message.locked_until,
        enqueued_at=message.enqueued_at,
    )


def view_of(standing: QueueStanding) -> QueueView:
    """How a queue stands, as it is told to somebody."""
    queue = standing.queue
    return QueueView(
        name=queue.name,
        lock=describe(queue.lock),
        max_deliveries=queue.max_deliveries,
        dedup=describe(queue.dedup),
        ttl=None if queue.ttl is None else describe(queue.ttl),
        dead_letter_expired=queue.dead_letter_expired,
        sessions=queue.sessions,
        max_messages=queue.max_messages,
        ready=standing.ready + standing.behind,
        scheduled=standing.waiting,
        locked=standing.locked,
        deferred=standing.deferred,
        dead=standing.dead,
    )


def _peeked(record: MessageRecord) -> PeekedMessage:
    return PeekedMessage(
        id=record.id,
        sequence=record.sequence,
        state=_WORDS.get(record.state, record.state.value),
        body=msgspec.json.decode(record.body),
        properties=record.properties,
        session=record.session,
        priority=record.priority,
        delivery_count=record.delivery_count,
        enqueued_at=record.enqueued_at,
        visible_at=record.visible_at,
        expires_at=record.expires_at,
    )


# The words of the counts.
_WORDS: Final = {MessageState.BEHIND: "ready", MessageState.WAITING: "scheduled"}


def _dead(record: MessageRecord) -> DeadLetter:
    assert record.dead_at is not None
    return DeadLetter(
        id=record.id,
        sequence=record.sequence,
        reason=record.reason or "",
        detail=record.detail,
        dead_at=record.dead_at,
        body=msgspec.json.decode(record.body),
        properties=record.properties,
        session=record.session,
        priority=record.priority,
        delivery_count=record.delivery_count,
        enqueued_at=record.enqueued_at,
    )
