"""PostgreSQL for every test that asks for it; a machine without it fails these tests, none is skipped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.postgres import PostgresServer, drop_schema, schema_name


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server that tests share; nobody stops it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """Where a store may make a schema of its own, which is dropped afterwards."""
    schema = schema_name()
    yield postgres.url(schema=schema)
    await drop_schema(postgres, schema)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for this test alone, to stop, crash and start again."""
    with PostgresServer() as server:
        yield server
