"""A shop whose orders come by a queue: each has a row of the shop's own, and a task."""

from __future__ import annotations

import inspect
import sqlite3
from contextlib import closing
from typing import Any

from backstay import App, Message, Permanent, Submission
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase


def make_orders(database: Database) -> None:
    """The table of the shop, beside those of the store, and without a rule that would hide a double."""
    table = "orders (name text NOT NULL)"
    if isinstance(database, PostgresDatabase):
        database.look.execute(f"CREATE SCHEMA IF NOT EXISTS {database.schema}")
        database.look.execute(f"CREATE TABLE {database.schema}.{table}")
    elif isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection:
            connection.execute(f"CREATE TABLE {table}")


def orders_of(database: Database) -> list[str]:
    return [name for (name,) in database.rows("SELECT name FROM orders ORDER BY name")]


def tasks_of(database: Database) -> list[str]:
    return [name for (name,) in database.rows("SELECT id FROM task ORDER BY id")]


async def execute(connection: Any, sql: str) -> None:
    """The same on a connection of asyncpg and on one of sqlite3."""
    done = connection.execute(sql)
    if inspect.isawaitable(done):
        await done


def desk(
    table: str, *, reply_to: str | None = None, terms: dict[str, Any] | None = None, **options: Any
) -> App:
    """Its queue is ``incoming``. What is not worth a cent is refused, after its row was written."""
    app = App("desk")
    app.queue("incoming", **terms or {})

    @app.workflow
    async def fulfil(name: str, cents: int) -> str:
        return f"{name} for {cents}"

    @app.submission("incoming", **options)
    async def accept(message: Message, connection: Any) -> Submission:
        name = message.body["name"]
        await execute(connection, f"INSERT INTO {table} VALUES ('{name}')")
        if message.body.get("trouble"):
            raise OSError("the scales are broken")
        if message.body["cents"] == 0:
            raise Permanent("not worth a cent")
        return Submission(fulfil, message.body | {"name": name}, id=name, reply_to=reply_to)

    return app


def table_of(database: Database) -> str:
    return f"{database.schema}.orders" if isinstance(database, PostgresDatabase) else "orders"
