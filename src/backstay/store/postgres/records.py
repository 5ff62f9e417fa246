"""What PostgreSQL keeps for operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from backstay.domain.access import Token
from backstay.domain.alert import Alert
from backstay.domain.audit import Act, Entry
from backstay.domain.control import Control, Subject, agent_goes_on, is_forgiven
from backstay.domain.control import facts as control_facts
from backstay.errors import Conflict, UnknownAlert, UnknownToken
from backstay.store.base import Changes
from backstay.store.decisions import (
    CALLED_MAX,
    FORGOTTEN_PER_ROW,
    alert_facts,
    alert_listing,
    audit_listing,
    check_alert_id,
    check_room_for_token,
    regulated,
    token_facts,
)
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import SHAPE, Judged, Tables
from backstay.store.records import AlertFilter, AuditFilter, Regulate, Remembered, TaskNumber


class PostgresRecords:
    """Controls, alerts, the audit trail, tokens and idempotency keys in a database."""

    def __init__(
        self,
        session: Callable[[], Session],
        *,
        schema: str,
        judged: Judged,
    ) -> None:
        self._session = session
        self._schema = schema
        self._judged = judged

    # Controls

    async def controls(self) -> list[Control]:
        async def look(tables: Tables) -> list[Control]:
            return [SHAPE.control(row) for row in await tables.run("list_controls")]

        return await self._session().read(look)

    async def regulate(
        self, subject: Subject, name: str, change: Regulate, act: Act, *, now: datetime
    ) -> Control:
        async def operation(tables: Tables, changes: Changes) -> Control:
            before = await self.locked_control(tables, subject, name)
            after = change(before)
            await self.put_control(tables, changes, before, after, act, now=now)
            return after

        return await self._session().write(operation)

    async def locked_control(self, tables: Tables, subject: Subject, name: str) -> Control | None:
        """The control in force, or that there is none; nobody else changes that before the commit."""
        # A row that is not there cannot be locked.
        await self._alone(tables, f"{subject} {name}")
        rows = await tables.run("control_of", subject=subject, name=name)
        return SHAPE.control(rows[0]) if rows else None

    async def put_control(
        self,
        tables: Tables,
        changes: Changes,
        before: Control | None,
        after: Control,
        act: Act,
        *,
        now: datetime,
    ) -> None:
        """Let ``after`` be in force from the commit on, and stand in the audit trail with it."""
        if after.idle:
            await tables.run("drop_control", subject=after.subject, name=after.name)
        else:
            await tables.run("put_control", **SHAPE.control_values(after))
        await tables.record(act, now, before=control_facts(before), after=control_facts(after))
        regulated(before, after, changes)
        if is_forgiven(before, after):
            await tables.run("forgive", subject=after.subject, name=after.name)
            await tables.take_up(act, now)
        if agent_goes_on(before, after):
            await self._call_for(tables, after.name, now)

    async def call_for(self, agent: str, *, now: datetime) -> None:
        await self._session().write(lambda tables, _changes: self._call_for(tables, agent, now))

    async def _call_for(self, tables: Tables, agent: str, now: datetime) -> None:
        await tables.run("call_for_agent", agent=agent, now=self._judged(now), limit=CALLED_MAX)

    # Numbers

    async def task_numbers(self, *, counted: int, now: datetime) -> list[TaskNumber]:
        async def look(tables: Tables) -> list[TaskNumber]:
            rows = await tables.run("task_numbers", counted=counted, now=now)
            return [SHAPE.task_number(row) for row in rows]

        return await self._session().read(look)

    # Alerts and the trail

    async def alerts(self, wanted: AlertFilter) -> list[Alert]:
        query, values = alert_listing(wanted)

        async def look(tables: Tables) -> list[Alert]:
            return [SHAPE.alert(row) for row in await tables.run(query, **values)]

        return await self._session().read(look)

    async def acknowledge(self, alert_id: int, act: Act, *, now: datetime) -> Alert:
        check_alert_id(alert_id)

        async def operation(tables: Tables, _changes: Changes) -> Alert:
            found = await tables.run("alert_of", alert_id=alert_id)
            if not found:
                raise UnknownAlert(alert_id)
            before = SHAPE.alert(found[0])
            if before.acknowledged_at is not None:
                return before
            [row] = await tables.run("acknowledge", alert_id=alert_id, by=act.who, now=now)
            after = SHAPE.alert(row)
            await tables.record(act, now, before=alert_facts(before), after=alert_facts(after))
            return after

        return await self._session().write(operation)

    async def audit(self, wanted: AuditFilter) -> list[Entry]:
        query, values = audit_listing(wanted)

        async def look(tables: Tables) -> list[Entry]:
            return [SHAPE.entry(row) for row in await tables.run(query, **values)]

        return await self._session().read(look)

    # Tokens

    async def tokens(self) -> list[Token]:
        async def look(tables: Tables) -> list[Token]:
            return [SHAPE.token(row) for row in await tables.run("list_tokens")]

        return await self._session().read(look)

    async def add_token(self, token: Token, act: Act, *, now: datetime) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            await self._alone(tables, "tokens")  # or two could both find room for one
            if not await tables.run("insert_token", **SHAPE.token_values(token)):
                raise Conflict(f"there is or was a token {token.name!r}; choose another name")
            [[count]] = await tables.run("count_tokens")
            check_room_for_token(count)
            await tables.record(act, now, before=None, after=token_facts(token))

        await self._session().write(operation)

    async def revoke_token(self, name: str, act: Act, *, now: datetime) -> Token:
        async def operation(tables: Tables, _changes: Changes) -> Token:
            found = await tables.run("token_of", name=name)
            if not found:
                raise UnknownToken(name)
            before = SHAPE.token(found[0])
            if before.revoked_at is not None:
                return before
            [row] = await tables.run("revoke_token", name=name, now=now)
            after = SHAPE.token(row)
            await tables.record(act, now, before=token_facts(before), after=token_facts(after))
            return after

        return await self._session().write(operation)

    # Idempotency keys

    async def remember(self, key: str, meant: Remembered, *, keep: timedelta, now: datetime) -> Remembered:
        async def operation(tables: Tables, _changes: Changes) -> Remembered:
            judged = self._judged(now)
            await tables.run("forget_keys", keep=keep, limit=FORGOTTEN_PER_ROW, now=judged)
            used = await tables.run(
                "remember_key", key=key, digest=meant.digest, task_id=meant.task_id, keep=keep, now=judged
            )
            [[digest, task_id]] = used or await tables.run("remembered_key", key=key)
            return Remembered(digest=digest, task_id=task_id)

        return await self._session().write(operation)

    async def forget(self, key: str, meant: Remembered) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            await tables.run("forget_key", key=key, digest=meant.digest, task_id=meant.task_id)

        await self._session().write(operation)

    # Underneath

    async def _alone(self, tables: Tables, what: str) -> None:
        """Wait until nobody else is about to change ``what``, and keep others waiting until the commit."""
        await tables.run("one_at_a_time", name=f"backstay {self._schema} {what}")
