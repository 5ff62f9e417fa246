"""The programs in docs/callers-transaction.md do what the page says."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from backstay.errors import UnknownTask
from tests.support.databases import PostgresDatabase, SqliteDatabase

PAGE = Path(__file__).resolve().parents[2] / "docs" / "callers-transaction.md"
SOON = 20.0


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page declares, all of it in one module."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(blocks), PAGE.name, "exec"), names)
    return names


async def test_on_sqlite_order_and_task_are_there_together(
    names: dict[str, Any], sqlite_database: SqliteDatabase
):
    async with names["app"].run(sqlite_database.url) as app:
        with closing(sqlite3.connect(sqlite_database.path)) as shop:
            shop.execute("CREATE TABLE orders (name TEXT PRIMARY KEY)")
            handle = names["place"](app, shop, "drone")
            assert await handle.result(SOON) == "drone carried"

            with pytest.raises(sqlite3.IntegrityError):  # The order is there already: roll back.
                names["place"](app, shop, "drone")
    assert sqlite_database.rows("SELECT id FROM task") == [("delivery-drone",)]


async def test_on_postgres_order_and_task_are_there_together(
    names: dict[str, Any], postgres_database: PostgresDatabase
):
    async with names["app"].run(postgres_database.url) as app:
        shop = await asyncpg.connect(postgres_database.server.url())
        await shop.execute(f"CREATE TABLE {postgres_database.schema}.orders (name text PRIMARY KEY)")
        await shop.execute(f"SET search_path = {postgres_database.schema}")
        handle = await names["place_on_postgres"](app, shop, "drone")
        assert await handle.result(SOON) == "drone carried"

        with pytest.raises(asyncpg.UniqueViolationError):
            await names["place_on_postgres"](app, shop, "drone")
        await shop.close()
    assert postgres_database.rows("SELECT id FROM task") == [("delivery-drone",)]


async def test_every_name_that_is_taken_in_the_file_is_on_the_page(sqlite_database: SqliteDatabase):
    store = sqlite_database.store()
    await store.open()
    with closing(sqlite3.connect(sqlite_database.path)) as shop:
        found = shop.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'").fetchall()
    await store.close()

    [listed] = re.findall(
        r"These names of tables are taken.*?`_`: (.*?)\.", PAGE.read_text("utf-8"), re.DOTALL
    )

    tables = sorted(name for kind, name in found if kind == "table")
    assert re.findall(r"`(\w+)`", listed) == tables
    others = [name for kind, name in found if kind != "table"]
    assert [name for name in others if not name.startswith(tuple(f"{one}_" for one in tables))] == []


async def test_by_sqlalchemy_order_and_task_are_there_together(
    names: dict[str, Any], postgres_database: PostgresDatabase
):
    url = postgres_database.server.url().replace(":", "+psycopg:", 1)
    schema = postgres_database.schema
    engine = sqlalchemy.create_engine(url, connect_args={"options": f"-c search_path={schema}"})
    async with names["app"].run(postgres_database.url) as app:
        postgres_database.look.execute(f"CREATE TABLE {schema}.orders (name text PRIMARY KEY)")
        with Session(engine) as shop:
            handle = names["place_by_sqlalchemy"](app, shop, "drone")
        assert await handle.result(SOON) == "drone carried"

        with Session(engine) as shop:
            handle = app.submit_in(shop, names["deliver"], "kite")
        with pytest.raises(UnknownTask):
            await handle.result(SOON)
    engine.dispose()
