"""Messages in queues: what they are, in which order they are received, and when they are set aside.

sent ──► waiting ──► ready ──► locked ──► completed: gone
             ▲         ▲          │
             └─────────┴──────────┼── abandoned, released, or the lock ran out
                                  ├── deferred: set aside by its receiver, who asks for it by its number
                                  └── dead: set aside, with a reason, until a person resubmits it

A message of a session is *behind* while another of the same session comes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.bound import MESSAGES_MOST, MESSAGES_USUAL
from backstay.domain.durations import LONGEST, describe
from backstay.domain.task import check_id
from backstay.domain.text import is_text
from backstay.errors import InvalidInput, InvalidRequest

LOCK_LEAST: Final = timedelta(milliseconds=100)
LOCK_MOST: Final = timedelta(days=1)
DELIVERIES_MOST: Final = 1_000
DEDUP_MOST: Final = timedelta(days=7)
DEDUP_USUAL: Final = timedelta(minutes=10)

PRIORITY_LEAST: Final = -10
PRIORITY_MOST: Final = 10
#: So long a message waits until it is as urgent as a new one of the next higher priority.
AGEING: Final = timedelta(minutes=1)

RECEIVE_MAX: Final = 1_000
#: Of the bodies that one receive gives; the first comes whatever its size.
RECEIVE_BYTES_MAX: Final = 16 * 1024 * 1024
PROPERTIES_MAX: Final = 64
PROPERTIES_BYTES_MAX: Final = 16 * 1024
REASON_LENGTH_MAX: Final = 200
DETAIL_LENGTH_MAX: Final = 2_000
SUBSCRIPTIONS_MAX: Final = 2_000

#: Why the store itself sets a message aside.
TOO_MANY_DELIVERIES: Final = "MaxDeliveryCountExceeded"
EXPIRED: Final = "TTLExpiredException"

Property = str | int | float | bool
Properties = Mapping[str, Property]

_encode: Final = msgspec.json.Encoder(order="sorted").encode

# Of a sequence number: as many as every database can keep.
_DIGITS_MAX: Final = 18


class MessageState(StrEnum):
    READY = "ready"  # whoever receives next may get it
    BEHIND = "behind"  # another message of its session comes first
    WAITING = "waiting"  # not before an instant: scheduled, or abandoned with a delay
    LOCKED = "locked"  # somebody received it, and has not said what became of it
    DEFERRED = "deferred"  # whoever received it asks for it later, by its number
    DEAD = "dead"  # set aside


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it is declared. Declared again with other terms, those count from then on."""

    name: str
    # How long a message belongs to who received it, unless that is renewed.
    lock: timedelta = timedelta(seconds=60)
    # A message that was received so often and not completed is set aside.
    max_deliveries: int = 10
    # For so long a message with the id of another one counts as the same; zero: never.
    dedup: timedelta = DEDUP_USUAL
    # For so long a message may be received, unless it says less; None: for ever.
    ttl: timedelta | None = None
    # Whether one that nobody received in that time is set aside; else it is dropped.
    dead_letter_expired: bool = False
    # Whether every message must belong to a session; else one may.
    sessions: bool = False
    # So many messages may be in it, those that were set aside included; it then takes no more.
    max_messages: int = MESSAGES_USUAL


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is sent to a queue, or to every matching subscription of a topic."""

    # The name of the queue; of the topic, if ``topic``.
    to: str
    topic: bool = False
    id: str
    body: bytes
    # Whether the sender chose the id: only then may it come twice.
    named: bool = False
    properties: dict[str, Property] = {}
    session: str | None = None
    priority: int = 0
    # Not to be received before this instant; None: at once.
    at: datetime | None = None
    ttl: timedelta | None = None
    # Whether whoever has room gets it though others have none, and nobody is told; else all do, or none.
    droppable: bool = False


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a message enters a queue."""

    state: MessageState
    # The order in which messages are received: the lower, the sooner.
    rank: datetime
    enqueued_at: datetime
    visible_at: datetime | None
    expires_at: datetime | None


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a send: durable once it is given."""

    id: str
    # Of a message that went to a topic: the highest of its copies, 0 when no subscription matched.
    sequence: int
    # Whether its id was known: then nothing was sent again.
    duplicate: bool = False


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a queue."""

    sequence: int
    queue: str
    id: str
    body: bytes
    properties: dict[str, Property]
    session: str | None
    priority: int
    state: MessageState
    delivery_count: int
    enqueued_at: datetime
    # When it is no longer waiting, or locked.
    visible_at: datetime | None
    expires_at: datetime | None
    lock_token: str | None = None
    reason: str | None = None
    detail: str | None = None
    dead_at: datetime | None = None


class Lock(msgspec.Struct, frozen=True):
    """By what right somebody speaks for a message: the token of its last delivery."""

    queue: str
    id: str
    token: str


class Action(StrEnum):
    """What became of a delivery."""

    COMPLETE = "complete"  # it is done
    ABANDON = "abandon"  # it failed; the delivery counts
    RELEASE = "release"  # nobody tried; the delivery does not count
    DEFER = "defer"  # not now; whoever received it asks for it by its number
    DEAD_LETTER = "dead-letter"  # it will never succeed


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever received a message says of it."""

    lock: Lock
    action: Action
    # Abandoned, it is not to be received again before so long.
    delay: timedelta = timedelta(0)
    reason: str | None = None
    detail: str | None = None
    # Calls a person, in the same commit.
    alert: NewAlert | None = None


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that gets a copy of each message of a topic whose properties match."""

    topic: str
    name: str
    where: dict[str, Property] = {}

    @property
    def queue(self) -> str:
        return subscription_queue(self.topic, self.name)


# Rules


def placed(new: NewMessage, queue: Queue, now: datetime) -> Placed:
    """How ``new`` enters ``queue``. Raises InvalidInput when the queue does not take it."""
    if queue.sessions and new.session is None:
        raise InvalidInput(
            f"session is missing: queue {queue.name!r} takes messages of sessions only; send with session=…"
        )
    begins = now if new.at is None else max(new.at, now)
    waits = begins > now
    lives = shorter(new.ttl, queue.ttl)
    arrived = MessageState.READY if new.session is None else MessageState.BEHIND
    return Placed(
        state=MessageState.WAITING if waits else arrived,
        rank=rank(begins, new.priority),
        enqueued_at=begins,
        visible_at=begins if waits else None,
        expires_at=None if lives is None else begins + lives,
    )


def rank(enqueued_at: datetime, priority: int) -> datetime:
    """The order of receiving: who is more urgent is as if it had come earlier.

    The effective priority of a message, its own and one more for each ``AGEING`` it has waited, orders
    them just so at any instant: nothing waits for ever, and nothing has to be sorted again.
    """
    return enqueued_at - priority * AGEING


def effective_priority(priority: int, *, enqueued_at: datetime, now: datetime) -> float:
    return priority + (now - enqueued_at) / AGEING


def shorter(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def is_used_up(delivery_count: int, max_deliveries: int) -> bool:
    """Whether a message that was received so often is set aside when this delivery, too, comes to nothing."""
    return delivery_count >= max_deliveries


def is_lost(locked_until: datetime, now: datetime) -> bool:
    """Whether a lock has run out. From that instant on the message is anybody's."""
    return now >= locked_until


def is_duplicate(first_sent_at: datetime, *, window: timedelta, now: datetime) -> bool:
    """Whether a message whose id was first sent then is the same message again."""
    return now < first_sent_at + window


def matches(where: Properties, properties: Properties) -> bool:
    """Whether each property that is asked for is there, with just that value: 1, true and "1" differ."""
    return all(
        name in properties and _encode(properties[name]) == _encode(value) for name, value in where.items()
    )


def prefetch_allowed(prefetch: int, *, concurrency: int, lock: timedelta, handling: timedelta | None) -> int:
    """How many messages may be held beside those at work: no more than can be handled within a lock.

    ``handling`` is how long one takes, as far as is known: while nothing is, a round of them at most.
    """
    if handling is None:
        return min(prefetch, concurrency)
    if handling <= timedelta(0):
        return prefetch
    return min(prefetch, int(concurrency * (lock / handling)))


# Tokens


def lock_token(sequence: int, secret: str) -> str:
    """The token of a delivery: names its message, and is no other's."""
    return f"{sequence}.{secret}"


def parse_token(token: str) -> tuple[int, str] | None:
    """The sequence number and the secret of a token; None for what is no token at all."""
    number, _, secret = token.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX and secret):
        return None
    return int(number), secret


# Checks


def subscription_queue(topic: str, name: str) -> str:
    """The name of the queue that is the subscription ``name`` of ``topic``."""
    return check_id(f"{topic}:{name}", name="topic and name of the subscription, with a colon between,")


def checked_queue(queue: Queue) -> Queue:
    check_id(queue.name, name="name of the queue")
    _within("lock", queue.lock, LOCK_LEAST, LOCK_MOST)
    if not 1 <= queue.max_deliveries <= DELIVERIES_MOST:
        raise InvalidRequest(f"max_deliveries is {queue.max_deliveries}; it must be 1 to {DELIVERIES_MOST:,}")
    if not 1 <= queue.max_messages <= MESSAGES_MOST:
        raise InvalidRequest(f"max_messages is {queue.max_messages}; it must be 1 to {MESSAGES_MOST:,}")
    _within("dedup", queue.dedup, timedelta(0), DEDUP_MOST)
    if queue.ttl is not None:
        _within("ttl", queue.ttl, timedelta(milliseconds=1), LONGEST)
    return queue


def check_room_for_subscription(topic: str, subscriptions: int) -> None:
    """``subscriptions`` counts the new one."""
    if subscriptions > SUBSCRIPTIONS_MAX:
        raise InvalidRequest(f"topic {topic!r} has {SUBSCRIPTIONS_MAX:,} subscriptions, which is the limit")


def checked_priority(priority: object) -> int:
    if type(priority) is not int or not PRIORITY_LEAST <= priority <= PRIORITY_MOST:
        raise InvalidInput(
            f"priority is {priority!r}; it must be a whole number from {PRIORITY_LEAST} to {PRIORITY_MOST}"
        )
    return priority


def checked_properties(given: object, *, name: str = "properties") -> dict[str, Property]:
    """Return what is given if it is a small flat object of texts, numbers and truths."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} is {given!r:.60}; it must be an object")
    if len(given) > PROPERTIES_MAX:
        raise InvalidInput(f"{name} has {len(given)} entries; {PROPERTIES_MAX} are allowed")
    for key, value in given.items():
        if not is_text(key) or not key:
            raise InvalidInput(f"{name}: {key!r:.60} is no name; names are texts without NUL")
        if not (is_text(value) if isinstance(value, str) else _is_plain(value)):
            raise InvalidInput(
                f"{name}.{key[:40]} is {value!r:.60}; values are texts, numbers, true or false"
            )
    found: dict[str, Property] = dict(given)
    size = len(_encode(found))
    if size > PROPERTIES_BYTES_MAX:
        raise InvalidInput(f"{name} has {size:,} bytes of JSON; {PROPERTIES_BYTES_MAX:,} are allowed")
    return found


def checked_limit(number: object, *, name: str = "max") -> int:
    if type(number) is not int or not 1 <= number <= RECEIVE_MAX:
        raise InvalidRequest(f"{name} is {number!r}; ask for 1 to {RECEIVE_MAX:,} messages")
    return number


def checked_sequence(number: object) -> int:
    if type(number) is not int or not 1 <= number < 10**_DIGITS_MAX:
        raise InvalidRequest(f"{number!r:.40} is no sequence number; a message has it as its sequence")
    return number


def checked_reason(reason: object) -> str:
    """Why a message is set aside: one line, by which a person sorts."""
    if not is_text(reason) or not 1 <= len(reason) <= REASON_LENGTH_MAX:
        raise InvalidInput(f"reason must be text of 1 to {REASON_LENGTH_MAX} characters, without NUL")
    return reason


def shortened_detail(detail: str) -> str:
    """What is kept of whatever an error said."""
    kept = detail[:DETAIL_LENGTH_MAX].replace("\0", "\ufffd")
    return kept.encode("utf-8", "replace").decode()


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0  # Neither NaN nor infinity has a form in JSON.
    return isinstance(value, int) and abs(value) < 2**53


def _within(name: str, value: timedelta, least: timedelta, most: timedelta) -> None:
    if not least <= value <= most:
        raise InvalidRequest(
            f"{name} is {describe(value)}; it must lie between {describe(least)} and {describe(most)}"
        )
