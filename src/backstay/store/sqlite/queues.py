"""Queues in one file. Its one writer is the order of things: nobody comes between two statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.instants import instant, micros, micros_in
from backstay.domain.message import (
    AGEING,
    EXPIRED,
    RECEIVE_BYTES_MAX,
    TOO_MANY_DELIVERIES,
    Lock,
    MessageRecord,
    MessageState,
    NewMessage,
    Queue,
    QueueStanding,
    Sent,
    Settlement,
    Subscription,
    check_room_for_subscription,
)
from backstay.errors import BackstayError, UnknownMessage, UnknownQueue
from backstay.messaging.queue import Caller
from backstay.store.base import Changes, Listener
from backstay.store.gathering import Gathering
from backstay.store.posting import Dated, KnownQueue, as_text, as_topics, held, lost
from backstay.store.queue_news import SWEPT_MAX, Swept, listening, set_aside
from backstay.store.rows import as_json
from backstay.store.sqlite.messages import SHAPE, send_messages, settle_messages, take_turns
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class SqliteQueues:
    """The verbs of queues on one file."""

    def __init__(
        self, session: Callable[[], Session], listen: Callable[[Listener], Callable[[], None]]
    ) -> None:
        self._session = session
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

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int, counted: int
    ) -> list[QueueStanding]:
        def look(tables: Tables) -> list[QueueStanding]:
            if names is None:
                rows = tables.run("list_queues", after=after, limit=limit).fetchall()
            else:
                rows = tables.run("queues_of", names=as_json(names)).fetchall()
            found = [SHAPE.known_queue(row) for row in rows]
            return [_standing(tables, one, counted) for one in found]

        return await self._session().read(look)

    async def topics(self) -> Mapping[str, list[Subscription]]:
        return await self._session().read(lambda tables: as_topics(tables.run("list_topics").fetchall()))

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        return await self._sends.add(messages, now=now)

    async def _send(self, messages: list[Dated]) -> list[Sent | BackstayError]:
        return await self._session().write(lambda tables, changes: send_messages(tables, changes, messages))

    async def cancel(self, queue: str, sequence: int, *, now: datetime) -> bool:
        def operation(tables: Tables, _changes: Changes) -> bool:
            _queue_of(tables, queue)
            gone = tables.run("cancel_message", queue=queue, sequence=sequence, now=micros(now))
            return gone.fetchone() is not None

        return await self._session().write(operation)

    # The way out

    async def receive(self, queue: str, *, limit: int, secret: str, now: datetime) -> list[MessageRecord]:
        swept = Swept()

        def operation(tables: Tables, changes: Changes) -> list[MessageRecord]:
            known = _queue_of(tables, queue)
            _sweep(tables, changes, known, swept, now)
            rows = tables.run(
                "lock_messages",
                key=known.key,
                secret=secret,
                lock_time=micros_in(known.queue.lock),
                limit=limit,
                bytes_max=RECEIVE_BYTES_MAX,
                now=micros(now),
            ).fetchall()
            # RETURNING promises no order.
            return [SHAPE.message(row, queue) for row in sorted(rows, key=lambda row: (row[-1], row[0]))]

        received = await self._session().write(operation)
        set_aside(queue, swept.used_up, TOO_MANY_DELIVERIES)
        set_aside(queue, swept.expired, EXPIRED)
        return received

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        def look(tables: Tables) -> bool:
            key = _queue_of(tables, queue).key
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

    def listen(self, caller: Caller) -> Callable[[], None]:
        return listening(self._listen, caller)

    # Looking, and stepping in

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        def look(tables: Tables) -> list[MessageRecord]:
            key = _queue_of(tables, queue).key
            rows = tables.run("peek_messages", key=key, limit=limit).fetchall()
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        def look(tables: Tables) -> list[MessageRecord]:
            key = _queue_of(tables, queue).key
            rows = tables.run("list_dead", key=key, after=after, limit=limit).fetchall()
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        def operation(tables: Tables, changes: Changes) -> list[int]:
            known = _queue_of(tables, queue)
            wanted = None if ids is None else as_json(ids)
            rows = tables.run("dead_to_resubmit", key=known.key, ids=wanted, limit=limit).fetchall()
            if ids is not None and not rows:
                raise UnknownMessage(queue, ", ".join(ids))
            sequences = as_json([sequence for (sequence,) in rows])
            new = tables.run(
                "resubmit_dead",
                sequences=sequences,
                ageing=micros_in(AGEING),
                ttl=None if known.queue.ttl is None else micros_in(known.queue.ttl),
                now=micros(now),
            ).fetchall()
            tables.run("drop_messages", sequences=sequences)
            take_turns(tables, changes, [(known.key, session) for _, session in new], {known.key: queue}, now)
            changes.queues.append(queue)
            tables.record(act, now, before={"dead": len(new)}, after={"dead": 0, "resubmitted": len(new)})
            return sorted(sequence for sequence, _ in new)

        return await self._session().write(operation)


def _queue_of(tables: Tables, name: str) -> KnownQueue:
    row = tables.run("queues_of", names=as_json([name])).fetchone()
    if row is None:
        raise UnknownQueue(name)
    return SHAPE.known_queue(row)


def _standing(tables: Tables, known: KnownQueue, counted: int) -> QueueStanding:
    ready, behind, waiting, locked, dead = tables.run("counts_of", key=known.key, counted=counted).fetchone()
    return QueueStanding(
        queue=known.queue, ready=ready, behind=behind, waiting=waiting, locked=locked, dead=dead
    )


def _is_untidy(tables: Tables, key: int, now: datetime) -> bool:
    [untidy] = tables.run("is_untidy", key=key, now=micros(now)).fetchone()
    return bool(untidy)


def _sweep(tables: Tables, changes: Changes, known: KnownQueue, swept: Swept, now: datetime) -> None:
    """Deal with what is due: locks that ran out, messages whose time has come, messages that expired."""
    if not _is_untidy(tables, known.key, now):
        return
    due = {"key": known.key, "limit": SWEPT_MAX, "now": micros(now)}
    returned = tables.run(
        "return_locked",
        max_deliveries=known.queue.max_deliveries,
        used_up=TOO_MANY_DELIVERIES,
        **due,
    ).fetchall()
    arrived = tables.run("let_arrive", **due).fetchall()
    expired = tables.run("expired_messages", **due).fetchall()
    sequences = as_json([sequence for sequence, _ in expired])
    if known.queue.dead_letter_expired:
        tables.run("bury_messages", sequences=sequences, reason=EXPIRED, now=micros(now))
        swept.expired = len(expired)
    else:
        tables.run("drop_messages", sequences=sequences)
    swept.used_up = sum(state == MessageState.DEAD for _, state in returned)
    touched = [session for session, _ in (*returned, *arrived)] + [session for _, session in expired]
    take_turns(tables, changes, [(known.key, one) for one in touched], {known.key: known.queue.name}, now)
    changes.queues.append(known.queue.name)
