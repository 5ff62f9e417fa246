"""What SQLite keeps of alerts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay.domain.alert import AlertKind, Delivery, NewAlert, Undelivered
from backstay.domain.instants import micros
from backstay.domain.lease import Leader
from backstay.store.base import Changes
from backstay.store.rows import as_json
from backstay.store.sqlite.messages import call_once
from backstay.store.sqlite.rows import SHAPE
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.supervision import SqliteSupervision
from backstay.store.sqlite.tables import Tables


class SqliteAlerting:
    """The verbs of alerts on one file."""

    def __init__(self, session: Callable[[], Session], supervision: SqliteSupervision) -> None:
        self._session = session
        self._supervision = supervision

    async def call(
        self, alerts: Sequence[NewAlert], *, now: datetime, leader: Leader | None = None
    ) -> list[NewAlert]:
        def operation(tables: Tables, _changes: Changes) -> list[NewAlert]:
            return call_once(tables, alerts, now)

        if leader is None:
            return await self._session().write(operation)
        return await self._supervision.fenced(leader, now, operation)

    async def undelivered(
        self, sink: str, *, since: datetime, now: datetime, limit: int
    ) -> list[Undelivered]:
        wanted = {"sink": sink, "since": micros(since), "now": micros(now), "limit": limit}

        def look(tables: Tables) -> list[Undelivered]:
            return [SHAPE.undelivered(row) for row in tables.run("undelivered", **wanted)]

        return await self._session().read(look)

    async def delivered(
        self, leader: Leader, deliveries: Sequence[Delivery], *, sinks: Sequence[str], now: datetime
    ) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            tables.run_many("put_delivery", [SHAPE.delivery_row(one) for one in deliveries])
            ids = as_json([one.alert_id for one in deliveries])
            tables.run("tell_alerts", ids=ids, sinks=as_json(sinks), now=micros(now))

        await self._supervision.fenced(leader, now, operation)

    async def give_up(self, leader: Leader, *, since: datetime, limit: int, now: datetime) -> int:
        def operation(tables: Tables, _changes: Changes) -> int:
            values = {"since": micros(since), "limit": limit, "now": micros(now)}
            return tables.run("give_up_telling", **values).rowcount

        return await self._supervision.fenced(leader, now, operation)

    async def forget(self, leader: Leader, *, keep: int, limit: int, now: datetime) -> tuple[int, int]:
        def operation(tables: Tables, _changes: Changes) -> tuple[int, int]:
            excess = tables.run("count_alerts").fetchone()[0] - keep
            if excess <= 0:
                return 0, 0
            gone = tables.run("forget_alerts", limit=min(excess, limit)).fetchall()
            tables.run("forget_deliveries", ids=as_json([alert_id for alert_id, _ in gone]))
            return len(gone), sum(is_open for _, is_open in gone)

        return await self._supervision.fenced(leader, now, operation)

    async def open_alerts(self, *, counted: int) -> dict[AlertKind, int]:
        def look(tables: Tables) -> dict[AlertKind, int]:
            rows = tables.run("count_open_alerts", counted=counted)
            return {AlertKind(kind): number for kind, number in rows}

        return await self._session().read(look)
