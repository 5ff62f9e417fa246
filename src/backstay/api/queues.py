"""Queues and topics over HTTP: send, receive, settle, and look after what was set aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from backstay.api.calls import Call, Nothing, Reply
from backstay.api.hanging_up import unless_hung_up
from backstay.api.shapes import Because, Cursor, Id, Limit, Reason, ReasonQuery
from backstay.domain.durations import describe, duration
from backstay.domain.message import (
    RECEIVE_MAX,
    Property,
    Sent,
    subscription_queue,
)
from backstay.domain.standing import SessionStanding
from backstay.errors import InvalidInput
from backstay.mailroom import (
    DeadLetter,
    DeletedQueue,
    Discarded,
    PeekedMessage,
    QueueView,
    ReceivedMessage,
    Resubmitted,
    TopicView,
    received,
)
from backstay.messaging.message import Message
from backstay.views import Page

#: So long a request may wait for a message.
WAIT_MAX: Final = timedelta(seconds=30)
LOCKED_UNTIL: Final = "Backstay-Locked-Until"

Properties = dict[str, Property]
Sequence = Annotated[int, msgspec.Meta(ge=1, description="As a message has it.")]


class QueuePath(msgspec.Struct, frozen=True):
    queue: Id


class MessagePath(msgspec.Struct, frozen=True):
    queue: Id
    id: Id


class TopicPath(msgspec.Struct, frozen=True):
    topic: Id


class SubscriptionPath(msgspec.Struct, frozen=True):
    topic: Id
    name: Id


class QueueQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Id | None = None


class ReceiveQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max: Annotated[int, msgspec.Meta(ge=1, le=RECEIVE_MAX, description="How many at most.")] = 1
    wait: (
        Annotated[
            str,
            msgspec.Meta(
                description='How long to wait for the first, as in "20s"; a bare number counts seconds.',
                pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m)?$",
            ),
        ]
        | None
    ) = None
    at_most_once: Annotated[
        bool, msgspec.Meta(description="Remove them from the queue at once: there is nothing to settle.")
    ] = False


class Numbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages that were deferred, by the numbers that they have."""

    sequences: Annotated[list[Sequence], msgspec.Meta(min_length=1, max_length=RECEIVE_MAX)]


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: Annotated[bool, msgspec.Meta(description="With the messages that are in it.")] = False
    reason: Reason = None


class PeekQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100


class DeadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Cursor | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue to be made; durations such as "60s". What is left out is as the settings say."""

    lock: str | None = None
    max_deliveries: int | None = None
    dedup: str | None = None
    ttl: str | None = None
    dead_letter_expired: bool = False
    sessions: bool = False
    max_messages: int | None = None


class SubscriptionTerms(Terms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subscription to be made: which messages it gets, and the terms of its queue."""

    where: Properties = {}


class Outgoing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to be sent."""

    body: Any
    id: Id | None = None
    session: Id | None = None
    priority: int = 0
    properties: Properties = {}
    # An instant in RFC 3339, or a duration such as "90s".
    at: str | None = None
    ttl: str | None = None


class Held(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By what right: the token that came with the message."""

    lock_token: str
    reason: str | None = None


class Abandoned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lock_token: str
    reason: str | None = None
    # Not to be received again before so long.
    delay: str | None = None


class Rewritten(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a message is to hold from now on."""

    lock_token: str
    body: Any


# Queues and topics


async def list_queues(call: Call[Nothing, QueueQuery, Nothing]) -> Page[QueueView]:
    return await call.client.mailroom.queues(after=call.query.cursor, limit=call.query.limit)


async def get_queue(call: Call[QueuePath, Nothing, Nothing]) -> QueueView:
    return await call.client.mailroom.queue(call.path.queue)


async def put_queue(call: Call[QueuePath, Nothing, Terms]) -> Reply[QueueView]:
    view, new = await call.client.mailroom.declare(call.path.queue, **msgspec.structs.asdict(call.body))
    return Reply(view, status=HTTPStatus.CREATED if new else HTTPStatus.OK)


async def delete_queue(call: Call[QueuePath, DeleteQuery, Nothing]) -> DeletedQueue:
    return await call.client.mailroom.delete(
        call.path.queue, force=call.query.force, reason=call.query.reason
    )


async def list_sessions(call: Call[QueuePath, QueueQuery, Nothing]) -> Page[SessionStanding]:
    return await call.client.mailroom.sessions(
        call.path.queue, after=call.query.cursor, limit=call.query.limit
    )


async def list_topics(call: Call[Nothing, Nothing, Nothing]) -> Page[TopicView]:
    return await call.client.mailroom.topics()


async def put_topic(call: Call[TopicPath, Nothing, Nothing]) -> Reply[TopicView]:
    new = await call.client.mailroom.declare_topic(call.path.topic)
    topics = (await call.client.mailroom.topics()).items
    [view] = [topic for topic in topics if topic.name == call.path.topic]
    return Reply(view, status=HTTPStatus.CREATED if new else HTTPStatus.OK)


async def put_subscription(call: Call[SubscriptionPath, Nothing, SubscriptionTerms]) -> Reply[QueueView]:
    view, new = await call.client.mailroom.subscribe(
        call.path.topic, call.path.name, **msgspec.structs.asdict(call.body)
    )
    return Reply(view, status=HTTPStatus.CREATED if new else HTTPStatus.OK)


async def delete_subscription(call: Call[SubscriptionPath, DeleteQuery, Nothing]) -> DeletedQueue:
    return await call.client.mailroom.delete(
        subscription_queue(call.path.topic, call.path.name),
        force=call.query.force,
        reason=call.query.reason,
    )


# Send and receive


async def send_message(call: Call[QueuePath, Nothing, Outgoing]) -> Sent:
    return await call.client.mailroom.send(call.path.queue, **msgspec.structs.asdict(call.body))


async def send_to_topic(call: Call[TopicPath, Nothing, Outgoing]) -> Sent:
    return await call.client.mailroom.send(call.path.topic, topic=True, **msgspec.structs.asdict(call.body))


async def receive_messages(call: Call[QueuePath, ReceiveQuery, Nothing]) -> Page[ReceivedMessage]:
    wait = _wait(call.query.wait)
    with _seat(call, wait):
        receiving = call.client.exchange.receive(
            call.path.queue, max=call.query.max, wait=wait, at_most_once=call.query.at_most_once
        )
        messages = await (unless_hung_up(receiving, call.hung_up) if wait else receiving)
    return Page([received(message) for message in messages])


async def receive_deferred(call: Call[QueuePath, Nothing, Numbers]) -> Page[ReceivedMessage]:
    messages = await call.client.exchange.receive_deferred(call.path.queue, call.body.sequences)
    return Page([received(message) for message in messages])


def _wait(written: str | None) -> timedelta:
    if written is None:
        return timedelta(0)
    wait = duration(f"{written}s" if written[-1].isdigit() else written, name="wait")
    if wait > WAIT_MAX:
        raise InvalidInput(
            f"wait is {written}; at most {describe(WAIT_MAX)} are allowed: ask again after that"
        )
    return wait


@contextmanager
def _seat(call: Call[Any, Any, Any], wait: timedelta) -> Iterator[None]:
    """Whoever waits takes a seat, of which there are so many."""
    if not wait:
        yield
        return
    call.service.watchers.take_seat()
    try:
        yield
    finally:
        call.service.watchers.leave_seat()


# Settle


async def complete_message(call: Call[MessagePath, Nothing, Held]) -> None:
    await _message(call).complete()


async def abandon_message(call: Call[MessagePath, Nothing, Abandoned]) -> None:
    delay = timedelta(0) if call.body.delay is None else duration(call.body.delay, name="delay")
    await _message(call).abandon(delay=delay, detail=call.body.reason)


async def dead_letter_message(call: Call[MessagePath, Nothing, Held]) -> None:
    await _message(call).dead_letter(call.body.reason or "set aside by its receiver")


async def defer_message(call: Call[MessagePath, Nothing, Held]) -> None:
    await _message(call).defer()


async def renew_message(call: Call[MessagePath, Nothing, Held]) -> Reply[None]:
    return _locked_until(await _message(call).renew())


async def rewrite_message(call: Call[MessagePath, Nothing, Rewritten]) -> Reply[None]:
    return _locked_until(await _message(call).rewrite(call.body.body))


def _locked_until(until: datetime) -> Reply[None]:
    return Reply(None, headers={LOCKED_UNTIL: until.isoformat().replace("+00:00", "Z")})


def _message(call: Call[MessagePath, Nothing, Any]) -> Message:
    """The message that the token speaks for."""
    return Message(
        call.path.id,
        queue=call.path.queue,
        lock_token=call.body.lock_token,
        settler=call.client.exchange,
    )


# Look, and put back


async def peek_messages(call: Call[QueuePath, PeekQuery, Nothing]) -> Page[PeekedMessage]:
    return await call.client.mailroom.peek(call.path.queue, limit=call.query.limit)


async def list_dead(call: Call[QueuePath, DeadQuery, Nothing]) -> Page[DeadLetter]:
    return await call.client.mailroom.dead_letters(
        call.path.queue, after=call.query.cursor, limit=call.query.limit
    )


async def resubmit_dead(call: Call[MessagePath, Nothing, Because]) -> Resubmitted:
    return await call.client.mailroom.resubmit(call.path.queue, call.path.id, reason=call.body.reason)


async def resubmit_all_dead(call: Call[QueuePath, Nothing, Because]) -> Resubmitted:
    return await call.client.mailroom.resubmit(call.path.queue, reason=call.body.reason)


async def discard_dead(call: Call[MessagePath, ReasonQuery, Nothing]) -> Discarded:
    return await call.client.mailroom.discard(call.path.queue, call.path.id, reason=call.query.reason)


async def discard_all_dead(call: Call[QueuePath, ReasonQuery, Nothing]) -> Discarded:
    return await call.client.mailroom.discard(call.path.queue, reason=call.query.reason)
