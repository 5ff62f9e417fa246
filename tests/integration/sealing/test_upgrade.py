"""A store on a server where secrets lie as they are: who opens it first seals them, or leaves it as it is."""

from __future__ import annotations

import asyncio
import multiprocessing
from base64 import b64encode
from typing import Any

import asyncpg
import pytest

from backstay import App
from backstay.cli import run
from backstay.errors import SecretKeyMissing
from backstay.sql.migrations import load_migrations
from backstay.sql.queries import load_queries, numbered
from backstay.store.postgres import PostgresStore, schema
from backstay.store.postgres.sealing import SEALING
from backstay.store.postgres.tables import Tables
from backstay.store.postgres.url import address_of
from backstay.store.sealing import BATCH
from backstay.vault import Vault
from tests.support.databases import SECRET_KEY, PostgresDatabase
from tests.support.jobs import Calendar
from tests.support.leaks import everything_in, leaked, tables_of
from tests.support.running import LeapingClock
from tests.support.running_jobs import running_jobs
from tests.support.service import HttpService, fine, says

PACKAGE = "backstay.store.postgres"
MAIN, ERROR = "pl4nted-main", "pl4nted-error"
PLACES = {
    "action.request.authentication.password": MAIN,
    "action.errorAction.request.authentication.password": ERROR,
}


def calling(url: str, password: str, **more: Any) -> dict[str, Any]:
    shown = {"type": "Basic", "username": "u", "password": password}
    request = {"uri": url, "method": "GET", "authentication": shown}
    return {"type": "Http", "request": request, "retryPolicy": {"retryType": "None"}, **more}


class OldStore:
    """A store as the last release left it that did not seal, with a job whose secrets are these."""

    def __init__(self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self._database = database
        self._monkeypatch = monkeypatch

    async def write(self, url: str, secrets: dict[str, str], *, clock: LeapingClock) -> None:
        """The job calls ``url`` and, when that fails, calls it again as its error action."""
        await self._make_tables()
        newer = self._database.another()
        store = newer.store()
        await store.open()
        calendar = Calendar(store)
        await calendar.open(clock.now())
        action = calling(url, MAIN, errorAction=calling(url, ERROR))
        later = {"startTime": "2090-01-01T00:00:00Z"}
        await calendar.put("j", {"action": action, **later}, now=clock.now())
        await store.close()
        # Of jobs themselves both releases write the same.
        for table in ("job_collection", "job"):
            self._change(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {newer.schema}.{table}")
        for place, secret in secrets.items():
            self._change("INSERT INTO job_secret SELECT key, %s, %s FROM job", place, secret)

    async def _make_tables(self) -> None:
        address = address_of(self._database.url)
        queries = load_queries(PACKAGE, schema=address.schema)
        known = [one for one in load_migrations(PACKAGE) if one.number < SEALING]
        connection = await asyncpg.connect(self._database.server.url())
        tables = Tables(
            connection, {name: numbered(sql) for name, sql in queries.items()}, inline_bytes_max=10_000
        )
        with self._monkeypatch.context() as before:
            before.setattr(schema, "load_migrations", lambda _package: known)
            await schema.migrate(tables, address, vault=Vault())
        await connection.close()

    def _change(self, statement: str, *values: str) -> None:
        self._database.look.execute(f"SET search_path = {self._database.schema}")
        self._database.look.execute(statement, values or None)


@pytest.fixture
def database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    return postgres_database


@pytest.fixture
def old(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> OldStore:
    return OldStore(database, monkeypatch)


def content(database: PostgresDatabase) -> dict[str, list[Any]]:
    return {table: sorted(database.rows(f"SELECT * FROM {table}")) for table in tables_of(database)}


def bearing(password: str) -> str:
    return f"Basic {b64encode(f'u:{password}'.encode()).decode()}"


async def test_with_a_key_all_are_sealed_and_the_job_goes_on(
    app: App, database: PostgresDatabase, old: OldStore, service: HttpService
):
    clock = LeapingClock()
    await old.write(service.url, PLACES, clock=clock)
    assert leaked([MAIN, ERROR], everything_in(database)) == [MAIN, ERROR]
    service.answers = [says(500), fine]

    async with running_jobs(app, database.store(server_clock=False), clock) as jobs:
        assert leaked([MAIN, ERROR], everything_in(database)) == []
        await jobs.client.jobroom.run(jobs.calendar.place, "j")
        await jobs.attempts(2)

    assert service.headers("Authorization") == [bearing(MAIN), bearing(ERROR)]
    assert database.rows("SELECT * FROM job_secret") == []
    assert leaked([MAIN, ERROR], everything_in(database)) == []


async def test_without_a_key_it_is_not_opened_and_stays_as_it_is(database: PostgresDatabase, old: OldStore):
    await old.write("http://127.0.0.1:9/", PLACES, clock=LeapingClock())
    before = content(database)

    for must_exist in (True, False):
        with pytest.raises(SecretKeyMissing, match=r"set BACKSTAY_SECRET_KEY \(`openssl rand -base64 32`"):
            await database.store(vault=Vault()).open(must_exist=must_exist)

    assert content(database) == before
    assert max(number for number, *_ in before["migration"]) == SEALING - 1
    # Once there is a key nothing is lost.
    store = database.store()
    await store.open()
    [[key, uid]] = database.rows("SELECT key, uid FROM job")
    assert dict(await store.jobs.secrets(key, uid=uid)) == PLACES
    await store.close()


async def test_whoever_migrates_by_hand_is_told_what_to_do(
    database: PostgresDatabase, old: OldStore, capsys: pytest.CaptureFixture[str]
):
    await old.write("http://127.0.0.1:9/", PLACES, clock=LeapingClock())
    before = content(database)

    code = await asyncio.to_thread(run, ["store", "migrate", "--store", database.url])

    said = capsys.readouterr().err
    assert code != 0
    assert "set BACKSTAY_SECRET_KEY" in said
    assert leaked([MAIN, ERROR], said) == []
    assert content(database) == before


async def test_a_store_without_secrets_needs_no_key(database: PostgresDatabase, old: OldStore):
    await old.write("http://127.0.0.1:9/", {}, clock=LeapingClock())

    store = database.store(vault=Vault())
    await store.open()
    await store.close()

    assert len(content(database)["migration"]) == len(load_migrations(PACKAGE))


async def test_of_processes_that_open_it_at_once_one_seals_and_all_open(
    database: PostgresDatabase, old: OldStore
):
    # More than one batch, so that one is in the middle of it when the others come.
    many = {f"place{number:04}": f"pl4nted{number}" for number in range(2 * BATCH + 1)}
    await old.write("http://127.0.0.1:9/", many, clock=LeapingClock())
    [[key, uid]] = database.rows("SELECT key, uid FROM job")
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(3), spawn.Queue()
    arguments = (database.url, key, uid, barrier, results)
    processes = [spawn.Process(target=_open, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    found = [await asyncio.to_thread(results.get, timeout=60) for _ in processes]
    for process in processes:
        process.join()

    assert found == [many] * 3
    assert database.rows("SELECT count(*) FROM job_sealed_secret") == [(len(many),)]
    assert database.rows("SELECT * FROM job_secret") == []
    assert len(content(database)["migration"]) == len(load_migrations(PACKAGE))


def _open(url: str, key: int, uid: str, barrier: Any, results: Any) -> None:
    async def secrets() -> dict[str, str]:
        store = PostgresStore(url, vault=Vault(SECRET_KEY))
        await store.open()
        try:
            return dict(await store.jobs.secrets(key, uid=uid))
        finally:
            await store.close()

    barrier.wait(60)
    try:
        results.put(asyncio.run(secrets()))
    except BaseException as error:  # The test is told rather than left to wait.
        results.put(repr(error))
        raise
