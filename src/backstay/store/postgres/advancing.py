"""Advances of groups in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

import asyncpg

from backstay.domain.alert import NewAlert
from backstay.domain.stream import Group
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, StoreUnavailable
from backstay.store.advancing import (
    Advancing,
    Aside,
    Asked,
    Outcome,
    Place,
    check_room,
    quarantine_alert,
    unfit,
)
from backstay.store.base import Changes, Submitted
from backstay.store.group_rows import GroupShape
from backstay.store.groups import Advanced
from backstay.store.postgres.connection import REFUSALS
from backstay.store.postgres.messages import Messages, call_once
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.submissions import enter_tasks
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.rows import Row

SHAPE: Final = GroupShape(stored=lambda instant: instant, instant=lambda stored: stored)

Answers = list[Advanced | BackstayError]
#: With the alerts that are new.
Written = tuple[Answers, list[NewAlert]]
Dated = tuple[NewTask, datetime]
Enter = Callable[[Tables, Changes, Sequence[Dated]], Awaitable[list[Outcome]]]


class Refused(Exception):
    """One of the advances cannot be written now; nothing of any is left."""

    def __init__(self, error: BackstayError) -> None:
        super().__init__(str(error))
        self.error = error


class Advances:
    """Advances in one schema."""

    def __init__(self, *, schema: str, messages: Messages, statuses: Statuses, judged: Judged) -> None:
        self._quarantine = f"backstay {schema} quarantine"
        self._messages = messages
        self._statuses = statuses
        self._judged = judged

    async def write(
        self,
        tables: Tables,
        changes: Changes,
        asked: Sequence[tuple[Asked, datetime]],
        *,
        one_by_one: bool = False,
    ) -> Written:
        """Runs inside their transaction. Raises Refused when one of them must not be written.

        ``one_by_one``: a task that breaks a rule of the schema costs the others nothing.
        """
        enter = self._enter_one_by_one if one_by_one else self._enter
        advancing = Advancing(asked)
        try:
            answers = await self._write(tables, changes, advancing, enter)
        except asyncpg.LockNotAvailableError as error:
            held = "another transaction holds what is to be written; try again once it has ended"
            raise Refused(StoreUnavailable(held)) from error
        except BackstayError as error:
            raise Refused(error) from error
        return answers, advancing.called

    async def _write(self, tables: Tables, changes: Changes, advancing: Advancing, enter: Enter) -> Answers:
        moves = advancing.moves
        values = dict(zip(moves[0]._fields, zip(*moves, strict=True), strict=True))
        moved = await tables.run("move_checkpoints", now=self._judged(advancing.now), **values)
        if len(moved) != len(moves):
            raise advancing.lost
        settled = await tables.run_rows("settle_quarantined", advancing.settled)
        if advancing.has_messages:
            await self._send(tables, changes, advancing, moved, settled)
        if tasks := advancing.tasks:
            advancing.entered(await enter(tables, changes, tasks))
            changes.claimable = changes.claimable or advancing.claimable
        for group, aside in advancing.aside.items():
            advancing.called += await self._set_aside(tables, group, aside, limit=advancing.quarantine_max)
        return advancing.answers()

    async def _send(
        self,
        tables: Tables,
        changes: Changes,
        advancing: Advancing,
        moved: Sequence[Row],
        settled: Sequence[Row],
    ) -> None:
        reached: dict[Place, int | None] = {(row[0], row[1], row[2], row[3]): row[4] for row in moved}
        messages = advancing.unsent(reached, {(*row,) for row in settled})
        if messages:
            advancing.sent(await self._messages.send(tables, changes, messages, whole=True))

    async def _enter(self, tables: Tables, changes: Changes, tasks: Sequence[Dated]) -> list[Outcome]:
        answers = await enter_tasks(tables, changes, self._statuses, tasks)
        return [answer.created if isinstance(answer, Submitted) else answer for answer in answers]

    async def _enter_one_by_one(
        self, tables: Tables, changes: Changes, tasks: Sequence[Dated]
    ) -> list[Outcome]:
        return [await self._enter_alone(tables, changes, one) for one in tasks]

    async def _enter_alone(self, tables: Tables, changes: Changes, one: Dated) -> Outcome:
        await tables.connection.execute("SAVEPOINT task")
        try:
            [outcome] = await self._enter(tables, changes, [one])
        except REFUSALS as error:
            await tables.connection.execute("ROLLBACK TO task")
            return unfit(one[0], error)
        await tables.connection.execute("RELEASE task")
        return outcome

    async def _set_aside(
        self, tables: Tables, group: Group, aside: Sequence[Aside], *, limit: int
    ) -> list[NewAlert]:
        """The alert that is new, if there is one."""
        # Others of the group wait for our commit: what is counted here stays true until then.
        await tables.run("one_at_a_time", name=f"{self._quarantine} {group.stream}/{group.name}")
        rows = [SHAPE.quarantined_row(group, new, at) for new, at in aside]
        if not await tables.run_rows("set_aside", rows):
            return []  # All of it was said before.
        [[number]] = await tables.run(
            "count_quarantined", counted=limit + 1, stream=group.stream, grp=group.name
        )
        check_room(group, number, limit=limit)
        return await call_once(tables, [quarantine_alert(group, aside)], aside[0][1])
