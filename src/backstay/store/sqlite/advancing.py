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
from backstay.store.advancing import Advancing, Aside, Asked, check_room, quarantine_alert
from backstay.store.base import Changes
from backstay.store.group_rows import GroupShape
from backstay.store.groups import Advanced
from backstay.store.rows import as_json
from backstay.store.sqlite.entering import enter_tasks
from backstay.store.sqlite.messages import call_once
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
    moved = tables.run("move_checkpoints", moves=as_json(moves), now=micros(advancing.now)).rowcount
    if moved != len(moves):
        raise advancing.lost
    if settled := advancing.settled:
        tables.run("settle_quarantined", settled=as_json(settled))
    advancing.entered(enter_tasks(tables, changes, advancing.tasks))
    changes.claimable = changes.claimable or advancing.claimable
    for group, aside in advancing.aside.items():
        advancing.called += _set_aside(tables, group, aside, limit=advancing.quarantine_max)
    return advancing.answers()


def _set_aside(tables: Tables, group: Group, aside: Sequence[Aside], *, limit: int) -> list[NewAlert]:
    """The alert that is new, if there is one."""
    rows = [SHAPE.quarantined_row(group, new, at) for new, at in aside]
    if tables.run_rows("set_aside", rows) == 0:
        return []  # All of it was said before.
    of = {"stream": group.stream, "grp": group.name}
    [number] = tables.run("count_quarantined", counted=limit + 1, **of).fetchone()
    check_room(group, number, limit=limit)
    return call_once(tables, [quarantine_alert(group, aside)], aside[0][1])
