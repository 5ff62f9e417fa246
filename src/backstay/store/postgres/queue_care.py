"""Looking after queues in a database that many processes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.message import AGEING, MessageRecord, Subscription
from backstay.domain.standing import Level, QueueStanding, SessionStanding
from backstay.errors import QueueNotEmpty, UnknownMessage, UnknownQueue
from backstay.store.base import Changes
from backstay.store.postgres.messages import SHAPE, Messages
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.posting import KnownQueue, as_topics


class PostgresQueueCare:
    """The verbs of those who look after queues."""

    def __init__(self, session: Callable[[], Session], messages: Messages, *, judged: Judged) -> None:
        self._session = session
        self._judged = judged
        self.messages = messages

    # Look

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int, counted: int
    ) -> list[QueueStanding]:
        async def look(tables: Tables) -> list[QueueStanding]:
            if names is None:
                rows = await tables.run("list_queues", after=after, limit=limit)
            else:
                rows = await tables.run("queues_of", names=names)
            found = [SHAPE.known_queue(row) for row in rows]
            return [await _standing(tables, one, counted) for one in found]

        return await self._session().read(look)

    async def levels(self, *, limit: int, counted: int) -> list[Level]:
        async def look(tables: Tables) -> list[Level]:
            found = [SHAPE.known_queue(row) for row in await tables.run("list_queues", after="", limit=limit)]
            return [
                Level(queue=queue.name, priority=priority, ready=number, oldest=oldest)
                for key, queue in found
                for priority, number, oldest in await tables.run("levels_of", key=key, counted=counted)
            ]

        return await self._session().read(look)

    async def sessions(
        self, queue: str, *, after: str = "", limit: int, counted: int
    ) -> list[SessionStanding]:
        async def look(tables: Tables) -> list[SessionStanding]:
            key = (await queue_of(tables, queue)).key
            rows = await tables.run("list_sessions", key=key, after=after, limit=limit, counted=counted)
            return [
                SessionStanding(session=session, messages=number, locked=locked, oldest=oldest)
                for session, number, locked, oldest in rows
            ]

        return await self._session().read(look)

    async def topics(self) -> Mapping[str, list[Subscription]]:
        async def look(tables: Tables) -> Mapping[str, list[Subscription]]:
            return as_topics(await tables.run("list_topics"))

        return await self._session().read(look)

    async def peek(self, queue: str, *, limit: int) -> list[MessageRecord]:
        async def look(tables: Tables) -> list[MessageRecord]:
            key = (await queue_of(tables, queue)).key
            rows = await tables.run("peek_messages", key=key, limit=limit)
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    async def dead(self, queue: str, *, after: int = 0, limit: int) -> list[MessageRecord]:
        async def look(tables: Tables) -> list[MessageRecord]:
            key = (await queue_of(tables, queue)).key
            rows = await tables.run("list_dead", key=key, after=after, limit=limit)
            return [SHAPE.message(row, queue) for row in rows]

        return await self._session().read(look)

    # Step in

    async def resubmit(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        async def operation(tables: Tables, changes: Changes) -> list[int]:
            known = await queue_of(tables, queue)
            sequences = await _dead_of(tables, known, ids, limit)
            new = await tables.run(
                "resubmit_dead",
                sequences=sequences,
                ageing=AGEING,
                ttl=known.queue.ttl,
                now=self._judged(now),
            )
            await tables.run("drop_messages", sequences=sequences)
            touched = [(known.key, session) for _, session in new]
            names = {known.key: queue}
            await self.messages.take_turns(tables, changes, touched, names, self._judged(now))
            changes.queues.append(queue)
            await tables.record(
                act, now, before={"dead": len(new)}, after={"dead": 0, "resubmitted": len(new)}
            )
            await tables.take_up(act, now)
            return sorted(sequence for sequence, _ in new)

        return await self._session().write(operation)

    async def discard(
        self, queue: str, ids: Sequence[str] | None, *, limit: int, act: Act, now: datetime
    ) -> int:
        async def operation(tables: Tables, _changes: Changes) -> int:
            known = await queue_of(tables, queue)
            sequences = await _dead_of(tables, known, ids, limit)
            await tables.run("drop_messages", sequences=sequences)
            self.messages.fullness.went({known.key: len(sequences)})
            await tables.record(act, now, before={"dead": len(sequences)}, after={"dead": 0})
            await tables.take_up(act, now)
            return len(sequences)

        return await self._session().write(operation)

    async def purge(self, queue: str, *, limit: int, act: Act, now: datetime) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            return await self._purge(
                tables, changes, await queue_of(tables, queue), limit=limit, act=act, now=now
            )

        return await self._session().write(operation)

    async def delete(self, queue: str, *, most: int, act: Act, now: datetime) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            await tables.run("shut_queues")
            known = await queue_of(tables, queue)
            [counts] = await tables.run("counts_of", key=known.key, counted=most + 1)
            if sum(counts) > most:
                raise QueueNotEmpty(queue)
            dropped = await self._purge(tables, changes, known, limit=most, act=act, now=now)
            await tables.run("drop_subscription", key=known.key)
            await tables.run("drop_queue", key=known.key)
            self.messages.fullness.forget(known.key)
            return dropped

        return await self._session().write(operation)

    async def _purge(
        self, tables: Tables, changes: Changes, known: KnownQueue, *, limit: int, act: Act, now: datetime
    ) -> int:
        gone = await tables.run("purge_messages", key=known.key, limit=limit)
        touched = [(known.key, session) for (session,) in gone]
        names = {known.key: known.queue.name}
        await self.messages.take_turns(tables, changes, touched, names, self._judged(now))
        self.messages.fullness.went({known.key: len(gone)})
        await tables.record(act, now, before={"messages": len(gone)}, after={"messages": 0})
        await tables.take_up(act, now)
        return len(gone)


async def queue_of(tables: Tables, name: str) -> KnownQueue:
    rows = await tables.run("queues_of", names=[name])
    if not rows:
        raise UnknownQueue(name)
    return SHAPE.known_queue(rows[0])


async def _standing(tables: Tables, known: KnownQueue, counted: int) -> QueueStanding:
    [counts] = await tables.run("counts_of", key=known.key, counted=counted)
    return SHAPE.standing(known.queue, counts)


async def _dead_of(tables: Tables, known: KnownQueue, ids: Sequence[str] | None, limit: int) -> list[int]:
    """The numbers of dead letters. Raises UnknownMessage when none of those that are named is there."""
    rows = await tables.run("dead_of", key=known.key, ids=ids, limit=limit)
    if ids is not None and not rows:
        raise UnknownMessage(known.queue.name, ", ".join(ids))
    return [sequence for (sequence,) in rows]
