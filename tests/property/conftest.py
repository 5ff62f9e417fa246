"""A store for all the stories that one test tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.store.sqlite import SqliteStore
from tests.property.stage import Stage
from tests.support.databases import Database, PostgresDatabase


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    """One for all: each story has a queue, or a stream, of its own."""
    with asyncio.Runner() as runner:
        store = runner.run(_opened(database))
        yield Stage(runner, store)
        runner.run(store.close())


async def _opened(database: Database) -> Store:
    postgres = isinstance(database, PostgresDatabase)
    store = PostgresStore(database.url, server_clock=False) if postgres else SqliteStore(database.url)
    await store.open()
    return store
