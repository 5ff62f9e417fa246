"""Tells submitters what became of their tasks, in the transaction of what it tells of.

Only tasks with a ``reply_to`` come here, and those that failed and have somebody to tell; all others go
their way without a look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from backstay.domain.status import (
    Correspondent,
    Destination,
    Notice,
    changed_by_operator,
    destination,
    first_notice,
    nowhere,
    written_by_run,
)
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, InvalidInput
from backstay.store.base import Changes
from backstay.store.commit import Rows
from backstay.store.postgres.connection import REFUSALS
from backstay.store.postgres.messages import Asked, Messages, places
from backstay.store.postgres.tables import Tables
from backstay.store.posting import Dated
from backstay.store.telling import as_correspondents, in_session, not_told, told_of


class Statuses:
    """What is told to submitters, in one schema."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    async def missing(self, tables: Asked, tasks: Iterable[NewTask]) -> dict[Destination, BackstayError]:
        """Where submitters want to be told that is not there, and what there is to say of it."""
        wanted = {destination(new.reply_to): new.reply_to for new in tasks if new.reply_to is not None}
        if not wanted:
            return {}
        there = await places(tables, wanted)
        return {one: nowhere(reply_to) for one, reply_to in wanted.items() if one not in there}

    async def tell_of_entry(
        self, tables: Asked, changes: Changes, entered: Sequence[tuple[int, NewTask, datetime]]
    ) -> None:
        """Tell that tasks were received; theirs are keys, and instants, of what was just entered."""
        news = [first_notice(key, new, at) for key, new, at in entered if new.reply_to is not None]
        if news:
            await self._put(tables, changes, news, [])

    async def correspondents(self, tables: Tables, keys: Sequence[int]) -> dict[int, Correspondent]:
        """How those of these tasks stand whose submitters want to be told, before anything is written."""
        return as_correspondents(await tables.run("correspondents", keys=keys)) if keys else {}

    async def tell_of_rows(
        self, tables: Tables, changes: Changes, known: dict[int, Correspondent], rows: Rows
    ) -> None:
        """Tell what runs wrote, given how their tasks stood before, and send what goes with it."""
        news = [
            notice
            for key, one in known.items()
            for notice in written_by_run(one, rows.tasks.get(key), at=rows.replying[key])
        ]
        await self._tell(tables, changes, news, rows.messages)

    async def tell_of_amendment(
        self, tables: Tables, changes: Changes, known: dict[int, Correspondent], after: TaskRecord
    ) -> None:
        """Tell what somebody changed from outside."""
        news = [one for before in known.values() for one in changed_by_operator(before, after)]
        await self._tell(tables, changes, news, [])

    async def _tell(
        self, tables: Tables, changes: Changes, news: Sequence[Notice], messages: Sequence[Dated]
    ) -> None:
        """Whatever is wrong with a message must not hold up the task that it tells of."""
        if not (news or messages):
            return
        await tables.connection.execute("SAVEPOINT status")
        try:
            await self._put(tables, changes, news, messages)
        except REFUSALS as error:
            await tables.connection.execute("ROLLBACK TO status")
            for dated in told_of(news, messages):
                not_told(dated, error)
        await tables.connection.execute("RELEASE status")

    async def _put(
        self, tables: Asked, changes: Changes, news: Sequence[Notice], messages: Sequence[Dated]
    ) -> None:
        # Of each task the last: a statement may change a row once.
        last = {one.key: one for one in news}
        if last:
            await tables.run(
                "put_told",
                task_keys=[*last],
                statuses=[one.status.value for one in last.values()],
                sequences=[one.sequence for one in last.values()],
            )
        sending = told_of(news, messages)
        answers = await self._messages.send(tables, changes, sending)
        again = [
            one for one, answer in zip(sending, answers, strict=True) if isinstance(answer, InvalidInput)
        ]
        if again:
            answers = await self._messages.send(tables, changes, [in_session(one) for one in again])
        for one, answer in zip(again or sending, answers, strict=True):
            if isinstance(answer, BackstayError):
                not_told(one, answer)
