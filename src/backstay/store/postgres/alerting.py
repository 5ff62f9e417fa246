"""What PostgreSQL keeps of alerts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay.domain.alert import AlertKind, Delivery, NewAlert, Undelivered
from backstay.domain.lease import Leader
from backstay.store.base import Changes
from backstay.store.postgres.messages import call_once
from backstay.store.postgres.session import Session
from backstay.store.postgres.supervision import PostgresSupervision
from backstay.store.postgres.tables import SHAPE, Tables


class PostgresAlerting:
    """The verbs of alerts in a database."""

    def __init__(self, session: Callable[[], Session], supervision: PostgresSupervision) -> None:
        self._session = session
        self._supervision = supervision

    async def call(
        self, alerts: Sequence[NewAlert], *, now: datetime, leader: Leader | None = None
    ) -> list[NewAlert]:
        # In one order, so that no two who call for the same wait for each other.
        ordered = sorted(alerts, key=lambda one: (one.target, one.kind, one.step or ""))

        async def operation(tables: Tables, _changes: Changes) -> list[NewAlert]:
            return await call_once(tables, ordered, now)

        if leader is None:
            return await self._session().write(operation)
        return await self._supervision.fenced(leader, now, operation)

    async def undelivered(
        self, sink: str, *, since: datetime, now: datetime, limit: int
    ) -> list[Undelivered]:
        async def look(tables: Tables) -> list[Undelivered]:
            rows = await tables.run("undelivered", sink=sink, since=since, now=now, limit=limit)
            return [SHAPE.undelivered(row) for row in rows]

        return await self._session().read(look)

    async def delivered(
        self, leader: Leader, deliveries: Sequence[Delivery], *, sinks: Sequence[str], now: datetime
    ) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            await tables.run_rows("put_delivery", [SHAPE.delivery_row(one) for one in deliveries])
            ids = [one.alert_id for one in deliveries]
            await tables.run("tell_alerts", ids=ids, sinks=sinks, now=now)

        await self._supervision.fenced(leader, now, operation)

    async def give_up(self, leader: Leader, *, since: datetime, limit: int, now: datetime) -> int:
        async def operation(tables: Tables, _changes: Changes) -> int:
            return len(await tables.run("give_up_telling", since=since, limit=limit, now=now))

        return await self._supervision.fenced(leader, now, operation)

    async def forget(self, leader: Leader, *, keep: int, limit: int, now: datetime) -> tuple[int, int]:
        async def operation(tables: Tables, _changes: Changes) -> tuple[int, int]:
            [[number]] = await tables.run("count_alerts")
            if number <= keep:
                return 0, 0
            gone = await tables.run("forget_alerts", limit=min(number - keep, limit))
            await tables.run("forget_deliveries", ids=[alert_id for alert_id, _ in gone])
            return len(gone), sum(is_open for _, is_open in gone)

        return await self._supervision.fenced(leader, now, operation)

    async def open_alerts(self, *, counted: int) -> dict[AlertKind, int]:
        async def look(tables: Tables) -> dict[AlertKind, int]:
            rows = await tables.run("count_open_alerts", counted=counted)
            return {AlertKind(kind): number for kind, number in rows}

        return await self._session().read(look)
