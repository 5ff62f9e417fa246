"""Advances of groups in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import asyncpg

from backstay.domain.stream import Group
from backstay.errors import BackstayError, StoreUnavailable
from backstay.store.advancing import Advancing, Aside, Asked, Outcome, check_room, quarantine_alert
from backstay.store.base import Changes, Submitted
from backstay.store.group_rows import GroupShape
from backstay.store.groups import Advanced
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.submissions import enter_tasks
from backstay.store.postgres.tables import SHAPE as RECORDS
from backstay.store.postgres.tables import Judged, Tables

SHAPE: Final = GroupShape(stored=lambda instant: instant, instant=lambda stored: stored)

Answers = list[Advanced | BackstayError]


class Refused(Exception):
    """One of the advances cannot be written now; nothing of any is left."""

    def __init__(self, error: BackstayError) -> None:
        super().__init__(str(error))
        self.error = error


class Advances:
    """Advances in one schema."""

    def __init__(self, *, schema: str, statuses: Statuses, judged: Judged) -> None:
        self._quarantine = f"backstay {schema} quarantine"
        self._statuses = statuses
        self._judged = judged

    async def write(
        self, tables: Tables, changes: Changes, asked: Sequence[tuple[Asked, datetime]]
    ) -> Answers:
        """Runs inside their transaction. Raises Refused when one of them must not be written."""
        try:
            return await self._write(tables, changes, Advancing(asked))
        except asyncpg.LockNotAvailableError as error:
            held = "another transaction holds what is to be written; try again once it has ended"
            raise Refused(StoreUnavailable(held)) from error
        except BackstayError as error:
            raise Refused(error) from error

    async def _write(self, tables: Tables, changes: Changes, advancing: Advancing) -> Answers:
        moves = advancing.moves
        columns = zip(*moves, strict=True)
        values = dict(zip(moves[0]._fields, columns, strict=True))
        moved = await tables.run("move_checkpoints", now=self._judged(advancing.now), **values)
        if len(moved) != len(moves):
            raise advancing.lost
        await tables.run_rows("settle_quarantined", advancing.settled)
        if tasks := advancing.tasks:
            entered = await enter_tasks(tables, changes, self._statuses, tasks)
            advancing.entered(map(_outcome, entered))
            changes.claimable = True
        for group, aside in advancing.aside.items():
            await self._set_aside(tables, group, aside, limit=advancing.quarantine_max)
        return advancing.answers()

    async def _set_aside(self, tables: Tables, group: Group, aside: Sequence[Aside], *, limit: int) -> None:
        # Others of the group wait for our commit: what is counted here stays true until then.
        await tables.run("one_at_a_time", name=f"{self._quarantine} {group.stream}/{group.name}")
        rows = [SHAPE.quarantined_row(group, new, at) for new, at in aside]
        if not await tables.run_rows("set_aside", rows):
            return  # All of it was said before.
        [[number]] = await tables.run(
            "count_quarantined", counted=limit + 1, stream=group.stream, grp=group.name
        )
        check_room(group, number, limit=limit)
        alert = quarantine_alert(group, aside)
        await tables.run_rows("insert_alert_once", [RECORDS.alert_row(alert, aside[0][1])])


def _outcome(answer: Submitted | BackstayError) -> Outcome:
    return answer.created if isinstance(answer, Submitted) else answer
