"""Stores on a schema of their own: straight, or through a network that fails as it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from backstay.store.postgres import PostgresStore
from backstay.store.postgres.url import address_of
from backstay.testing import ManualClock
from tests.integration.postgres.schema import STORE, OpenStore, Schema
from tests.support.pgproxy import PgProxy
from tests.support.postgres import PostgresServer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(postgres_url: str, proxy: PgProxy) -> AsyncIterator[OpenStore]:
    """Opens stores on one schema, whose leases a test lets pass by hand; all are closed before the proxy."""
    stores: list[PostgresStore] = []

    async def open_store(url: str = postgres_url, **options: Any) -> PostgresStore:
        store = PostgresStore(f"{url}&application_name={STORE}", **{"server_clock": False, **options})
        await store.open()
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened: OpenStore) -> PostgresStore:
    return await opened()


@pytest.fixture
async def schema(postgres: PostgresServer, postgres_url: str) -> AsyncIterator[Schema]:
    """The same schema past all stores."""
    connection = await asyncpg.connect(postgres.url())
    yield Schema(connection, address_of(postgres_url).schema)
    await connection.close()


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[PgProxy]:
    async with PgProxy(postgres.port) as proxy:
        yield proxy


@pytest.fixture
def proxy_url(proxy: PgProxy, postgres_url: str) -> str:
    """The same schema through the proxy."""
    return proxy.url(schema=address_of(postgres_url).schema)
