"""Enters many tasks with few statements, those among them that are there already included."""

from __future__ import annotations

from typing import Final

import msgspec

from backstay.domain.task import NewTask, TaskRecord, first_record
from backstay.errors import BackstayError
from backstay.sql.sqlite.connection import REFUSALS
from backstay.store.advancing import Outcome
from backstay.store.base import Changes
from backstay.store.decisions import known_task
from backstay.store.sqlite.document import Document, Entering
from backstay.store.sqlite.statuses import missing, tell_of_entry
from backstay.store.sqlite.tables import Tables

_decode_known: Final = msgspec.json.Decoder(list[tuple[int, int]]).decode


def enter_tasks(tables: Tables, changes: Changes, entering: Entering) -> list[Outcome]:
    """Of each task whether it is new, or why it cannot be entered. Its submitter is told if it is."""
    if not entering:
        return []
    changes.claimable = True
    document = tables.document()
    document.enter(entering)
    if document.can_enter(entering):
        try:
            tables.write(document)
        except REFUSALS:
            pass  # As a rule, some are there: the same events came before.
        else:
            return [True] * len(entering)
    return _enter_with_care(tables, changes, entering, document)


def _enter_with_care(
    tables: Tables, changes: Changes, entering: Entering, document: Document
) -> list[Outcome]:
    outcomes = _there_already(tables, entering, document)
    nowhere = missing(tables, (new for new, _ in entering))
    first: dict[str, NewTask] = {}
    fresh = []
    for place, (new, now) in enumerate(entering):
        if place in outcomes:
            continue
        if new.id in first:
            outcomes[place] = _same(new, first_record(0, first[new.id], now))
        elif new.reply_to in nowhere:
            outcomes[place] = nowhere[new.reply_to]
        else:
            outcomes[place] = True
            first[new.id] = new
            fresh.append((new, now))
    _enter_new(tables, changes, fresh)
    return [outcomes[place] for place in range(len(entering))]


def _there_already(tables: Tables, entering: Entering, document: Document) -> dict[int, Outcome]:
    """Of those tasks whose ids are taken, by their places: whether they are the same."""
    [found] = tables.run("known_tasks", entered=document.values["entered"]).fetchone()
    return {
        place: False if same else _same(entering[place][0], tables.task(entering[place][0].id))
        for place, same in _decode_known(found)
    }


def _same(new: NewTask, known: TaskRecord) -> Outcome:
    answer = known_task(new, known)
    return answer if isinstance(answer, BackstayError) else False


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
