"""The declarations behind ``app.queue``, ``app.topic`` and ``@app.consumer``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from backstay.domain.durations import Duration, duration
from backstay.domain.message import (
    DEDUP_USUAL,
    RECEIVE_MAX,
    Property,
    Queue,
    Subscription,
    checked_properties,
    checked_queue,
)
from backstay.domain.task import check_id
from backstay.errors import InvalidDefinition
from backstay.settings import Settings

CONCURRENCY_MAX: Final = 10_000

#: Gets each message; what it returns does not matter, what it raises does. (Of a submission: see there.)
Handler = Callable[..., Awaitable[object]]


class QueueDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as an application declares it; what is None is as the settings say."""

    name: str
    lock: timedelta | None = None
    max_deliveries: int | None = None
    dedup: timedelta = DEDUP_USUAL
    ttl: timedelta | None = None
    dead_letter_expired: bool = False
    sessions: bool = False
    max_messages: int | None = None

    def terms(self, settings: Settings) -> Queue:
        """Raises InvalidSetting where tasks are forgotten before the ids of its messages are."""
        settings.check_outlives(f"the dedup window of queue {self.name!r},", self.dedup)
        return Queue(
            name=self.name,
            lock=settings.message_lock if self.lock is None else self.lock,
            max_deliveries=settings.max_deliveries if self.max_deliveries is None else self.max_deliveries,
            dedup=self.dedup,
            ttl=self.ttl,
            dead_letter_expired=self.dead_letter_expired,
            sessions=self.sessions,
            max_messages=settings.max_messages if self.max_messages is None else self.max_messages,
        )


class SubscriptionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription, and the queue that it is."""

    subscription: Subscription
    queue: QueueDefinition


class ConsumerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Who handles the messages of a queue in each process that runs the role ``ingest``."""

    queue: str
    handler: Handler
    concurrency: int = 1
    # How many are held beside those at work, so that the next one is there when one ends.
    prefetch: int = 0
    # How long a message whose handler failed is left alone.
    delay: timedelta = timedelta(0)


def queue_definition(
    name: str,
    *,
    lock: Duration | None = None,
    max_deliveries: int | None = None,
    dedup: Duration | None = None,
    ttl: Duration | None = None,
    dead_letter_expired: bool = False,
    sessions: bool = False,
    max_messages: int | None = None,
) -> QueueDefinition:
    """What these options declare. Raises InvalidRequest, naming the one that is wrong."""
    declared = QueueDefinition(
        name=name,
        lock=None if lock is None else duration(lock, name="lock"),
        max_deliveries=max_deliveries,
        dedup=DEDUP_USUAL if dedup is None else duration(dedup, name="dedup"),
        ttl=None if ttl is None else duration(ttl, name="ttl"),
        dead_letter_expired=dead_letter_expired,
        sessions=sessions,
        max_messages=max_messages,
    )
    checked_queue(declared.terms(Settings()))
    return declared


def subscription_definition(
    topic: str, name: str, where: Mapping[str, Property] | None, **options: Any
) -> SubscriptionDefinition:
    """A subscription; ``options`` are those of its queue."""
    subscription = Subscription(
        topic=check_id(topic, name="name of the topic"),
        name=check_id(name, name="name of the subscription"),
        where=checked_properties({} if where is None else where, name="where"),
    )
    return SubscriptionDefinition(
        subscription=subscription, queue=queue_definition(subscription.queue, **options)
    )


def consumer_definition(
    queue: str, handler: Handler, *, concurrency: int, prefetch: int, delay: Duration
) -> ConsumerDefinition:
    name = check_id(queue, name="name of the queue")
    if not inspect.iscoroutinefunction(handler):
        raise InvalidDefinition(f"the consumer of queue {name!r} must be an async def")
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise InvalidDefinition(f"concurrency is {concurrency}; it must be 1 to {CONCURRENCY_MAX:,}")
    if not 0 <= prefetch <= RECEIVE_MAX:
        raise InvalidDefinition(f"prefetch is {prefetch}; it must be 0 to {RECEIVE_MAX:,}")
    return ConsumerDefinition(
        queue=name,
        handler=handler,
        concurrency=concurrency,
        prefetch=prefetch,
        delay=duration(delay, name="delay"),
    )
