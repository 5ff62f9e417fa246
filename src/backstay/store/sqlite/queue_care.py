"""Looking after the queues in one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.instants import instant, micros, micros_in
from backstay.domain.message import AGEING, MessageRecord, Subscription
from backstay.domain.standing import Level, QueueStanding, SessionStanding
from backstay.errors import QueueNotEmpty, UnknownMessage, UnknownQueue
from backstay.store.base import Changes
from backstay.store.posting import KnownQueue, as_topics
from backstay.store.rows import as_json
from backstay.store.sqlite.messages import SHAPE, take_turns
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class SqliteQueueCare:
    """The verbs of those who look after queues."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    # Look

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

    async def levels(self, *, limit: int, counted: int) -> list[Level]:
        def look(tables: Tables) -> list[Level]:
            found = [
                SHAPE.known_queue(row) for row in tables.run("list_queues", after="", limit=limit).fetchall()
            ]
            return [
                Level(queue=queue.name, priority=priority, ready=number, oldest=instant(oldest))
                for key, queue in found
                for priority, number, oldest in tables.run("levels_of", key=key, counted=counted).fetchall()
            ]

        return await self._session().read(look)

    async def sessions(
        self, queue: str, *, after: str = "", limit: int, counted: int
    ) -> list[SessionStanding]:
        def look(tables: Tables) -> list[SessionStanding]:
            key = queue_of(tables, queue).key
            rows = tables.run("list_sessions", key=key, after=after, limit=limit, counted=counted).fetchall()
            return [
                SessionStanding(session=session, messages=number, locked=locked, oldest=instant(oldest))
                for session, number, locked, oldest in rows
            ]

        return await self._session().read(look)

    async def topics(self) -> Mapping[str, list[Subscription]]:
        return await self._session().read(lambda tables: as_topics(tables.run("list_topics").fetchall()))

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        def look(tables: Tables) -> list[MessageRecord]:
            key = queue_of(tables, queue).key
            rows = tables.run("peek_messages", key=key, limit=limit).fetchall()
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        def look(tables: Tables) -> list[MessageRecord]:
            key = queue_of(tables, queue).key
            rows = tables.run("list_dead", key=key, after=after, limit=limit).fetchall()
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    # Step in

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        def operation(tables: Tables, changes: Changes) -> list[int]:
            known = queue_of(tables, queue)
            sequences = _dead_of(tables, known, ids, limit)
            new = tables.run(
                "resubmit_dead",
                sequences=as_json(sequences),
                ageing=micros_in(AGEING),
                ttl=None if known.queue.ttl is None else micros_in(known.queue.ttl),
                now=micros(now),
            ).fetchall()
            tables.run("drop_messages", sequences=as_json(sequences))
            take_turns(tables, changes, [(known.key, session) for _, session in new], {known.key: queue}, now)
            changes.queues.append(queue)
            tables.record(act, now, before={"dead": len(new)}, after={"dead": 0, "resubmitted": len(new)})
            tables.take_up(act, now)
            return sorted(sequence for sequence, _ in new)

        return await self._session().write(operation)

    async def discard(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> int:
        def operation(tables: Tables, _changes: Changes) -> int:
            known = queue_of(tables, queue)
            sequences = _dead_of(tables, known, ids, limit)
            tables.run("drop_messages", sequences=as_json(sequences))
            tables.fullness.went({known.key: len(sequences)})
            tables.record(act, now, before={"dead": len(sequences)}, after={"dead": 0})
            tables.take_up(act, now)
            return len(sequences)

        return await self._session().write(operation)

    async def purge(self, queue: str, *, limit: int, act: Act, now: datetime) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            return _purge(tables, changes, queue_of(tables, queue), limit=limit, act=act, now=now)

        return await self._session().write(operation)

    async def delete(self, queue: str, *, most: int, act: Act, now: datetime) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            known = queue_of(tables, queue)
            if sum(tables.run("counts_of", key=known.key, counted=most + 1).fetchone()) > most:
                raise QueueNotEmpty(queue)
            dropped = _purge(tables, changes, known, limit=most, act=act, now=now)
            tables.run("drop_subscription", key=known.key)
            tables.run("drop_queue", key=known.key)
            tables.fullness.forget(known.key)
            return dropped

        return await self._session().write(operation)


def queue_of(tables: Tables, name: str) -> KnownQueue:
    row = tables.run("queues_of", names=as_json([name])).fetchone()
    if row is None:
        raise UnknownQueue(name)
    return SHAPE.known_queue(row)


def _standing(tables: Tables, known: KnownQueue, counted: int) -> QueueStanding:
    counts = tables.run("counts_of", key=known.key, counted=counted).fetchone()
    return SHAPE.standing(known.queue, counts)


def _dead_of(tables: Tables, known: KnownQueue, ids: Sequence[str] | None, limit: int) -> list[int]:
    """The numbers of dead letters. Raises UnknownMessage when none of those that are named is there."""
    wanted = None if ids is None else as_json(ids)
    rows = tables.run("dead_of", key=known.key, ids=wanted, limit=limit).fetchall()
    if ids is not None and not rows:
        raise UnknownMessage(known.queue.name, ", ".join(ids))
    return [sequence for (sequence,) in rows]


def _purge(
    tables: Tables, changes: Changes, known: KnownQueue, *, limit: int, act: Act, now: datetime
) -> int:
    gone = tables.run("purge_messages", key=known.key, limit=limit).fetchall()
    take_turns(
        tables, changes, [(known.key, session) for (session,) in gone], {known.key: known.queue.name}, now
    )
    tables.fullness.went({known.key: len(gone)})
    tables.record(act, now, before={"messages": len(gone)}, after={"messages": 0})
    tables.take_up(act, now)
    return len(gone)
