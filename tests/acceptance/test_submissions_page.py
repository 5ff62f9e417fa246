"""The programs in docs/submissions.md do what the page says."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.support.databases import PostgresDatabase, SqliteDatabase
from tests.support.pages import Page
from tests.support.running import SOON, until

PAGE = Page("submissions.md")


@pytest.fixture
def names() -> dict[str, Any]:
    """What the page declares, all of it in one module."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(PAGE.blocks("python")), "submissions.md", "exec"), names)
    return names


async def test_who_submits_is_told_to_the_end(names: dict[str, Any], sqlite_database: SqliteDatabase):
    async with names["app"].run(sqlite_database.url):
        kite = await names["watched"]("kite")
        anvil = await names["watched"]("anvil")
        [failure] = await names["failures"].receive(max=10)

    shown, report = [json.loads(block) for block in PAGE.blocks("json")]
    assert [one["status"] for one in kite] == ["received", "started", "completed"]
    assert kite[-1] | {"at": shown["at"]} == shown
    assert anvil[-1]["error"]["message"] == "too heavy"
    assert failure.body == report


async def test_on_sqlite_a_message_becomes_a_row_and_a_task(
    names: dict[str, Any], sqlite_database: SqliteDatabase
):
    with closing(sqlite3.connect(sqlite_database.path)) as shop:
        shop.execute("CREATE TABLE article_sold (name TEXT PRIMARY KEY)")
    async with names["app"].run(sqlite_database.url) as app:
        await names["order"]("kite")
        await until(app, "order-kite", "processed")
        assert await app.handle("order-kite").result(SOON) == "kite carried"

    assert sqlite_database.rows("SELECT name FROM article_sold") == [("kite",)]


async def test_on_postgres_a_message_becomes_a_row_and_a_task(
    names: dict[str, Any], postgres_database: PostgresDatabase
):
    schema = postgres_database.schema
    postgres_database.look.execute(f"CREATE SCHEMA {schema}")
    postgres_database.look.execute(f"CREATE TABLE {schema}.article_sold (name text PRIMARY KEY)")
    url = f"{postgres_database.url}&search_path={schema}"
    async with names["app"].run(url) as app:
        await app.queue("web-orders").send({"article": "kite"})
        await until(app, "order-kite", "processed")

    assert postgres_database.rows("SELECT name FROM article_sold") == [("kite",)]
