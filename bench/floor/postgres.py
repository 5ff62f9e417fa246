"""The floor on PostgreSQL: one connection, one statement per kind of write and transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from backstay.store.postgres.url import address_of
from bench.floor.task import Row, Write, load_on, rows_by_kind
from bench.load import Size
from bench.points import Point

_TABLES: Final = """
CREATE TABLE task (key bigint PRIMARY KEY, state text, input bytea, output bytea, at bigint);
CREATE TABLE step (task bigint, key bigint, state text, input bytea, output bytea, at bigint,
                   PRIMARY KEY (task, key));
"""
_STATEMENTS: Final = {
    Write.INSERT_TASK: """
        INSERT INTO task (key, state, input, at)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[])""",
    Write.INSERT_STEP: """
        INSERT INTO step (task, key, state, input, at)
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[])""",
    Write.UPDATE_STEP: """
        UPDATE step SET state = new.state, output = new.output, at = new.at
          FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[])
               AS new (task, key, state, output, at)
         WHERE step.task = new.task AND step.key = new.key""",
    Write.UPDATE_TASK: """
        UPDATE task SET state = new.state, output = new.output, at = new.at
          FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[]) AS new (key, state, output, at)
         WHERE task.key = new.key""",
}
# Each row is found by its key, whatever the server believes of tables that were empty a moment ago.
_BY_KEY: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

Answer = asyncio.Future[None]


async def measure(store: str, size: Size) -> Point:
    address = address_of(store)
    connection = await asyncpg.connect(
        address.dsn, server_settings={"search_path": address.schema, **_BY_KEY}
    )
    try:
        await connection.execute(f"CREATE SCHEMA {address.schema}")
        await connection.execute(_TABLES)
        async with _committer(connection) as committer:
            return await load_on(committer, size)
    finally:
        await connection.close()


class _Committer:
    def __init__(self, connection: Any, statements: dict[Write, Any]) -> None:
        self._connection = connection
        self._statements = statements
        self._loop = asyncio.get_running_loop()
        # Bounded by the number of tasks: each has one write under way.
        self._inbox: list[tuple[Write, Row, Answer]] = []
        self._called = asyncio.Event()

    def write(self, kind: Write, row: Row) -> Answer:
        answer = self._loop.create_future()
        self._inbox.append((kind, row, answer))
        self._called.set()
        return answer

    async def run(self) -> None:
        """Write what gathers, until cancelled."""
        while True:
            await self._called.wait()
            self._called.clear()
            gathered, self._inbox = self._inbox, []
            await self._commit(gathered)
            for _, _, answer in gathered:
                answer.set_result(None)

    async def _commit(self, gathered: Sequence[tuple[Write, Row, Answer]]) -> None:
        rows = rows_by_kind(gathered)
        async with self._connection.transaction():
            for kind, statement in self._statements.items():
                if rows[kind]:
                    await statement.fetch(*zip(*rows[kind], strict=True))


@asynccontextmanager
async def _committer(connection: Any) -> AsyncIterator[_Committer]:
    statements = {kind: await connection.prepare(text) for kind, text in _STATEMENTS.items()}
    committer = _Committer(connection, statements)
    async with asyncio.TaskGroup() as group:  # Whoever waits hears of it if the committer fails.
        working = group.create_task(committer.run())
        try:
            yield committer
        finally:
            working.cancel()
