"""How a file stays small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.instants import micros
from backstay.domain.lease import Leader
from backstay.errors import LeaseLost
from backstay.store.base import Changes
from backstay.store.retention import BELONGINGS, LOOKS, Kept, Outlived, outlived
from backstay.store.rows import as_json
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class SqliteRetention:
    """The verbs of ``store.retention`` on one file."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def outlived(self, kind: Kept, *, before: datetime, after: int, limit: int) -> Outlived:
        def look(tables: Tables) -> Outlived:
            rows = tables.run(LOOKS[kind], before=micros(before), after=after, limit=limit).fetchall()
            return outlived(rows, before=micros(before), limit=limit)

        return await self._session().read(look)

    async def prune(
        self, kind: Kept, keys: Sequence[int], *, before: datetime, leader: Leader | None, now: datetime
    ) -> int:
        def operation(tables: Tables, _changes: Changes) -> int:
            if leader is not None:
                _check_leads(tables, leader, now)
            if kind is Kept.ALERTS:
                return _prune_alerts(tables, keys, before)
            return _prune_tasks(tables, keys, before)

        return await self._session().write(operation)

    async def record_pruning(self, act: Act, *, before: datetime, now: datetime) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            tables.record(act, now, before={}, after={"ended_before": before.isoformat()})

        await self._session().write(operation)


def _check_leads(tables: Tables, leader: Leader, now: datetime) -> None:
    """The write lock keeps true until the commit what is found here."""
    found = tables.run("leads", holder=leader.holder, epoch=leader.epoch, now=micros(now))
    if found.fetchone() is None:
        raise LeaseLost("the lead of the supervisors", str(leader.holder))


def _prune_alerts(tables: Tables, keys: Sequence[int], before: datetime) -> int:
    gone = tables.run("prune_alerts", keys=as_json(keys), before=micros(before)).fetchall()
    tables.run("forget_deliveries", ids=as_json([key for (key,) in gone]))
    return len(gone)


def _prune_tasks(tables: Tables, keys: Sequence[int], before: datetime) -> int:
    found = tables.run("outlived_tasks", keys=as_json(keys), before=micros(before)).fetchall()
    going = as_json([key for (key,) in found])
    for query in BELONGINGS:
        tables.run(query, keys=going)
    tables.run("prune_tasks", keys=going)
    return len(found)
