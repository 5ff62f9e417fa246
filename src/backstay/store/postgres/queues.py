"""The traffic of queues in a database that many processes share: its clock judges whose lock ran out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from backstay.domain.alert import NewAlert
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
from backstay.store.postgres.forgetting import forget_ids
from backstay.store.postgres.messages import SHAPE, Messages, call_once, held_columns
from backstay.store.postgres.queue_care import PostgresQueueCare, queue_of
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.posting import Dated, KnownQueue, Verdicts, as_text, held, lost
from backstay.store.queue_news import (
    SWEPT_MAX,
    Swept,
    called,
    listening,
    not_sent_again,
    set_aside,
)
from backstay.store.queue_rows import SESSION, as_taken
from backstay.store.rows import Row

#: Gives rows of messages inside a transaction.
Give = Callable[[Tables, Changes, KnownQueue], Awaitable[list[Row]]]


class PostgresQueues(PostgresQueueCare):
    """The verbs of queues in one schema."""

    def __init__(
        self,
        session: Callable[[], Session],
        listen: Callable[[Listener], Callable[[], None]],
        *,
        schema: str,
        judged: Judged,
    ) -> None:
        super().__init__(session, Messages(schema=schema, judged=judged), judged=judged)
        self._listen = listen
        self._sends: Gathering[NewMessage, Sent | BackstayError] = Gathering(
            self._send, weigh=lambda new: len(new.body)
        )
        self._settlements: Gathering[Settlement, BackstayError | None] = Gathering(self._settle)

    # What there is

    async def declare(self, queue: Queue, *, now: datetime) -> bool:
        async def operation(tables: Tables, _changes: Changes) -> bool:
            [[_, new]] = await tables.run("put_queue", **SHAPE.queue_values(queue), now=now)
            return bool(new)

        return await self._session().write(operation)

    async def declare_topic(self, name: str, *, now: datetime) -> bool:
        async def operation(tables: Tables, _changes: Changes) -> bool:
            return bool(await tables.run("put_topic", name=name, now=now))

        return await self._session().write(operation)

    async def subscribe(self, subscription: Subscription, queue: Queue, *, now: datetime) -> bool:
        async def operation(tables: Tables, _changes: Changes) -> bool:
            topic, name = subscription.topic, subscription.name
            if not await tables.run("has_topic", name=topic):
                raise UnknownQueue(topic, what="topic")
            known = await tables.run("has_subscription", topic=topic, name=name)
            [[key, _]] = await tables.run("put_queue", **SHAPE.queue_values(queue), now=now)
            text = as_text(subscription.where)
            await tables.run("put_subscription", topic=topic, name=name, queue_key=key, filter=text)
            [[number]] = await tables.run("count_subscriptions", topic=topic)
            check_room_for_subscription(topic, number)
            return not known

        return await self._session().write(operation)

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        return await self._sends.add(messages, now=now)

    async def _send(self, messages: list[Dated]) -> list[Sent | BackstayError]:
        full: list[NewAlert] = []

        async def operation(tables: Tables, changes: Changes) -> list[Sent | BackstayError]:
            full.clear()
            return await self.messages.send(tables, changes, messages, full)

        answers = await self._session().write(operation)
        called(full)
        not_sent_again(answers)
        await forget_ids(self._session(), self.messages, now=self._judged(max(now for _, now in messages)))
        return answers

    async def cancel(self, queue: str, sequence: int, *, now: datetime) -> bool:
        async def operation(tables: Tables, _changes: Changes) -> bool:
            key = (await queue_of(tables, queue)).key
            gone = await tables.run("cancel_message", queue=queue, sequence=sequence, now=self._judged(now))
            self.messages.fullness.went({key: len(gone)})
            return bool(gone)

        return await self._session().write(operation)

    # The way out

    async def receive(self, queue: str, *, limit: int, secret: str, now: datetime) -> list[MessageRecord]:
        judged = self._judged(now)

        async def lock(tables: Tables, _changes: Changes, known: KnownQueue) -> list[Row]:
            return await tables.run(
                "lock_messages",
                key=known.key,
                secret=secret,
                lock_time=known.queue.lock,
                limit=limit,
                bytes_max=RECEIVE_BYTES_MAX,
                now=judged,
            )

        return await self._next(queue, lock, now)

    async def take(self, queue: str, *, limit: int, now: datetime) -> list[MessageRecord]:
        judged = self._judged(now)

        async def remove(tables: Tables, changes: Changes, known: KnownQueue) -> list[Row]:
            due = {"key": known.key, "limit": limit, "now": judged}
            rows = await tables.run("take_messages", bytes_max=RECEIVE_BYTES_MAX, **due)
            self.messages.fullness.went({known.key: len(rows)})
            sessions = [(known.key, row[SESSION]) for row in rows]
            await self.messages.take_turns(tables, changes, sessions, {known.key: queue}, judged)
            return rows

        return [as_taken(message) for message in await self._next(queue, remove, now)]

    async def receive_deferred(
        self, queue: str, sequences: Sequence[int], *, secret: str, now: datetime
    ) -> list[MessageRecord]:
        judged = self._judged(now)

        async def lock(tables: Tables, _changes: Changes, known: KnownQueue) -> list[Row]:
            return await tables.run(
                "lock_deferred",
                key=known.key,
                sequences=sequences,
                secret=secret,
                lock_time=known.queue.lock,
                bytes_max=RECEIVE_BYTES_MAX,
                now=judged,
            )

        return await self._next(queue, lock, now)

    async def _next(self, queue: str, give: Give, now: datetime) -> list[MessageRecord]:
        """What ``give`` gives, once everything that is due was dealt with."""

        async def operation(tables: Tables, changes: Changes) -> tuple[list[Row], Swept]:
            known = await queue_of(tables, queue)
            swept = await self._sweep(tables, changes, known, now)
            return await give(tables, changes, known), swept

        rows, swept = await self._session().write(operation)
        swept.tell()
        # RETURNING promises no order.
        return [SHAPE.message(row, queue) for row in sorted(rows, key=lambda row: (row[-1], row[0]))]

    async def _sweep(self, tables: Tables, changes: Changes, known: KnownQueue, now: datetime) -> Swept:
        """Deal with what is due: locks that ran out, messages whose time has come, messages that expired."""
        swept = Swept(known.queue.name)
        judged = self._judged(now)
        if not await _is_untidy(tables, known.key, judged):
            return swept
        due = {"key": known.key, "limit": SWEPT_MAX, "now": judged}
        returned = await tables.run(
            "return_locked", max_deliveries=known.queue.max_deliveries, used_up=TOO_MANY_DELIVERIES, **due
        )
        arrived = await tables.run("let_arrive", **due)
        expired = await tables.run("expired_messages", **due)
        sequences = [sequence for sequence, *_ in expired]
        if known.queue.dead_letter_expired:
            await tables.run("bury_messages", sequences=sequences, reason=EXPIRED, now=judged)
        else:
            await tables.run("drop_messages", sequences=sequences)
            self.messages.fullness.went({known.key: len(expired)})
        swept.judge(returned, expired, keeps_expired=known.queue.dead_letter_expired)
        swept.called = await call_once(tables, swept.calls, now)
        touched = [session for session, *_ in (*returned, *arrived)] + [session for _, session, _ in expired]
        names = {known.key: known.queue.name}
        await self.messages.take_turns(tables, changes, [(known.key, one) for one in touched], names, judged)
        changes.queues.append(known.queue.name)
        return swept

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        judged = self._judged(now)

        async def look(tables: Tables) -> bool:
            key = (await queue_of(tables, queue)).key
            [[ready]] = await tables.run("has_ready", key=key, now=judged)
            return bool(ready) or await _is_untidy(tables, key, judged)

        return await self._session().read(look)

    async def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> list[BackstayError | None]:
        return await self._settlements.add(settlements, now=now)

    async def _settle(self, settlements: list[tuple[Settlement, datetime]]) -> list[BackstayError | None]:
        # The latest of their times is the one that it is.
        now = max(now for _, now in settlements)
        all_of_them = [one for one, _ in settlements]

        async def operation(tables: Tables, changes: Changes) -> Verdicts:
            return await self.messages.settle(tables, changes, all_of_them, now)

        verdicts = await self._session().write(operation)
        for queue, number in verdicts.used_up.items():
            set_aside(queue, number, TOO_MANY_DELIVERIES)
        called(verdicts.called)
        return verdicts.answers()

    async def renew(self, locks: Sequence[Lock], *, now: datetime) -> list[datetime | BackstayError]:
        known = [held(lock) for lock in locks]

        async def operation(tables: Tables, _changes: Changes) -> dict[int, datetime]:
            wanted = held_columns(sorted(one for one in known if one is not None))
            rows = await tables.run("renew_locks", **wanted, now=self._judged(now))
            return {row[0]: row[1] for row in rows}

        until = await self._session().write(operation)
        return [
            lost(lock) if one is None or one.sequence not in until else until[one.sequence]
            for lock, one in zip(locks, known, strict=True)
        ]

    async def rewrite(self, lock: Lock, body: bytes, *, now: datetime) -> datetime | BackstayError:
        known = held(lock)
        if known is None:
            return lost(lock)

        async def operation(tables: Tables, _changes: Changes) -> list[Row]:
            return await tables.run("rewrite_message", **known._asdict(), body=body, now=self._judged(now))

        until = await self._session().write(operation)
        return until[0][0] if until else lost(lock)

    def listen(self, caller: Caller) -> Callable[[], None]:
        return listening(self._listen, caller)


async def _is_untidy(tables: Tables, key: int, now: datetime | None) -> bool:
    [[untidy]] = await tables.run("is_untidy", key=key, now=now)
    return bool(untidy)
