"""A shop that keeps its orders where the store is, and a caller with a connection of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from backstay import App, Client
from tests.integration.callers.drivers import ON_POSTGRES, ON_SQLITE, Caller
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase

#: Above this many bytes an input is kept beside its task.
INLINE_BYTES_MAX = 64


@pytest.fixture
def app() -> App:
    app = App("shop")
    carrier = app.agent("carrier")

    @carrier.step
    async def carry(parcel: str) -> str:
        return f"{parcel} carried"

    @app.workflow(plan=[carry])
    async def deliver(parcel: str) -> str:
        return await carry(parcel)

    return app


@pytest.fixture(
    params=[("sqlite", kind) for kind in ON_SQLITE] + [("postgres", kind) for kind in ON_POSTGRES],
    ids=lambda param: f"{param[0]}: {param[1].kind}",
)
def database_and_kind(request: pytest.FixtureRequest) -> tuple[Database, type[Any]]:
    name, kind = request.param
    return request.getfixturevalue(f"{name}_database"), kind


@pytest.fixture
def database(database_and_kind: tuple[Database, type[Any]]) -> Database:
    """Who asks for this, or for what is made of it, runs once for each driver."""
    return database_and_kind[0]


@pytest.fixture
async def client(app: App, database: Database) -> AsyncIterator[Client]:
    """No role runs: a task stays as it was submitted."""
    async with app.client(database.url, inline_bytes_max=INLINE_BYTES_MAX) as client:
        make_orders(database)
        yield client


@pytest.fixture
async def caller(client: Client, database_and_kind: tuple[Database, type[Any]]) -> AsyncIterator[Caller]:
    database, kind = database_and_kind
    caller: Caller = kind(database)
    await caller.connect()
    yield caller
    await caller.close()


def make_orders(database: Database) -> None:
    """The table of the shop, beside those of the store."""
    table = "orders (name text PRIMARY KEY)"
    if isinstance(database, PostgresDatabase):
        database.look.execute(f"CREATE TABLE {database.schema}.{table}")
    elif isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection:
            connection.execute(f"CREATE TABLE {table}")
