"""Queues in a database that many processes share: its clock judges whose lock ran out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from backstay.domain.audit import Act
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
from backstay.store.postgres.messages import SHAPE, Messages, held_columns
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.posting import Dated, KnownQueue, Verdicts, as_text, as_topics, held, lost
from backstay.store.queue_news import FORGOTTEN_MAX, SWEPT_MAX, Swept, listening, set_aside

# How often ids whose time is over are forgotten.
_FORGET_SECONDS: Final = 1.0


class PostgresQueues:
    """The verbs of queues in one schema."""

    def __init__(
        self,
        session: Callable[[], Session],
        listen: Callable[[Listener], Callable[[], None]],
        *,
        schema: str,
        judged: Judged,
    ) -> None:
        self._session = session
        self._listen = listen
        self._judged = judged
        self.messages = Messages(schema=schema, judged=judged)
        self._sends: Gathering[NewMessage, Sent | BackstayError] = Gathering(
            self._send, weigh=lambda new: len(new.body)
        )
        self._settlements: Gathering[Settlement, BackstayError | None] = Gathering(self._settle)
        self._forget_at = 0.0

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

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int, counted: int
    ) -> list[QueueStanding]:
        async def look(tables: Tables) -> list[QueueStanding]:
            if names is None:
                rows = await tables.run("list_queues", after=after, limit=limit)
            else:
                rows = await tables.run("queues_of", names=names)
            return [await _standing(tables, SHAPE.known_queue(row), counted) for row in rows]

        return await self._session().read(look)

    async def topics(self) -> Mapping[str, list[Subscription]]:
        async def look(tables: Tables) -> Mapping[str, list[Subscription]]:
            return as_topics(await tables.run("list_topics"))

        return await self._session().read(look)

    # The way in

    async def send(self, messages: Sequence[NewMessage], *, now: datetime) -> list[Sent | BackstayError]:
        return await self._sends.add(messages, now=now)

    async def _send(self, messages: list[Dated]) -> list[Sent | BackstayError]:
        answers = await self._session().write(
            lambda tables, changes: self.messages.send(tables, changes, messages)
        )
        await self._forget_ids(messages)
        return answers

    async def _forget_ids(self, messages: list[Dated]) -> None:
        """Now and then, and by whoever remembers some: what nobody sends to need not be looked at."""
        if time.monotonic() < self._forget_at or not any(new.named for new, _ in messages):
            return
        self._forget_at = time.monotonic() + _FORGET_SECONDS
        now = self._judged(max(now for _, now in messages))

        async def operation(tables: Tables, _changes: Changes) -> None:
            await tables.run("forget_ids", now=now, limit=FORGOTTEN_MAX)

        await self._session().write(operation)

    async def cancel(self, queue: str, sequence: int, *, now: datetime) -> bool:
        async def operation(tables: Tables, _changes: Changes) -> bool:
            await _queue_of(tables, queue)
            return bool(
                await tables.run("cancel_message", queue=queue, sequence=sequence, now=self._judged(now))
            )

        return await self._session().write(operation)

    # The way out

    async def receive(self, queue: str, *, limit: int, secret: str, now: datetime) -> list[MessageRecord]:
        swept = Swept()
        judged = self._judged(now)

        async def operation(tables: Tables, changes: Changes) -> list[MessageRecord]:
            known = await _queue_of(tables, queue)
            if await _is_untidy(tables, known.key, judged):
                await self._sweep(tables, changes, known, swept, judged)
            rows = await tables.run(
                "lock_messages",
                key=known.key,
                secret=secret,
                lock_time=known.queue.lock,
                limit=limit,
                bytes_max=RECEIVE_BYTES_MAX,
                now=judged,
            )
            # RETURNING promises no order.
            return [SHAPE.message(row, queue) for row in sorted(rows, key=lambda row: (row[-1], row[0]))]

        received = await self._session().write(operation)
        set_aside(queue, swept.used_up, TOO_MANY_DELIVERIES)
        set_aside(queue, swept.expired, EXPIRED)
        return received

    async def _sweep(
        self, tables: Tables, changes: Changes, known: KnownQueue, swept: Swept, now: datetime | None
    ) -> None:
        """Deal with what is due: locks that ran out, messages whose time has come, messages that expired."""
        due = {"key": known.key, "limit": SWEPT_MAX, "now": now}
        returned = await tables.run(
            "return_locked", max_deliveries=known.queue.max_deliveries, used_up=TOO_MANY_DELIVERIES, **due
        )
        arrived = await tables.run("let_arrive", **due)
        expired = await tables.run("expired_messages", **due)
        sequences = [sequence for sequence, _ in expired]
        swept.expired = 0
        if known.queue.dead_letter_expired:
            await tables.run("bury_messages", sequences=sequences, reason=EXPIRED, now=now)
            swept.expired = len(expired)
        else:
            await tables.run("drop_messages", sequences=sequences)
        swept.used_up = sum(state == MessageState.DEAD for _, state in returned)
        touched = [session for session, _ in (*returned, *arrived)] + [session for _, session in expired]
        names = {known.key: known.queue.name}
        await self.messages.take_turns(tables, changes, [(known.key, one) for one in touched], names, now)
        changes.queues.append(known.queue.name)

    async def has_ready(self, queue: str, *, now: datetime) -> bool:
        judged = self._judged(now)

        async def look(tables: Tables) -> bool:
            key = (await _queue_of(tables, queue)).key
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

    def listen(self, caller: Caller) -> Callable[[], None]:
        return listening(self._listen, caller)

    # Looking, and stepping in

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        async def look(tables: Tables) -> list[MessageRecord]:
            key = (await _queue_of(tables, queue)).key
            rows = await tables.run("peek_messages", key=key, limit=limit)
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        async def look(tables: Tables) -> list[MessageRecord]:
            key = (await _queue_of(tables, queue)).key
            rows = await tables.run("list_dead", key=key, after=after, limit=limit)
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        async def operation(tables: Tables, changes: Changes) -> list[int]:
            known = await _queue_of(tables, queue)
            rows = await tables.run("dead_to_resubmit", key=known.key, ids=ids, limit=limit)
            if ids is not None and not rows:
                raise UnknownMessage(queue, ", ".join(ids))
            sequences = [sequence for (sequence,) in rows]
            new = await tables.run(
                "resubmit_dead",
                sequences=sequences,
                ageing=AGEING,
                ttl=known.queue.ttl,
                now=self._judged(now),
            )
            await tables.run("drop_messages", sequences=sequences)
            names = {known.key: queue}
            touched = [(known.key, one) for _, one in new]
            await self.messages.take_turns(tables, changes, touched, names, self._judged(now))
            changes.queues.append(queue)
            await tables.record(
                act, now, before={"dead": len(new)}, after={"dead": 0, "resubmitted": len(new)}
            )
            return sorted(sequence for sequence, _ in new)

        return await self._session().write(operation)


async def _queue_of(tables: Tables, name: str) -> KnownQueue:
    rows = await tables.run("queues_of", names=[name])
    if not rows:
        raise UnknownQueue(name)
    return SHAPE.known_queue(rows[0])


async def _standing(tables: Tables, known: KnownQueue, counted: int) -> QueueStanding:
    [[ready, behind, waiting, locked, dead]] = await tables.run("counts_of", key=known.key, counted=counted)
    return QueueStanding(
        queue=known.queue, ready=ready, behind=behind, waiting=waiting, locked=locked, dead=dead
    )


async def _is_untidy(tables: Tables, key: int, now: datetime | None) -> bool:
    [[untidy]] = await tables.run("is_untidy", key=key, now=now)
    return bool(untidy)
