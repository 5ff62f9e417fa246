"""How SQLite carries requests to agents in other processes of the same machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from backstay.domain.instants import micros
from backstay.domain.lease import Owner
from backstay.domain.request import Reference, RequestStanding
from backstay.store.base import Changes
from backstay.store.requests import Answered, Taken
from backstay.store.rows import as_json
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables

_MICROS_PER_SECOND = 1_000_000


class SqliteRequests:
    """The verbs for requests on one file."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    # For agent hosts

    async def waiting(self, agents: Sequence[str], *, now: datetime) -> bool:
        def look(tables: Tables) -> bool:
            [waits] = tables.run("requests_wait", agents=as_json(agents), now=micros(now)).fetchone()
            return bool(waits)

        return await self._session().read(look)

    async def claim(self, owner: Owner, room: Mapping[str, int], *, now: datetime) -> list[Taken]:
        at = micros(now)
        self._session().writer.attend()

        def operation(tables: Tables, _changes: Changes) -> list[Taken]:
            tables.check_epoch(owner)
            rows = [
                row
                for agent, number in room.items()
                for row in tables.run("claim_requests", owner=owner.id, agent=agent, room=number, now=at)
            ]
            return [
                Taken(
                    reference=Reference(task_key, step, bool(undo), attempt),
                    body=body.encode(),
                    remaining_seconds=(complete_by - at) / _MICROS_PER_SECOND,
                )
                for _, task_key, step, undo, attempt, body, complete_by in sorted(rows)
            ]

        return await self._session().write(operation)

    async def answer(self, answers: Sequence[Answered], *, now: datetime) -> list[bool]:  # noqa: ARG002
        def operation(tables: Tables, changes: Changes) -> list[bool]:
            return [_answered(tables, changes, one) for one in answers]

        self._session().writer.attend()
        return await self._session().write(operation)

    async def release(self, owner: Owner, references: Sequence[Reference]) -> None:
        def operation(tables: Tables, changes: Changes) -> None:
            for one in references:
                tables.run("release_requests", owner=owner.id, **_named(one))
            changes.requests = True

        await self._session().write(operation)

    async def held(self, owner: Owner) -> list[RequestStanding]:
        return await self._session().read(lambda tables: tables.requests("held_requests", owner=owner.id))

    # For schedulers

    async def standing(self, task_keys: Sequence[int]) -> list[RequestStanding]:
        self._session().writer.attend()
        return await self._session().read(
            lambda tables: tables.requests("requests_of", keys=as_json(task_keys))
        )

    async def withdraw(
        self,
        owner: Owner,
        references: Sequence[Reference],
        *,
        now: datetime,  # noqa: ARG002  Nobody is late here.
    ) -> dict[Reference, RequestStanding]:
        def operation(tables: Tables, changes: Changes) -> dict[Reference, RequestStanding]:
            tables.check_epoch(owner)
            locks = tables.locks(sorted({one.task_key for one in references}))
            ours = [one for one in references if locks.get(one.task_key, (None, 0))[0] == owner.id]
            found = {one: _withdrawn(tables, changes, one) for one in ours}
            return {one: standing for one, standing in found.items() if standing is not None}

        return await self._session().write(operation)


def _answered(tables: Tables, changes: Changes, one: Answered) -> bool:
    """Whether the answer was in time to change anything."""
    found = tables.request(one.reference)
    if found is None or found.reply is not None:
        return False
    changes.replied.append(one.reference.task_key)
    if found.withdrawn:
        tables.run("remove_request", task_key=one.reference.task_key, step=one.reference.step)
        return False
    if one.reply is None:
        return False
    tables.run("put_reply", reply=one.reply.decode(), **_named(one.reference))
    return True


def _withdrawn(tables: Tables, changes: Changes, reference: Reference) -> RequestStanding | None:
    """How a request stood before it was withdrawn, if that was to be done."""
    found = tables.request(reference)
    if found is None or found.reply is not None:
        return found
    if found.claimed_by is None or found.broken_off is not None:
        tables.run("remove_request", task_key=reference.task_key, step=reference.step)
    else:
        tables.run("withdraw_request", task_key=reference.task_key, step=reference.step)
        changes.withdrawn = True
    return found


def _named(reference: Reference) -> dict[str, Any]:
    return msgspec.structs.asdict(reference)
