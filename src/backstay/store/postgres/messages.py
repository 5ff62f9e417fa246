"""What is done to messages inside a transaction, by the verbs of queues and by whoever else writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from backstay.domain.alert import NewAlert
from backstay.domain.bound import COUNTED_ANEW_MAX
from backstay.domain.message import TOO_MANY_DELIVERIES, Sent, Settlement
from backstay.domain.status import Destination
from backstay.errors import BackstayError
from backstay.store.base import Changes
from backstay.store.fullness import Fullness
from backstay.store.postgres.tables import SHAPE as ALERT_SHAPE
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.posting import (
    Dated,
    Held,
    KnownQueue,
    Name,
    Posting,
    Subscriber,
    Verdicts,
    as_subscribers,
    sessions,
)
from backstay.store.queue_news import FORGOTTEN_MAX, dropped
from backstay.store.queue_rows import QueueShape
from backstay.store.rows import Row, Values

SHAPE: Final = QueueShape(
    stored=lambda instant: instant,
    instant=lambda stored: stored,
    span=lambda time: time,
    spanned=lambda stored: stored,
)


# How often ids whose time is over are forgotten.
_FORGET_SECONDS: Final = 1.0


class Asked(Protocol):
    """What a query can be put to: our own connection, or in whatever way a caller's is spoken to."""

    async def run(self, query: str, **values: Any) -> list[Row]: ...


class Messages:
    """Messages in one schema."""

    def __init__(self, *, schema: str, judged: Judged) -> None:
        self._turns = f"backstay {schema} turns"
        self._judged = judged
        self.fullness = Fullness()
        self._remembered = 0
        self._forget_at = 0.0

    def to_forget(self) -> int:
        """How many ids whose time is over are to be forgotten now; none, if that was done a moment ago.

        By whoever remembers some: a queue that nobody sends to need not be looked at.
        """
        if not self._remembered or time.monotonic() < self._forget_at:
            return 0
        self._forget_at = time.monotonic() + _FORGET_SECONDS
        remembered, self._remembered = self._remembered, 0
        return max(FORGOTTEN_MAX, 2 * remembered)

    async def send(
        self,
        tables: Asked,
        changes: Changes,
        messages: Sequence[Dated],
        full: list[NewAlert] | None = None,
        *,
        whole: bool = False,
    ) -> list[Sent | BackstayError]:
        """Put messages into their queues; the answer to each. Alerts of full ones are added to ``full``.

        ``whole``: all that can be sent at all, or, where there is no room for one of them, nothing.
        """
        posting = Posting(messages)
        posting.address(
            await _queues(tables, posting.queue_names), await _topics(tables, posting.topic_names)
        )
        if not posting.copies:
            return posting.answers([], {})
        room = await self._room(tables, posting)
        if not posting.fits(room):
            known = await _known(tables, posting)
            posting.keep_within(await self._room(tables, posting, anew=True) if whole else room, known)
            dropped(posting.dropped)
            if whole and posting.leaves_out:
                return posting.answers([], known)
        at = max(now for _, now in messages)
        now = self._judged(at)
        written = await self._write(tables, posting, now)
        known = {} if len(written) == len(posting.copies) else await _known(tables, posting)
        changes.queues.extend(posting.ready_in)
        names = {key: queue.name for key, queue in posting.queues.items()}
        await self.take_turns(tables, changes, posting.turns, names, now)
        if full is not None:
            full += await call_once(tables, posting.alerts, at)
        return posting.answers(written, known)

    async def _write(
        self, tables: Asked, posting: Posting, now: datetime | None
    ) -> list[tuple[int, int, str]]:
        """Write what was not sent before; of each its number, the key of its queue, and its id."""
        rows = [(*SHAPE.copy_row(copy), copy.until, copy.new.body) for copy in posting.copies]
        if not rows:
            return []
        names = ("queue_key", "id", "properties", "session", "priority", "state", "rank")
        times = ("enqueued_at", "visible_at", "expires_at", "until", "body")
        columns = dict(zip((*names, *times), zip(*rows, strict=True), strict=True))
        written = [(*row,) for row in await tables.run("insert_messages", **columns, now=now)]
        self._remembered += sum(copy.until is not None for copy in posting.copies)
        self.fullness.came(Counter(key for _, key, _ in written))
        return written

    async def _room(self, tables: Asked, posting: Posting, *, anew: bool = False) -> dict[int, int]:
        """For how many more messages there is room in each queue; ``anew``: small ones are counted."""
        room: dict[int, int] = {}
        for key, queue in posting.queues.items():
            is_counted = anew and queue.max_messages <= COUNTED_ANEW_MAX
            number = None if is_counted else self.fullness.number(key, limit=queue.max_messages)
            if number is None:
                [counts] = await tables.run("counts_of", key=key, counted=queue.max_messages)
                number = sum(counts)
                self.fullness.counted(key, number)
            room[key] = queue.max_messages - number
        return room

    async def settle(
        self, tables: Tables, changes: Changes, settlements: Sequence[Settlement], now: datetime
    ) -> Verdicts:
        """Carry out what became of messages."""
        verdicts = Verdicts(settlements)
        judged = self._judged(now)
        if verdicts.completed:
            gone = await tables.run("complete_messages", **held_columns(verdicts.completed), now=judged)
            for sequence, key, session in gone:
                verdicts.found(sequence, key, session)
        if verdicts.others:
            left = await tables.run(
                "settle_messages",
                **held_columns([one for one, _ in verdicts.others]),
                actions=[one.action.value for _, one in verdicts.others],
                delays=[one.delay for _, one in verdicts.others],
                reasons=[one.reason for _, one in verdicts.others],
                details=[one.detail for _, one in verdicts.others],
                used_up=TOO_MANY_DELIVERIES,
                now=judged,
            )
            for sequence, key, session, state in left:
                verdicts.found(sequence, key, session, state)
        self.fullness.went(verdicts.gone)
        await tables.put_alerts((alert, now) for alert in verdicts.alerts)
        verdicts.called = await call_once(tables, verdicts.calls, now)
        changes.queues.extend(verdicts.ready_in)
        await self.take_turns(tables, changes, verdicts.turns, verdicts.queues, judged)
        return verdicts

    async def take_turns(
        self,
        tables: Asked,
        changes: Changes,
        touched: Iterable[tuple[int, str | None]],
        names: Mapping[int, str],
        now: datetime | None,
    ) -> None:
        """Let the next message of each session that was touched be ready, if it is its turn.

        What was changed before is locked by then, and what others commit until the turns are ours is seen.
        """
        turns = sessions(touched)
        if not turns:
            return
        keys, texts = zip(*turns, strict=True)
        await tables.run("lock_turns", name=self._turns, queue_keys=keys, sessions=texts)
        moved = await tables.run("take_turns", queue_keys=keys, sessions=texts, now=now)
        changes.queues.extend({names[key] for (key,) in moved})


def held_columns(deliveries: Sequence[Held]) -> Values:
    """Deliveries as the columns that queries take them in."""
    return {
        "sequences": [one.sequence for one in deliveries],
        "secrets": [one.secret for one in deliveries],
        "ids": [one.id for one in deliveries],
        "queues": [one.queue for one in deliveries],
    }


async def call_once(tables: Asked, alerts: Iterable[NewAlert], now: datetime) -> list[NewAlert]:
    """Call for a person, unless one was and has yet to take it up; those alerts that are new."""
    called = [(one, await tables.run("call", **ALERT_SHAPE.call_values(one, now))) for one in alerts]
    return [one for one, [[is_new]] in called if is_new]


async def _known(tables: Asked, posting: Posting) -> dict[Name, int]:
    """Those of the names that were sent before, and their numbers."""
    if not posting.named:
        return {}
    keys, ids = zip(*posting.named, strict=True)
    rows = await tables.run("known_ids", queue_keys=keys, ids=ids)
    return {(row[0], row[1]): row[2] for row in rows}


async def places(tables: Asked, wanted: Collection[Destination]) -> set[Destination]:
    """Those of these queues and topics that there are."""
    queues = await _queues(tables, sorted({name for name, topic in wanted if not topic}))
    topics = await _topics(tables, sorted({name for name, topic in wanted if topic}))
    found = [*(Destination(name, topic=False) for name in queues)]
    return {*found, *(Destination(name, topic=True) for name in topics)}


async def _queues(tables: Asked, names: Sequence[str]) -> dict[str, KnownQueue]:
    if not names:
        return {}
    found = map(SHAPE.known_queue, await tables.run("queues_of", names=names))
    return {one.queue.name: one for one in found}


async def _topics(tables: Asked, names: Sequence[str]) -> dict[str, list[Subscriber]]:
    if not names:
        return {}
    return as_subscribers(await tables.run("subscriptions_of", names=names), SHAPE.known_queue)
