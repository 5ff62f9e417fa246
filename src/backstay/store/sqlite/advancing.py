"""Advances of groups within a commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from backstay.domain.alert import NewAlert
from backstay.domain.instants import instant, micros
from backstay.domain.stream import Group
from backstay.errors import BackstayError, Conflict
from backstay.sql.sqlite.connection import REFUSALS
from backstay.store.advancing import (
    Advancing,
    Aside,
    Asked,
    EventPlace,
    Move,
    Place,
    check_room,
    quarantine_alert,
)
from backstay.store.base import Changes
from backstay.store.group_rows import GroupShape
from backstay.store.groups import Advanced
from backstay.store.rows import as_json
from backstay.store.sqlite.entering import enter_tasks
from backstay.store.sqlite.messages import call_once, send_messages
from backstay.store.sqlite.tables import Tables

SHAPE: Final = GroupShape(stored=micros, instant=instant)

Answers = list[Advanced | BackstayError]


def advance_all(
    tables: Tables, changes: Changes, asked: Sequence[tuple[Asked, datetime]], called: list[NewAlert]
) -> Answers:
    """All at once; one by one when one of them is refused: the others must not suffer.

    ``called`` gets the alerts that are new.
    """
    answers = _attempt(tables, changes, asked, called)
    if not isinstance(answers, BackstayError):
        return answers
    if len(asked) == 1:
        return [answers]
    return [answer for one in asked for answer in advance_all(tables, changes, [one], called)]


def _attempt(
    tables: Tables, changes: Changes, asked: Sequence[tuple[Asked, datetime]], called: list[NewAlert]
) -> Answers | BackstayError:
    """The answers; or why one of them is refused, and nothing of any is left."""
    advancing = Advancing(asked)
    try:
        with tables.savepoint("advances"):
            answers = _advance(tables, changes, advancing)
    except BackstayError as error:
        return error
    except REFUSALS as error:
        return Conflict(f"the store refused an advance: {error}")
    called += advancing.called
    return answers


def _advance(tables: Tables, changes: Changes, advancing: Advancing) -> Answers:
    moves = advancing.moves
    reached = _reached(tables, moves) if advancing.has_messages else {}
    moved = tables.run("move_checkpoints", moves=as_json(moves), now=micros(advancing.now)).rowcount
    if moved != len(moves):
        raise advancing.lost
    settled: set[EventPlace] = set()
    if advancing.settled:
        settled = {*tables.run("settle_quarantined", settled=as_json(advancing.settled)).fetchall()}
    if messages := advancing.unsent(reached, settled) if advancing.has_messages else ():
        advancing.sent(send_messages(tables, changes, messages, whole=True))
    advancing.entered(enter_tasks(tables, changes, advancing.tasks))
    changes.claimable = changes.claimable or advancing.claimable
    for group, aside in advancing.aside.items():
        advancing.called += _set_aside(tables, group, aside, limit=advancing.quarantine_max)
    return advancing.answers()


def _reached(tables: Tables, moves: Sequence[Move]) -> dict[Place, int | None]:
    """How far everybody had got until now."""
    rows = tables.run("reached_before", moves=as_json(moves)).fetchall()
    return {(stream, group, partition, slot): reached for stream, group, partition, slot, reached in rows}


def _set_aside(tables: Tables, group: Group, aside: Sequence[Aside], *, limit: int) -> list[NewAlert]:
    """The alert that is new, if there is one."""
    rows = [SHAPE.quarantined_row(group, new, at) for new, at in aside]
    if tables.run_rows("set_aside", rows) == 0:
        return []  # All of it was said before.
    of = {"stream": group.stream, "grp": group.name}
    [number] = tables.run("count_quarantined", counted=limit + 1, **of).fetchone()
    check_room(group, number, limit=limit)
    return call_once(tables, [quarantine_alert(group, aside)], aside[0][1])
