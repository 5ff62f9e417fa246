"""What is done to messages inside a transaction, by the verbs of queues and by whoever else writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from backstay.domain.alert import NewAlert
from backstay.domain.bound import COUNTED_ANEW_MAX
from backstay.domain.instants import instant, micros, micros_in
from backstay.domain.message import TOO_MANY_DELIVERIES, Sent, Settlement
from backstay.domain.status import Destination
from backstay.errors import BackstayError
from backstay.store.base import Changes
from backstay.store.posting import (
    Dated,
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
from backstay.store.rows import as_json
from backstay.store.sqlite.rows import SHAPE as ALERT_SHAPE
from backstay.store.sqlite.tables import Tables

SHAPE: Final = QueueShape(
    stored=micros,
    instant=instant,
    span=micros_in,
    spanned=lambda stored: timedelta(microseconds=stored),
    flag=int,
)


def send_messages(
    tables: Tables,
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
    posting.address(_queues(tables, posting.queue_names), _topics(tables, posting.topic_names))
    if not posting.copies:
        return posting.answers([], {})
    now = max(now for _, now in messages)
    known = _known(tables, posting.named, now)
    room = _room(tables, posting)
    if not posting.fits(room):
        posting.keep_within(_room(tables, posting, anew=True) if whole else room, known)
        dropped(posting.dropped)
        if whole and posting.leaves_out:
            return posting.answers([], known)
    written = _write(tables, posting, known, now)
    changes.queues.extend(posting.ready_in)
    names = {key: queue.name for key, queue in posting.queues.items()}
    take_turns(tables, changes, posting.turns, names, now)
    if full is not None:
        full += call_once(tables, posting.alerts, now)
    return posting.answers(written, known)


def _write(
    tables: Tables, posting: Posting, known: Mapping[Name, int], now: datetime
) -> list[tuple[int, int, str]]:
    """Write what is not known; of each its number, the key of its queue, and its id."""
    fresh = [copy for copy in posting.copies if copy.until is None or (copy.key, copy.new.id) not in known]
    [last] = tables.run("last_sequence").fetchone()
    numbered = list(enumerate(fresh, start=last + 1))
    tables.run_rows(
        "insert_messages", [(sequence, *SHAPE.copy_row(copy), copy.new.body) for sequence, copy in numbered]
    )
    named = [
        (copy.key, copy.new.id, sequence, micros(copy.until)) for sequence, copy in numbered if copy.until
    ]
    if named:
        tables.run_rows("remember_ids", named)
        tables.run("forget_ids", now=micros(now), limit=max(FORGOTTEN_MAX, 2 * len(named)))
    tables.fullness.came(Counter(copy.key for copy in fresh))
    return [(sequence, copy.key, copy.new.id) for sequence, copy in numbered]


def _room(tables: Tables, posting: Posting, *, anew: bool = False) -> dict[int, int]:
    """For how many more messages there is room in each queue; ``anew``: small ones are counted."""
    room: dict[int, int] = {}
    for key, queue in posting.queues.items():
        is_counted = anew and queue.max_messages <= COUNTED_ANEW_MAX
        number = None if is_counted else tables.fullness.number(key, limit=queue.max_messages)
        if number is None:
            number = sum(tables.run("counts_of", key=key, counted=queue.max_messages).fetchone())
            tables.fullness.counted(key, number)
        room[key] = queue.max_messages - number
    return room


def call_once(tables: Tables, alerts: Iterable[NewAlert], now: datetime) -> list[NewAlert]:
    """Call for a person, unless one was and has yet to take it up; those alerts that are new."""
    return [one for one in alerts if tables.run("call", **ALERT_SHAPE.call_values(one, now)).fetchone()[0]]


def settle_messages(
    tables: Tables, changes: Changes, settlements: Sequence[Settlement], now: datetime
) -> Verdicts:
    """Carry out what became of messages."""
    verdicts = Verdicts(settlements)
    if verdicts.completed:
        found = tables.run("complete_messages", locks=as_json(verdicts.completed), now=micros(now))
        for sequence, key, session in found.fetchall():
            verdicts.found(sequence, key, session)
    if verdicts.others:
        rows = [
            (*held, one.action, micros_in(one.delay), one.reason, one.detail) for held, one in verdicts.others
        ]
        left = tables.run(
            "settle_messages", settlements=as_json(rows), used_up=TOO_MANY_DELIVERIES, now=micros(now)
        )
        for sequence, key, session, state in left.fetchall():
            verdicts.found(sequence, key, session, state)
    tables.fullness.went(verdicts.gone)
    tables.put_alerts((alert, now) for alert in verdicts.alerts)
    verdicts.called = call_once(tables, verdicts.calls, now)
    changes.queues.extend(verdicts.ready_in)
    take_turns(tables, changes, verdicts.turns, verdicts.queues, now)
    return verdicts


def is_there(tables: Tables, to: Destination) -> bool:
    """Whether there is such a queue or topic."""
    found = _topics(tables, [to.name]) if to.topic else _queues(tables, [to.name])
    return bool(found)


def take_turns(
    tables: Tables,
    changes: Changes,
    touched: Iterable[tuple[int, str | None]],
    names: Mapping[int, str],
    now: datetime,
) -> None:
    """Let the next message of each session that was touched be ready, if it is its turn."""
    turns = sessions(touched)
    if turns:
        moved = tables.run("take_turns", turns=as_json(turns), now=micros(now)).fetchall()
        changes.queues.extend({names[key] for (key,) in moved})


def _queues(tables: Tables, names: Sequence[str]) -> dict[str, KnownQueue]:
    if not names:
        return {}
    found = map(SHAPE.known_queue, tables.run("queues_of", names=as_json(names)).fetchall())
    return {one.queue.name: one for one in found}


def _topics(tables: Tables, names: Sequence[str]) -> dict[str, list[Subscriber]]:
    if not names:
        return {}
    return as_subscribers(tables.run("subscriptions_of", names=as_json(names)).fetchall(), SHAPE.known_queue)


def _known(tables: Tables, names: Sequence[Name], now: datetime) -> dict[Name, int]:
    if not names:
        return {}
    rows = tables.run("known_ids", ids=as_json(names), now=micros(now)).fetchall()
    return {(row[0], row[1]): row[2] for row in rows}
