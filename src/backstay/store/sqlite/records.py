"""What SQLite keeps for operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from backstay.domain.access import Token
from backstay.domain.alert import Alert
from backstay.domain.audit import Act, Entry
from backstay.domain.control import Control, Subject, agent_goes_on, is_forgiven
from backstay.domain.control import facts as control_facts
from backstay.domain.instants import micros
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
from backstay.store.records import AlertFilter, AuditFilter, Regulate, Remembered, TaskNumber
from backstay.store.sqlite.rows import SHAPE
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class SqliteRecords:
    """Controls, alerts, the audit trail, tokens and idempotency keys in one file."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    # Controls

    async def controls(self) -> list[Control]:
        return await self._session().read(
            lambda tables: [SHAPE.control(row) for row in tables.run("list_controls")]
        )

    async def regulate(
        self, subject: Subject, name: str, change: Regulate, act: Act, *, now: datetime
    ) -> Control:
        def operation(tables: Tables, changes: Changes) -> Control:
            before = tables.control(subject, name)
            after = change(before)
            put_control(tables, changes, before, after, act, now=now)
            return after

        return await self._session().write(operation)

    async def call_for(self, agent: str, *, now: datetime) -> None:
        await self._session().write(lambda tables, _changes: _call_for(tables, agent, now))

    # Numbers

    async def task_numbers(self, *, counted: int, now: datetime) -> list[TaskNumber]:
        def look(tables: Tables) -> list[TaskNumber]:
            rows = tables.run("task_numbers", counted=counted, now=micros(now))
            return [SHAPE.task_number(row) for row in rows]

        return await self._session().read(look)

    # Alerts and the trail

    async def alerts(self, wanted: AlertFilter) -> list[Alert]:
        query, values = alert_listing(wanted)
        return await self._session().read(
            lambda tables: [SHAPE.alert(row) for row in tables.run(query, **values)]
        )

    async def acknowledge(self, alert_id: int, act: Act, *, now: datetime) -> Alert:
        check_alert_id(alert_id)

        def operation(tables: Tables, _changes: Changes) -> Alert:
            row = tables.run("alert_of", alert_id=alert_id).fetchone()
            if row is None:
                raise UnknownAlert(alert_id)
            before = SHAPE.alert(row)
            if before.acknowledged_at is not None:
                return before
            after = SHAPE.alert(
                tables.run("acknowledge", alert_id=alert_id, by=act.who, now=micros(now)).fetchone()
            )
            tables.record(act, now, before=alert_facts(before), after=alert_facts(after))
            return after

        return await self._session().write(operation)

    async def audit(self, wanted: AuditFilter) -> list[Entry]:
        query, values = audit_listing(wanted)
        return await self._session().read(
            lambda tables: [SHAPE.entry(row) for row in tables.run(query, **values)]
        )

    # Tokens

    async def tokens(self) -> list[Token]:
        return await self._session().read(
            lambda tables: [SHAPE.token(row) for row in tables.run("list_tokens")]
        )

    async def add_token(self, token: Token, act: Act, *, now: datetime) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            if tables.run("insert_token", **SHAPE.token_values(token)).fetchone() is None:
                raise Conflict(f"there is or was a token {token.name!r}; choose another name")
            [count] = tables.run("count_tokens").fetchone()
            check_room_for_token(count)
            tables.record(act, now, before=None, after=token_facts(token))

        await self._session().write(operation)

    async def revoke_token(self, name: str, act: Act, *, now: datetime) -> Token:
        def operation(tables: Tables, _changes: Changes) -> Token:
            row = tables.run("token_of", name=name).fetchone()
            if row is None:
                raise UnknownToken(name)
            before = SHAPE.token(row)
            if before.revoked_at is not None:
                return before
            after = SHAPE.token(tables.run("revoke_token", name=name, now=micros(now)).fetchone())
            tables.record(act, now, before=token_facts(before), after=token_facts(after))
            return after

        return await self._session().write(operation)

    # Idempotency keys

    async def remember(self, key: str, meant: Remembered, *, keep: timedelta, now: datetime) -> Remembered:
        def operation(tables: Tables, _changes: Changes) -> Remembered:
            expired = micros(now - keep)
            tables.run("forget_keys", before=expired, limit=FORGOTTEN_PER_ROW)
            used = tables.run(
                "remember_key",
                key=key,
                digest=meant.digest,
                task_id=meant.task_id,
                before=expired,
                now=micros(now),
            ).fetchone()
            digest, task_id = used or tables.run("remembered_key", key=key).fetchone()
            return Remembered(digest=digest, task_id=task_id)

        return await self._session().write(operation)

    async def forget(self, key: str, meant: Remembered) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            tables.run("forget_key", key=key, digest=meant.digest, task_id=meant.task_id)

        await self._session().write(operation)


def put_control(
    tables: Tables, changes: Changes, before: Control | None, after: Control, act: Act, *, now: datetime
) -> None:
    """Let ``after`` be in force from the commit on, and stand in the audit trail with it."""
    if after.idle:
        tables.run("drop_control", subject=after.subject, name=after.name)
    else:
        tables.run("put_control", **SHAPE.control_values(after))
    tables.record(act, now, before=control_facts(before), after=control_facts(after))
    regulated(before, after, changes)
    if is_forgiven(before, after):
        tables.run("forgive", subject=after.subject, name=after.name)
        tables.take_up(act, now)
    if agent_goes_on(before, after):
        _call_for(tables, after.name, now)


def _call_for(tables: Tables, agent: str, now: datetime) -> None:
    tables.run("call_for_agent", agent=agent, now=micros(now), limit=CALLED_MAX)
