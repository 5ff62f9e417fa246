"""Databases that are opened, and databases that are refused untouched."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from backstay.errors import BackstayError, InvalidSetting, StoreTooNew, StoreUnavailable
from backstay.sql.migrations import load_migrations
from backstay.sql.queries import load_queries, numbered
from backstay.store.base import Report, TaskFilter
from backstay.store.postgres import PostgresStore
from backstay.store.postgres import schema as migrations
from backstay.store.postgres.connection import Server
from backstay.store.postgres.url import address_of
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar
from backstay.testing.promises.holder import Holder, submitted
from tests.integration.postgres.schema import OpenStore, Schema
from tests.support.postgres import HOST, USER, PostgresServer, drop_schema, schema_name

QUERIES = {
    name: numbered(text) for name, text in load_queries("backstay.store.postgres", schema="any").items()
}

PASSWORD = "hidden-from-everybody"

#: What a store that is up to date has had applied.
MIGRATIONS = [(one.number,) for one in load_migrations("backstay.store.postgres")]


@pytest.fixture
async def admin(postgres: PostgresServer) -> AsyncIterator[Any]:
    """Somebody who may do everything on the server that tests share."""
    connection = await asyncpg.connect(postgres.url())
    yield connection
    await connection.close()


@pytest.fixture
async def role(admin: Any) -> AsyncIterator[str]:
    """A user who may connect, and little else."""
    name = f"r_{schema_name()}"
    await admin.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    await admin.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def as_user(url: str, role: str, password: str | None = None) -> str:
    return url.replace(f"{USER}@", f"{role}:{password}@" if password else f"{role}@")


async def refusal(url: str, **options: Any) -> BackstayError:
    """The error with which a store on this address is not opened."""
    with pytest.raises(BackstayError) as refused:
        await PostgresStore(url, **options).open()
    return refused.value


async def open_and_close(url: str, **options: Any) -> None:
    store = PostgresStore(url, **options)
    await store.open()
    await store.close()


async def schema_exists(server: PostgresServer, url: str) -> bool:
    connection = await asyncpg.connect(server.url(database=url.rpartition("/")[2].partition("?")[0]))
    try:
        return bool(
            await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", url.rpartition("=")[2])
        )
    finally:
        await connection.close()


# What a session is set to


async def test_no_query_is_compiled_or_given_helpers(postgres_url: str):
    server = Server(address_of(postgres_url), QUERIES, accept_data_loss=False)
    connection = await server.connect()
    try:
        settings = [
            await connection.fetchval(f"SHOW {name}") for name in ("jit", "max_parallel_workers_per_gather")
        ]
    finally:
        await connection.close()

    assert settings == ["off", "0"]


# Servers that may lose what they acknowledged


@pytest.fixture(scope="module")
def forgetful() -> Iterator[PostgresServer]:
    with PostgresServer(settings={"fsync": "off"}) as server:
        yield server


async def test_a_server_without_fsync_is_refused_and_not_touched(forgetful: PostgresServer):
    url = forgetful.url(schema="orders")

    error = await refusal(url)

    assert str(error) == (
        f"postgresql://backstay@127.0.0.1:{forgetful.port}/postgres runs with fsync = off:"
        " a task that was acknowledged may be lost in a crash."
        " Turn fsync on, or accept that with the setting accept_data_loss = true"
    )
    assert not await schema_exists(forgetful, url)


async def test_a_server_without_fsync_is_used_by_who_accepts_the_loss(forgetful: PostgresServer):
    url = forgetful.url(schema="accepted")

    await open_and_close(url, accept_data_loss=True)

    assert await schema_exists(forgetful, url)


async def test_a_user_whose_commits_do_not_wait_for_the_disk_is_refused(
    postgres: PostgresServer, postgres_url: str, admin: Any, role: str
):
    await admin.execute(f"ALTER ROLE {role} SET synchronous_commit = off")
    await admin.execute(f"GRANT CREATE ON DATABASE postgres TO {role}")
    url = as_user(postgres_url, role)

    error = await refusal(url)

    assert isinstance(error, StoreUnavailable)
    assert "runs with synchronous_commit = off" in str(error)
    assert not await schema_exists(postgres, postgres_url)
    await open_and_close(url, accept_data_loss=True)
    assert await schema_exists(postgres, postgres_url)


async def test_a_database_whose_commits_do_not_wait_for_the_disk_is_refused(
    postgres: PostgresServer, admin: Any
):
    database = schema_name()
    url = postgres.url(database=database, schema="orders")
    await admin.execute(f"CREATE DATABASE {database}")
    try:
        await admin.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")

        error = await refusal(url)

        assert "runs with synchronous_commit = off" in str(error)
        assert not await schema_exists(postgres, url)
        await open_and_close(url, accept_data_loss=True)
        assert await schema_exists(postgres, url)
    finally:
        await admin.execute(f"DROP DATABASE {database} WITH (FORCE)")


async def test_an_address_that_turns_waiting_for_the_disk_off_is_refused(postgres_url: str):
    error = await refusal(f"{postgres_url}&synchronous_commit=off")

    assert "runs with synchronous_commit = off" in str(error)


# Addresses that lead nowhere


def everything_said(error: BaseException) -> str:
    """The message, and those of all errors behind it."""
    return "".join(traceback.format_exception(error))


async def test_a_wrong_password_is_refused_and_not_repeated(own_postgres: PostgresServer):
    rules = own_postgres.directory / "data" / "pg_hba.conf"
    rules.write_text(f"host all guarded {HOST}/32 scram-sha-256\n{rules.read_text()}")
    with closing(psycopg.connect(own_postgres.url(), autocommit=True)) as admin:
        admin.execute(
            "CREATE ROLE guarded LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO guarded"
        )
        admin.execute("SELECT pg_reload_conf()")
        rules_in_force = "SELECT count(*) FROM pg_hba_file_rules WHERE 'guarded' = ANY (user_name)"
        assert admin.execute(rules_in_force).fetchone() == (1,)

    error = await refusal(as_user(own_postgres.url(), "guarded", PASSWORD))

    assert isinstance(error, StoreUnavailable)
    assert str(error) == (
        f"postgresql://guarded@127.0.0.1:{own_postgres.port}/postgres:"
        ' password authentication failed for user "guarded"'
    )
    assert PASSWORD not in everything_said(error)
    await open_and_close(as_user(own_postgres.url(), "guarded", "right"))


async def test_a_user_who_may_not_log_in_is_told_so(postgres: PostgresServer, admin: Any, role: str):
    await admin.execute(f"ALTER ROLE {role} NOLOGIN")

    error = await refusal(as_user(postgres.url(), role, PASSWORD))

    assert isinstance(error, StoreUnavailable)
    assert f'role "{role}" is not permitted to log in' in str(error)
    assert PASSWORD not in everything_said(error)


async def test_a_database_that_is_not_there_is_named(postgres: PostgresServer):
    error = await refusal(as_user(postgres.url(database="no_such_database"), USER, PASSWORD))

    assert isinstance(error, StoreUnavailable)
    assert 'database "no_such_database" does not exist' in str(error)
    assert PASSWORD not in everything_said(error)


async def test_a_server_that_is_not_there_is_named(own_postgres: PostgresServer):
    own_postgres.stop()

    error = await refusal(as_user(own_postgres.url(), USER, PASSWORD))

    assert isinstance(error, StoreUnavailable)
    assert str(error).startswith(f"postgresql://backstay@127.0.0.1:{own_postgres.port}/postgres: ")
    assert PASSWORD not in everything_said(error)


async def test_a_socket_that_is_not_there_is_named(postgres: PostgresServer):
    error = await refusal(postgres.socket_url().replace(f"port={postgres.port}", "port=1"))

    assert isinstance(error, StoreUnavailable)
    assert str(postgres.directory) in str(error)


# What a user may do


async def test_who_may_not_make_the_schema_is_told_what_to_ask_for(
    postgres: PostgresServer, postgres_url: str, role: str
):
    error = await refusal(as_user(postgres_url, role))

    schema = postgres_url.rpartition("=")[2]
    assert isinstance(error, StoreUnavailable)
    assert f"the schema {schema} is not there, and this user may not make it" in str(error)
    assert "have it made, or grant CREATE on the database" in str(error)
    assert not await schema_exists(postgres, postgres_url)


async def test_a_schema_that_was_made_for_the_user_is_enough(postgres_url: str, admin: Any, role: str):
    schema = postgres_url.rpartition("=")[2]
    await admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {role}")

    await open_and_close(as_user(postgres_url, role))

    assert await admin.fetchval(f"SELECT count(*) FROM {schema}.migration") > 0


async def test_who_may_not_make_tables_in_the_schema_is_told_what_to_ask_for(
    postgres_url: str, admin: Any, role: str
):
    schema = postgres_url.rpartition("=")[2]
    await admin.execute(f"CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}")

    error = await refusal(as_user(postgres_url, role))

    assert isinstance(error, StoreUnavailable)
    assert f"this user may not make tables in the schema {schema}" in str(error)


async def test_who_may_not_even_look_into_the_schema_is_told_so(postgres_url: str, admin: Any, role: str):
    schema = postgres_url.rpartition("=")[2]
    await admin.execute(f"CREATE SCHEMA {schema}")

    error = await refusal(as_user(postgres_url, role))

    assert isinstance(error, StoreUnavailable)
    assert f"permission denied for schema {schema}" in str(error)


# Schemas of another release, or of nobody


async def everything(schema: Schema) -> list[Any]:
    """The tables that are there, and what was applied to them."""
    tables = await schema.rows(
        "SELECT relname, oid, reltuples FROM pg_class WHERE relnamespace = to_regnamespace($1) ORDER BY oid",
        schema.name,
    )
    return [tables, await schema.rows("SELECT *, xmin::text FROM {schema}.migration ORDER BY number")]


async def test_a_store_of_a_newer_release_is_refused_and_not_touched(
    postgres_url: str, store: PostgresStore, schema: Schema
):
    await store.close()
    await schema.execute("INSERT INTO {schema}.migration VALUES (999, 'from_the_future', 'x')")
    before = await everything(schema)

    with pytest.raises(StoreTooNew, match="the store has schema 999"):
        await PostgresStore(postgres_url).open()

    assert await everything(schema) == before


async def test_a_store_of_an_earlier_release_keeps_what_it_holds_and_learns_the_rest(
    postgres_url: str,
    opened: OpenStore,
    schema: Schema,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
):
    await open_as_before(1, postgres_url, monkeypatch)
    await schema.execute(
        "INSERT INTO {schema}.instance VALUES ('old', 1, true, 'box', 7, '[[\"ship\", 1]]', now(), now())"
    )

    store = await opened()

    [old] = await store.instances()
    assert (old.id, old.runs, old.roles, old.report) == ("old", (("ship", 1),), (), Report())
    leader = await store.supervision.lead("new", lease=timedelta(seconds=15), now=clock.now())
    assert (leader.holder, leader.epoch) == ("new", 1)


async def test_groups_go_on_reading_where_they_were(
    postgres_url: str, opened: OpenStore, schema: Schema, monkeypatch: pytest.MonkeyPatch
):
    await open_as_before(7, postgres_url, monkeypatch)  # The last one before readers shared a partition.
    await schema.execute(
        "INSERT INTO {schema}.checkpoint (stream, grp, partition, checkpoint, log, holder, epoch, updated_at)"
        " VALUES ('orders', 'billing', 0, 7, 'log', 'gone', 2, now())"
    )

    store = await opened()

    [standing] = await store.groups.standings("orders")
    assert (standing.unit, standing.checkpoint, standing.epoch) == ((0, 0), 7, 2)


async def test_a_store_that_knew_no_jobs_takes_some(
    postgres_url: str, opened: OpenStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    await open_as_before(8, postgres_url, monkeypatch)  # The last one before there were jobs.

    store = await opened()

    calendar = Calendar(store, clock, (await Holder.joined(store, clock, "new")).owner)
    await calendar.collect()
    await calendar.put()
    assert (await calendar.fired()).occurrences == 1


async def open_as_before(number: int, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a store as a release made it that knew so many migrations."""
    known = load_migrations("backstay.store.postgres")[:number]
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", lambda _package: known)
        await open_and_close(url)


async def test_a_store_whose_migration_was_edited_is_refused_and_not_touched(
    postgres_url: str, store: PostgresStore, schema: Schema
):
    await store.close()
    await schema.execute("UPDATE {schema}.migration SET checksum = 'another' WHERE number = 1")
    before = await everything(schema)

    with pytest.raises(StoreUnavailable, match="migration 0001"):
        await PostgresStore(postgres_url).open()

    assert await everything(schema) == before


async def test_who_wants_a_store_that_exists_makes_none(postgres: PostgresServer, postgres_url: str):
    with pytest.raises(StoreUnavailable) as refused:
        await PostgresStore(postgres_url).open(must_exist=True)

    schema = postgres_url.rpartition("=")[2]
    assert f"there is no store in {postgres.url()}, schema {schema}; name another with --store" in str(
        refused.value
    )
    assert not await schema_exists(postgres, postgres_url)


async def test_who_wants_a_store_that_exists_finds_it(postgres_url: str, store: PostgresStore):
    another = PostgresStore(postgres_url)

    await another.open(must_exist=True)

    assert await another.tasks(TaskFilter()) == []
    await another.close()


async def test_a_table_of_the_application_in_the_same_schema_is_left_alone(postgres_url: str, schema: Schema):
    await schema.execute("CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders AS SELECT 1 AS n")

    await open_and_close(postgres_url)

    assert await schema.rows("SELECT n FROM {schema}.orders") == [(1,)]


@pytest.mark.parametrize(
    "name", ["Orders", "my-orders", "1st", "a b", 'a"b', "a;drop", "a.b", "ä", "", "x" * 49]
)
def test_a_schema_whose_name_would_need_quotes_is_refused(postgres: PostgresServer, name: str):
    with pytest.raises(InvalidSetting, match="schema in the store's URL is"):
        PostgresStore(f"{postgres.url()}?schema={name.replace(' ', '%20').replace(';', '%3B')}")


@pytest.mark.parametrize("name", ["user", "select", "table"])
async def test_a_schema_named_by_a_word_of_sql_is_refused(postgres: PostgresServer, name: str):
    error = await refusal(postgres.url(schema=name))

    assert isinstance(error, InvalidSetting)
    assert f"schema in the store's URL is {name!r}, a word that PostgreSQL keeps for itself" in str(error)


async def test_a_schema_named_as_postgresql_names_its_own_is_refused(postgres: PostgresServer):
    error = await refusal(postgres.url(schema="pg_orders"))

    assert 'unacceptable schema name "pg_orders"' in str(error)


# Beside each other


_OPEN = """
import asyncio, sys
from backstay.store.postgres import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    await store.instances()
    await store.close()

asyncio.run(main())
"""


def opening(url: str) -> subprocess.Popen[str]:
    """A process that opens the store once it is told to."""
    command = [sys.executable, "-c", _OPEN, url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_several_processes_may_fill_an_empty_database_at_once(postgres_url: str, schema: Schema):
    with opening(postgres_url) as one, opening(postgres_url) as two, opening(postgres_url) as three:
        racers = (one, two, three)
        # Ready before opening: all have imported what they need and go off together.
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        assert [racer.wait(20) for racer in racers] == [0, 0, 0]

    assert await schema.rows("SELECT number FROM {schema}.migration ORDER BY number") == MIGRATIONS


async def test_several_stores_of_one_process_may_fill_an_empty_database_at_once(
    postgres_url: str, schema: Schema
):
    await asyncio.gather(*(open_and_close(postgres_url) for _ in range(5)))

    assert await schema.rows("SELECT number FROM {schema}.migration ORDER BY number") == MIGRATIONS


async def test_stores_in_two_schemas_of_one_database_do_not_see_each_other(
    postgres: PostgresServer, opened: OpenStore, clock: ManualClock
):
    other_schema = schema_name()
    mine, other = await opened(), await opened(postgres.url(schema=other_schema))
    try:
        await submitted(mine, clock, "t", input=b"1")
        await submitted(other, clock, "t", input=b"2")

        assert [task.id for task in await mine.tasks(TaskFilter())] == ["t"]
        assert (await mine.task("t")).input == b"1"
        assert (await other.task("t")).input == b"2"
    finally:
        await other.close()
        await drop_schema(postgres, other_schema)


async def test_a_server_is_reached_by_its_socket(
    postgres: PostgresServer, postgres_url: str, opened: OpenStore, clock: ManualClock
):
    store = await opened(postgres.socket_url(schema=postgres_url.rpartition("=")[2]))

    assert len(await submitted(store, clock, "t")) == 1


# Without the driver

_WITHOUT_DRIVER = """
import sys
sys.modules["asyncpg"] = None  # as if it were not installed
from backstay.runtime import open_store
from backstay.settings import Settings

print(type(open_store(Settings(store="sqlite:///orders.db"))).__name__)
try:
    open_store(Settings(store="postgresql://localhost/orders"))
except Exception as error:
    print(type(error).__name__, error)
"""


def test_without_the_driver_sqlite_works_and_postgresql_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", _WITHOUT_DRIVER], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "SqliteStore",
        "InvalidSetting a store on PostgreSQL needs the driver asyncpg: pip install 'backstay[postgres]'",
    ]
