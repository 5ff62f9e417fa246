"""Queues and messages as rows, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.message import (
    MessageRecord,
    MessageState,
    Queue,
    lock_token,
)
from backstay.domain.standing import QueueStanding
from backstay.store.posting import Copy, KnownQueue, as_text, decode_properties
from backstay.store.rows import Row, Values

#: Where ``message_columns`` has the session.
SESSION: Final = 4

_STATES: Final = {state.value: state for state in MessageState}


class QueueShape:
    """How one database keeps what databases keep differently: instants, spans of time, and yes or no."""

    def __init__(
        self,
        *,
        stored: Callable[[datetime], Any],
        instant: Callable[[Any], datetime],
        span: Callable[[timedelta], Any],
        spanned: Callable[[Any], timedelta],
        flag: Callable[[bool], Any] = bool,
    ) -> None:
        self._stored = stored
        self._instant = instant
        self._span = span
        self._spanned = spanned
        self._flag = flag

    def known_queue(self, row: Row) -> KnownQueue:
        """From the columns of ``queue_columns``."""
        key, name, lock, max_deliveries, dedup, ttl, dead_letter_expired, sessions, max_messages = row
        queue = Queue(
            name=name,
            lock=self._spanned(lock),
            max_deliveries=max_deliveries,
            dedup=self._spanned(dedup),
            ttl=None if ttl is None else self._spanned(ttl),
            dead_letter_expired=bool(dead_letter_expired),
            sessions=bool(sessions),
            max_messages=max_messages,
        )
        return KnownQueue(key, queue)

    def standing(self, queue: Queue, counts: Row) -> QueueStanding:
        """From the columns of ``counts_of``."""
        ready, behind, waiting, locked, deferred, dead = counts
        return QueueStanding(
            queue=queue,
            ready=ready,
            behind=behind,
            waiting=waiting,
            locked=locked,
            deferred=deferred,
            dead=dead,
        )

    def queue_values(self, queue: Queue) -> Values:
        """The parameters of ``put_queue``, but for the time."""
        return {
            "name": queue.name,
            "lock_time": self._span(queue.lock),
            "max_deliveries": queue.max_deliveries,
            "dedup": self._span(queue.dedup),
            "ttl": None if queue.ttl is None else self._span(queue.ttl),
            "dead_letter_expired": self._flag(queue.dead_letter_expired),
            "sessions": self._flag(queue.sessions),
            "max_messages": queue.max_messages,
        }

    def copy_row(self, copy: Copy) -> tuple[Any, ...]:
        """A message as it is inserted, but for its number, its window and its body."""
        new, placed = copy.new, copy.placed
        return (
            copy.key,
            new.id,
            as_text(new.properties) if new.properties else "{}",
            new.session,
            new.priority,
            placed.state.value,
            self._stored(placed.rank),
            self._stored(placed.enqueued_at),
            self.optional(placed.visible_at),
            self.optional(placed.expires_at),
        )

    def optional(self, instant: datetime | None) -> Any:
        return None if instant is None else self._stored(instant)

    def message(self, row: Row, queue: str) -> MessageRecord:
        """From the columns of ``message_columns``."""
        sequence, secret = row[0], row[11]
        return MessageRecord(
            sequence=sequence,
            queue=queue,
            id=row[1],
            body=row[2],
            properties=decode_properties(row[3]) if row[3] != "{}" else {},
            session=row[SESSION],
            priority=row[5],
            state=_STATES[row[6]],
            delivery_count=row[7],
            enqueued_at=self._instant(row[8]),
            visible_at=self._read(row[9]),
            expires_at=self._read(row[10]),
            lock_token=None if secret is None else lock_token(sequence, secret),
            reason=row[12],
            detail=row[13],
            dead_at=self._read(row[14]),
        )

    def instant(self, stored: Any) -> datetime:
        return self._instant(stored)

    def _read(self, stored: Any) -> datetime | None:
        return None if stored is None else self._instant(stored)


def as_taken(record: MessageRecord) -> MessageRecord:
    """A message that was removed as it was received: that delivery is in no row."""
    return msgspec.structs.replace(record, delivery_count=record.delivery_count + 1)
