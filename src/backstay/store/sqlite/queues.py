"""The traffic of queues in one file, whose one writer is the order of things: nobody comes in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay.domain.alert import NewAlert
from backstay.domain.instants import instant, micros, micros_in
from backstay.domain.message import (
    EXPIRED,
    RECEIVE_BYTES_MAX,
    TOO_MANY_DELIVERIES,
    Lock,
    MessageRecord,
    NewMessage,
    Queue,
    Sent,
    Settlement,
    Subscription,
    check_room_for_subscription,
)
from backstay.errors import BackstayError, UnknownQueue
from backstay.messaging.queue import Caller
from backstay.store.base import Changes, Listener
from backstay.store.gathering import Gathering
from backstay.store.posting import Dated, KnownQueue, as_text, held, lost
from backstay.store.queue_news import SWEPT_MAX, Swept, called, listening, not_sent_again, set_aside
from backstay.store.queue_rows import SESSION, as_taken
from backstay.store.rows import Row, as_json
from backstay.store.sqlite.messages import SHAPE, call_once, send_messages, settle_messages, take_turns
from backstay.store.sqlite.queue_care import SqliteQueueCare, queue_of
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables

#: Gives rows of messages inside a transaction.
Give = Callable[[Tables, Changes, KnownQueue], list[Row]]


class SqliteQueues(SqliteQueueCare):
    """The verbs of queues on one file."""

    def __init__(
        self, session: Callable[[], Session], listen: Callable[[Listener], Callable[[], None]]
    ) -> None:
        super().__init__(session)
        self._listen = listen
        self._sends: Gathering[NewMessage, Sent | BackstayError] = Gathering(
            self._send, weigh=lambda new: len(new.body)
        )
        self._settlements: Gathering[Settlement, BackstayError | None] = Gathering(self._settle)

    # What there is

    async def declare(self, queue: Queue, *, now: datetime) -> bool:
        def operation(tables: Tables, _changes: Changes) -> bool:
            known = tables.run("queues_of", names=as_json([queue.name])).fetchone()
            tables.run("put_queue", **SHAPE.queue_values(queue), now=micros(now))
            return known is None

        return await self._session().write(operation)

    async def declare_topic(self, name: str, *, now: datetime) -> bool:
        def operation(tables: Tables, _changes: Changes) -> bool:
            return tables.run("put_topic", name=name, now=micros(now)).fetchone() is not None

        return await self._session().write(operation)

    async def subscribe(self, subscription: Subscription, queue: Queue, *, now: datetime) -> bool:
        def operation(tables: Tables, _changes: Changes) -> bool:
            topic, name = subscription.topic, subscription.name
            if tables.run("has_topic", name=topic).fetchone() is None:
                raise UnknownQueue(topic, what="topic")
            known = tables.run("has_subscription", topic=topic, name=name).fetchone()
            [key] = tables.run("put_queue", **SHAPE.queue_values(queue), now=micros(now)).fetchone()
            text = as_text(subscription.where)
            tables.run("put_subscription", topic=topic, name=name, queue_key=key, filter=text)
            check_room_for_subscription(topic, *tables.run("count_subscriptions", topic=topic).fetchone())
            return known is None

        return await self._session().write(operation)

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        return await self._sends.add(messages, now=now)

    async def _send(self, messages: list[Dated]) -> list[Sent | BackstayError]:
        full: list[NewAlert] = []

        def operation(tables: Tables, changes: Changes) -> list[Sent | BackstayError]:
            full.clear()
            return send_messages(tables, changes, messages, full)

        answers = await self._session().write(operation)
        called(full)
        not_sent_again(answers)
        return answers

    async def cancel(self, queue: str, sequence: int, *, now: datetime) -> bool:
        def operation(tables: Tables, _changes: Changes) -> bool:
            key = queue_of(tables, queue).key
            gone = tables.run("cancel_message", queue=queue, sequence=sequence, now=micros(now)).fetchall()
            tables.fullness.went({key: len(gone)})
            return bool(gone)

        return await self._session().write(operation)

    # The way out

    async def receive(self, queue: str, *, limit: int, secret: str, now: datetime) -> list[MessageRecord]:
        def lock(tables: Tables, _changes: Changes, known: KnownQueue) -> list[Row]:
            return tables.run(
                "lock_messages",
                key=known.key,
                secret=secret,
                lock_time=micros_in(known.queue.lock),
                limit=limit,
                bytes_max=RECEIVE_BYTES_MAX,
                now=micros(now),
            ).fetchall()

        return await self._next(queue, lock, now)

    async def take(self, queue: str, *, limit: int, now: datetime) -> list[MessageRecord]:
        def remove(tables: Tables, changes: Changes, known: KnownQueue) -> list[Row]:
            due = {"key": known.key, "limit": limit, "now": micros(now)}
            rows = tables.run("take_messages", bytes_max=RECEIVE_BYTES_MAX, **due).fetchall()
            tables.fullness.went({known.key: len(rows)})
            sessions = [(known.key, row[SESSION]) for row in rows]
            take_turns(tables, changes, sessions, {known.key: queue}, now)
            return rows

        return [as_taken(message) for message in await self._next(queue, remove, now)]

    async def _next(self, queue: str, give: Give, now: datetime) -> list[MessageRecord]:
        """What ``give`` gives, once everything that is due was dealt with."""

        def operation(tables: Tables, changes: Changes) -> tuple[list[Row], Swept]:
            known = queue_of(tables, queue)
            swept = _sweep(tables, changes, known, now)
            return give(tables, changes, known), swept

        rows, swept = await self._session().write(operation)
        swept.tell()
        # RETURNING promises no order.
        return [SHAPE.message(row, queue) for row in sorted(rows, key=lambda row: (row[-1], row[0]))]

    async def receive_deferred(
        self, queue: str, sequences: Sequence[int], *, secret: str, now: datetime
    ) -> list[MessageRecord]:
        def lock(tables: Tables, _changes: Changes, known: KnownQueue) -> list[Row]:
            return tables.run(
                "lock_deferred",
                key=known.key,
                sequences=as_json(sequences),
                secret=secret,
                lock_time=micros_in(known.queue.lock),
                bytes_max=RECEIVE_BYTES_MAX,
                now=micros(now),
            ).fetchall()

        return await self._next(queue, lock, now)

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        def look(tables: Tables) -> bool:
            key = queue_of(tables, queue).key
            [ready] = tables.run("has_ready", key=key, now=micros(now)).fetchone()
            return bool(ready) or _is_untidy(tables, key, now)

        return await self._session().read(look)

    async def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> list[BackstayError | None]:
        return await self._settlements.add(settlements, now=now)

    async def _settle(self, settlements: list[tuple[Settlement, datetime]]) -> list[BackstayError | None]:
        # The latest of their times is the one that it is.
        now = max(now for _, now in settlements)
        all_of_them = [one for one, _ in settlements]
        verdicts = await self._session().write(
            lambda tables, changes: settle_messages(tables, changes, all_of_them, now)
        )
        for queue, number in verdicts.used_up.items():
            set_aside(queue, number, TOO_MANY_DELIVERIES)
        called(verdicts.called)
        return verdicts.answers()

    async def renew(self, locks: Sequence[Lock], *, now: datetime) -> list[datetime | BackstayError]:
        known = [held(lock) for lock in locks]

        def operation(tables: Tables, _changes: Changes) -> dict[int, int]:
            wanted = as_json([one for one in known if one is not None])
            return dict(tables.run("renew_locks", locks=wanted, now=micros(now)).fetchall())

        until = await self._session().write(operation)
        return [
            lost(lock) if one is None or one.sequence not in until else instant(until[one.sequence])
            for lock, one in zip(locks, known, strict=True)
        ]

    async def rewrite(self, lock: Lock, body: bytes, *, now: datetime) -> datetime | BackstayError:
        known = held(lock)
        if known is None:
            return lost(lock)

        def operation(tables: Tables, _changes: Changes) -> list[Row]:
            return tables.run("rewrite_message", **known._asdict(), body=body, now=micros(now)).fetchall()

        until = await self._session().write(operation)
        return instant(until[0][0]) if until else lost(lock)

    def listen(self, caller: Caller) -> Callable[[], None]:
        return listening(self._listen, caller)


def _is_untidy(tables: Tables, key: int, now: datetime) -> bool:
    [untidy] = tables.run("is_untidy", key=key, now=micros(now)).fetchone()
    return bool(untidy)


def _sweep(tables: Tables, changes: Changes, known: KnownQueue, now: datetime) -> Swept:
    """Deal with what is due: locks that ran out, messages whose time has come, messages that expired."""
    swept = Swept(known.queue.name)
    if not _is_untidy(tables, known.key, now):
        return swept
    due = {"key": known.key, "limit": SWEPT_MAX, "now": micros(now)}
    returned = tables.run(
        "return_locked",
        max_deliveries=known.queue.max_deliveries,
        used_up=TOO_MANY_DELIVERIES,
        **due,
    ).fetchall()
    arrived = tables.run("let_arrive", **due).fetchall()
    expired = tables.run("expired_messages", **due).fetchall()
    sequences = as_json([sequence for sequence, *_ in expired])
    if known.queue.dead_letter_expired:
        tables.run("bury_messages", sequences=sequences, reason=EXPIRED, now=micros(now))
    else:
        tables.run("drop_messages", sequences=sequences)
        tables.fullness.went({known.key: len(expired)})
    swept.judge(returned, expired, keeps_expired=known.queue.dead_letter_expired)
    swept.called = call_once(tables, swept.calls, now)
    touched = [session for session, *_ in (*returned, *arrived)] + [session for _, session, _ in expired]
    take_turns(tables, changes, [(known.key, one) for one in touched], {known.key: known.queue.name}, now)
    changes.queues.append(known.queue.name)
    return swept
