"""The store's tables, looked at, held and changed past the store; and a commit that waits for a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from backstay.store.postgres import PostgresStore
from backstay.store.postgres.tables import Tables
from tests.support.running import eventually

OpenStore = Callable[..., Awaitable[PostgresStore]]
Row = tuple[Any, ...]

#: How the connections of stores call themselves, so that nobody else's are counted or ended.
STORE = "store"

# Waits at the end of a transaction, for as long as somebody holds this number.
_SLOW_COMMIT = """
CREATE FUNCTION {schema}.wait_for_the_test() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared({number}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT OR UPDATE ON {schema}.{table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.wait_for_the_test();
"""


class Schema:
    """One connection past all stores. In its queries ``{schema}`` is the schema of the test."""

    def __init__(self, connection: asyncpg.Connection, name: str) -> None:
        self.connection = connection
        self.name = name

    async def rows(self, query: str, *values: Any) -> list[Row]:
        found = await self.connection.fetch(query.replace("{schema}", self.name), *values)
        return [tuple(row) for row in found]

    async def value(self, query: str, *values: Any) -> Any:
        [[value]] = await self.rows(query, *values)
        return value

    async def execute(self, script: str) -> None:
        await self.connection.execute(script.replace("{schema}", self.name))

    async def held_by_the_dead(self) -> list[Row]:
        """Tasks whose holder lives no more; there must never be any."""
        return await self.rows(
            "SELECT task.id, task.locked_by FROM {schema}.task LEFT JOIN {schema}.instance"
            "    ON instance.id = task.locked_by AND instance.live"
            " WHERE task.locked_by IS NOT NULL AND instance.id IS NULL"
        )

    async def states(self) -> dict[str, int]:
        """How many tasks are in which state."""
        return dict(await self.rows("SELECT state, count(*) FROM {schema}.task GROUP BY state"))

    @asynccontextmanager
    async def holding(self, *task_ids: str) -> AsyncIterator[None]:
        """Hold the rows of these tasks locked meanwhile."""
        async with self.connection.transaction():
            await self.rows("SELECT 1 FROM {schema}.task WHERE id = ANY ($1) FOR UPDATE", list(task_ids))
            yield

    @asynccontextmanager
    async def slow_commits(self, table: str) -> AsyncIterator[None]:
        """Whoever commits a change of ``table`` meanwhile stays inside its COMMIT."""
        number = hash(self.name) % 2**31
        await self.connection.execute(_SLOW_COMMIT.format(schema=self.name, table=table, number=number))
        await self.rows("SELECT pg_advisory_lock($1)", number)
        try:
            yield
        finally:
            await self.rows("SELECT pg_advisory_unlock($1)", number)

    async def inside_commit(self) -> list[int]:
        """The backends that are inside a COMMIT now."""
        found = await self.rows(
            "SELECT pid FROM pg_stat_activity"
            " WHERE state = 'active' AND wait_event_type = 'Lock' AND query = 'COMMIT'"
        )
        return [pid for [pid] in found]

    async def one_inside_commit(self, *, after: int | None = None) -> int:
        """The backend that comes to stand inside its COMMIT, another one than that of before."""
        [pid] = await eventually(
            self.inside_commit, lambda found: len(found) == 1 and found != [after], what="a slow commit"
        )
        return pid

    async def waits_for_a_lock(self, text: str) -> None:
        """Come back once a statement with ``text`` in it waits for a lock."""

        async def waiting() -> int:
            await self.rows("SELECT pg_stat_clear_snapshot()")  # or a transaction sees what it saw before
            found = await self.value(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND position($1 in query) > 0",
                text.replace("{schema}", self.name),
            )
            return int(found)

        await eventually(waiting, lambda number: number > 0, what=f"{text} waiting for a lock")

    async def idle_in_transaction(self, *, state: str = "idle in transaction") -> None:
        """Come back once somebody has a transaction open and does nothing."""
        await eventually(
            lambda: self.rows(
                "SELECT pid FROM pg_stat_activity"
                " WHERE state = $1 AND wait_event = 'ClientRead' AND position($2 in query) > 0",
                state,
                self.name,
            ),
            lambda found: found,
            what="an idle transaction",
        )

    async def connections(self) -> int:
        """How many connections stores have."""
        found = await self.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", STORE)
        return int(found)

    async def end_connections(self) -> int:
        """End all connections of stores; how many there were."""
        ended = await self.value(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", STORE
        )
        return int(ended)


class Threshold:
    """The boundary of a store: while it is closed, what comes to a COMMIT stands before it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._reached = asyncio.Event()

    async def __call__(self, moment: str, _tables: Tables) -> None:
        if moment == "before":
            self._reached.set()
            await self._open.wait()

    def close(self) -> None:
        self._reached.clear()
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def reached(self) -> None:
        """Come back once somebody stands there."""
        async with asyncio.timeout(10):
            await self._reached.wait()
