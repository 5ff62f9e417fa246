"""How a database stays small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.lease import Leader
from backstay.errors import LeaseLost
from backstay.store.base import Changes
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.retention import BELONGINGS, LOOKS, Kept, Outlived, outlived


class PostgresRetention:
    """The verbs of ``store.retention`` on a database that many hosts share."""

    def __init__(self, session: Callable[[], Session], *, judged: Judged) -> None:
        self._session = session
        self._judged = judged

    async def outlived(self, kind: Kept, *, before: datetime, after: int, limit: int) -> Outlived:
        async def look(tables: Tables) -> Outlived:
            rows = await tables.run(LOOKS[kind], before=before, after=after, limit=limit)
            return outlived(rows, before=before, limit=limit)

        return await self._session().read(look)

    async def prune(
        self, kind: Kept, keys: Sequence[int], *, before: datetime, leader: Leader | None, now: datetime
    ) -> int:
        async def operation(tables: Tables, _changes: Changes) -> int:
            if leader is not None:
                await self._check_leads(tables, leader, now)
            if kind is Kept.ALERTS:
                return await _prune_alerts(tables, keys, before)
            return await _prune_tasks(tables, keys, before)

        return await self._session().write(operation)

    async def record_pruning(self, act: Act, *, before: datetime, now: datetime) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            await tables.record(act, now, before={}, after={"ended_before": before.isoformat()})

        await self._session().write(operation)

    async def _check_leads(self, tables: Tables, leader: Leader, now: datetime) -> None:
        """A lock on the leader's row keeps true until the commit what is found here."""
        leads = await tables.run("leads", holder=leader.holder, epoch=leader.epoch, now=self._judged(now))
        if not leads:
            raise LeaseLost("the lead of the supervisors", str(leader.holder))


async def _prune_alerts(tables: Tables, keys: Sequence[int], before: datetime) -> int:
    gone = [row[0] for row in await tables.run("prune_alerts", keys=keys, before=before)]
    await tables.run("forget_deliveries", ids=gone)
    return len(gone)


async def _prune_tasks(tables: Tables, keys: Sequence[int], before: datetime) -> int:
    going = [row[0] for row in await tables.run("outlived_tasks", keys=keys, before=before)]
    for query in BELONGINGS:
        await tables.run(query, keys=going)
    await tables.run("prune_tasks", keys=going)
    return len(going)
