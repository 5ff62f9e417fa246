"""How PostgreSQL carries requests to agents in other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from backstay.domain.lease import Owner
from backstay.domain.request import Reference, RequestStanding
from backstay.store.base import Changes
from backstay.store.postgres.lane import FOREVER
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.requests import Answered, Taken
from backstay.store.rows import Row

_row = msgspec.structs.astuple


class PostgresRequests:
    """The verbs for requests on a database that many hosts share: its clock says how much time remains."""

    def __init__(self, session: Callable[[], Session], *, judged: Judged) -> None:
        self._session = session
        self._judged = judged

    # For agent hosts

    async def waiting(self, agents: Sequence[str], *, now: datetime) -> bool:
        async def look(tables: Tables) -> bool:
            [[waits]] = await tables.run("requests_wait", agents=list(agents), now=self._judged(now))
            return bool(waits)

        return await self._session().read(look)

    async def claim(self, owner: Owner, room: Mapping[str, int], *, now: datetime) -> list[Taken]:
        async def operation(tables: Tables, _changes: Changes) -> list[Row]:
            await tables.check_epoch(owner)
            return await tables.run(
                "claim_requests",
                owner=owner.id,
                agents=list(room),
                rooms=list(room.values()),
                now=self._judged(now),
            )

        # What was claimed must not stay in doubt: nobody would begin it before its complete-by.
        rows = await self._session().write(operation, patience=FOREVER)
        # RETURNING promises no order.
        return [
            Taken(
                reference=Reference(task_key, step, undo, attempt),
                body=body.encode(),
                remaining_seconds=remaining,
            )
            for _, task_key, step, undo, attempt, body, remaining in sorted(rows, key=lambda row: row[0])
        ]

    async def answer(self, answers: Sequence[Answered], *, now: datetime) -> list[bool]:  # noqa: ARG002
        texts = [None if one.reply is None else one.reply.decode() for one in answers]
        given = [(*_row(one.reference), text) for one, text in zip(answers, texts, strict=True)]

        async def operation(tables: Tables, changes: Changes) -> dict[Reference, bool]:
            found = await tables.run_rows("answer_requests", given)
            changes.replied += [row[0] for row in found]
            return {Reference(*row[:4]): row[4] for row in found}

        taken = await self._session().write(operation)
        return [taken.get(one.reference, False) for one in answers]

    async def release(self, owner: Owner, references: Sequence[Reference]) -> None:
        async def operation(tables: Tables, changes: Changes) -> None:
            rows = [(*_row(one), owner.id) for one in references]
            changes.requests = bool(await tables.run_rows("release_requests", rows))

        await self._session().write(operation)

    async def held(self, owner: Owner) -> list[RequestStanding]:
        return await self._session().read(lambda tables: tables.requests("held_requests", owner=owner.id))

    # For schedulers

    async def standing(self, task_keys: Sequence[int]) -> list[RequestStanding]:
        return await self._session().read(lambda tables: tables.requests("requests_of", keys=list(task_keys)))

    async def withdraw(
        self,
        owner: Owner,
        references: Sequence[Reference],
        *,
        now: datetime,  # noqa: ARG002  Nobody is late here.
    ) -> dict[Reference, RequestStanding]:
        async def operation(tables: Tables, changes: Changes) -> dict[Reference, RequestStanding]:
            await tables.check_epoch(owner)
            locks = await tables.locks(sorted({one.task_key for one in references}))
            ours = [one for one in references if locks.get(one.task_key, (None, 0))[0] == owner.id]
            found = await tables.lock_requests(ours)
            await tables.close_requests([one.reference for one in found if one.reply is None], changes)
            return {one.reference: one for one in found}

        return await self._session().write(operation)
