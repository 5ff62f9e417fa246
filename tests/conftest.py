"""The databases that tests run on. A machine without PostgreSQL fails these tests, none is skipped."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import psycopg
import pytest

from tests.chaos.matrix import SEED, SEED_VARIABLE, Healing, Watch, row_of
from tests.support.crashes import Crashes, crashes_on
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase, connect
from tests.support.postgres import PostgresServer, drop_schema, schema_name

# The suites ship with the package; their assertions explain themselves like those of any test.
pytest.register_assert_rewrite("backstay.testing")


def pytest_configure() -> None:
    # A shell has what it starts in the background ignore Ctrl-C, and processes that tests start would
    # inherit that, of which some are interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests that are spread over several processes all go by one seed.
    os.environ[SEED_VARIABLE] = str(SEED)
    # How long an example takes says more about the machine than about the code.
    hypothesis.settings.register_profile("backstay", deadline=None)
    hypothesis.settings.load_profile("backstay")


def pytest_report_header() -> str:
    return f"seed: {SEED} (again with {SEED_VARIABLE}={SEED})"


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


@pytest.fixture
def sqlite_database(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path / "store.db")


@pytest.fixture(scope="session")
def postgres_look(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """The connection with which tests look at what stores wrote."""
    with closing(connect(postgres)) as connection:
        yield connection


@pytest.fixture
def postgres_database(
    postgres: PostgresServer, postgres_look: psycopg.Connection
) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(postgres, postgres_look)
    yield database
    database.drop()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    """Who asks for this runs on every database."""
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return database


@pytest.fixture
def crashes(database: Database) -> Crashes:
    return crashes_on(database)


@pytest.fixture
def watch(request: pytest.FixtureRequest, database: Database) -> Iterator[Watch]:
    """For a row of the failure matrix: the history of its store is written, and checked when it is over."""
    print(f"seed {SEED} (again with BACKSTAY_TEST_SEED={SEED})")
    watch = Watch(database, row_of(request.node))
    yield watch
    watch.check()


@pytest.fixture
def healing(request: pytest.FixtureRequest, watch: Watch) -> Iterator[Healing]:
    """For a row of the failure matrix: bounds the time from the fault until all is well."""
    healing = Healing(row_of(request.node), watch.database, watch.facts)
    yield healing
    assert healing.was_measured(), "the row says how long it takes, and nobody measured it"
