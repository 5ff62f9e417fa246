"""Enters many tasks with few statements, those among them that are there already included."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from backstay.domain.task import NewTask, first_record
from backstay.errors import BackstayError
from backstay.sql.sqlite.connection import REFUSALS
from backstay.store.advancing import Outcome, unfit
from backstay.store.base import Changes, Submitted
from backstay.store.decisions import known_task
from backstay.store.sqlite.document import Entering
from backstay.store.sqlite.statuses import enter, missing, tell_of_entry
from backstay.store.sqlite.tables import Tables

_decode_known: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def enter_tasks(tables: Tables, changes: Changes, entering: Entering) -> list[Outcome]:
    """Of each task whether it is new, or why it cannot be entered. Its submitter is told if it is."""
    if not entering or _entered_plainly(tables, entering):
        return [True] * len(entering)
    try:
        with tables.savepoint("tasks"):
            return _enter_with_care(tables, changes, entering)
    except REFUSALS:
        # Something is wrong with one of them. The others must not suffer: each by itself.
        return [_enter_alone(tables, changes, *one) for one in entering]


def _entered_plainly(tables: Tables, entering: Entering) -> bool:
    """Enter tasks with one statement; ``False``, and none is, if there is more to it, or an id is taken."""
    document = tables.document()
    if not document.can_enter(entering):
        return False
    try:
        document.enter(entering)
        tables.write(document)
    except REFUSALS:
        return False
    return True


def _enter_with_care(tables: Tables, changes: Changes, entering: Entering) -> list[Outcome]:
    there = _there_already(tables, entering)
    nowhere = missing(tables, (new for new, _ in entering))
    first: dict[str, NewTask] = {}
    fresh: list[tuple[NewTask, datetime]] = []
    outcomes: list[Outcome] = []
    for place, (new, now) in enumerate(entering):
        if new.reply_to in nowhere:
            outcomes.append(nowhere[new.reply_to])
        elif place in there:
            outcomes.append(there[place])
        elif new.id in first:
            outcomes.append(_outcome(known_task(new, first_record(0, first[new.id], now))))
        else:
            outcomes.append(True)
            first[new.id] = new
            fresh.append((new, now))
    _enter_new(tables, changes, fresh)
    return outcomes


def _enter_alone(tables: Tables, changes: Changes, new: NewTask, now: datetime) -> Outcome:
    try:
        with tables.savepoint("task"):
            return _outcome(enter(tables, changes, new, now))
    except REFUSALS as error:
        return unfit(new, error)


def _there_already(tables: Tables, entering: Entering) -> dict[int, Outcome]:
    """Of those tasks whose ids are taken, by their places: whether they are the same."""
    document = tables.document()
    document.enter(entering)
    [found] = tables.run("known_tasks", entered=document.values["entered"]).fetchone()
    return {
        place: False if same else _judged(tables, entering[place][0]) for place, same in _decode_known(found)
    }


def _judged(tables: Tables, new: NewTask) -> Outcome:
    """Rows may differ where tasks do not: with another limit, a large value is kept in another way."""
    return _outcome(known_task(new, tables.task(new.id)))


def _outcome(answer: Submitted | BackstayError) -> Outcome:
    return answer.created if isinstance(answer, Submitted) else answer


def _enter_new(tables: Tables, changes: Changes, entering: Entering) -> None:
    """Enter tasks that are not there, with all that they have beside their rows."""
    if not entering:
        return
    document = tables.document()
    document.enter(entering)
    tables.write(document)
    if document.can_enter(entering):
        return
    [first] = tables.run("key_of", id=entering[0][0].id).fetchone()
    # Their keys follow one another.
    entered = [(key, new, now) for key, (new, now) in enumerate(entering, start=first)]
    tables.put_belongings((key, new) for key, new, _ in entered)
    tell_of_entry(tables, changes, entered)
