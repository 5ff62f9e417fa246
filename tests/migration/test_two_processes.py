"""Two processes find a store of an earlier release at the same time: one brings it up to date, both go on."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import psycopg

from backstay.store.base import TaskFilter
from tests.migration.dumps import kept
from tests.migration.stores import dialect_of, migrations, restore, today
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase, connect
from tests.support.running import eventually

IDS = ("opened-1", "opened-2")


@asynccontextmanager
async def openers(database: Database) -> AsyncIterator[list[Process]]:
    """Two that are about to open the store; they are gone afterwards."""
    command = [sys.executable, "-m", "tests.migration.opener", database.url]
    started = [
        await asyncio.create_subprocess_exec(*command, task_id, stdout=PIPE, stderr=PIPE) for task_id in IDS
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 30) == b"opening\n"
        yield started
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def both_went_on(database: Database, processes: list[Process]) -> None:
    for process in processes:
        _, said = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, said.decode()
    store = today(database)
    await store.open()
    found = {task.id for task in await store.tasks(TaskFilter(limit=100))}
    await store.close()
    assert found >= {*IDS, "pending", "processed"}
    assert database.rows("SELECT count(*) FROM migration") == [(len(migrations(dialect_of(database))),)]


async def test_on_one_file(sqlite_database: SqliteDatabase):
    """Both come to a file that somebody writes to: neither fails, and none does what the other has done."""
    restore(sqlite_database, kept("sqlite")[-1])
    with closing(sqlite3.connect(sqlite_database.path, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = WAL")
        holder.execute("BEGIN IMMEDIATE")
        async with openers(sqlite_database) as processes:
            assert [process.returncode for process in processes] == [None, None]
            assert len(holder.execute("SELECT number FROM migration").fetchall()) == kept("sqlite")[-1]
            holder.execute("ROLLBACK")
            await both_went_on(sqlite_database, processes)


async def test_on_one_server_one_stands_in_the_midst_of_it_and_the_other_waits(
    postgres_database: PostgresDatabase,
):
    restore(postgres_database, kept("postgres")[-1])
    schema = postgres_database.schema
    with closing(connect(postgres_database.server)) as reader:
        reader.execute("BEGIN")
        # Whoever migrates cannot alter this table before the reader is done.
        reader.execute(f"LOCK TABLE {schema}.alert IN ACCESS SHARE MODE")
        async with openers(postgres_database) as processes:
            await eventually(
                lambda: _waiting(postgres_database.look),
                lambda waits: waits == ["advisory", "relation"],
                what="one in the midst of it, one before it",
            )
            reader.execute("ROLLBACK")
            await both_went_on(postgres_database, processes)


async def _waiting(look: psycopg.Connection) -> list[str]:
    """For what those wait who wait for a lock."""
    found = look.execute(
        "SELECT wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock' ORDER BY wait_event"
    )
    return [event for (event,) in found]
