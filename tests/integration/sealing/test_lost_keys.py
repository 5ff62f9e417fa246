"""A secret that cannot be opened costs the attempts that need it, and nothing else; rotation loses none."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from backstay.cli import run
from backstay.domain.audit import Act
from backstay.domain.jobs.records import CollectionId, EntryStatus
from backstay.errors import SecretKeyMissing
from backstay.jobroom import Jobroom
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.records import AuditFilter
from backstay.vault import KeyFile, Vault
from tests.support.databases import Database, SqliteDatabase
from tests.support.job_documents import pfx_of
from tests.support.job_records import PLACE as PLACE_OF_JOBS
from tests.support.jobs import Calendar
from tests.support.running import LeapingClock
from tests.support.running_jobs import RunJobs, running_jobs
from tests.support.service import HttpService, fine

NONE = {"retryType": "None"}
PLACE = "action.request.authentication.password"


def calling(url: str, password: str = "hunter2") -> dict[str, Any]:
    shown = {"type": "Basic", "username": "u", "password": password}
    request = {"uri": url, "method": "GET", "authentication": shown}
    return {"type": "Http", "request": request, "retryPolicy": NONE}


def with_file(database: Database, path: Path) -> Store:
    more = {} if isinstance(database, SqliteDatabase) else {"server_clock": False}
    return database.store(vault=Vault(file=KeyFile(path)), **more)


def a_pfx() -> str:
    made = trustme.CA().issue_cert("client.example", common_name="nightly")
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    return pfx_of(key, x509.load_pem_x509_certificate(made.cert_chain_pems[0].bytes()), "hunter2")


@asynccontextmanager
async def looked_after(store: Store) -> AsyncIterator[tuple[Jobroom, CollectionId]]:
    """The jobs of a store where nothing runs; there is a collection."""
    clock = LeapingClock()
    await store.open()
    try:
        await Calendar(store).open(clock.now())
        yield Jobroom(store.jobs, settings=Settings(), clock=clock, act=an_act), PLACE_OF_JOBS
    finally:
        await store.close()


def an_act(action: str, target: str, reason: str | None) -> Act:
    return Act(who="ann", action=action, target=target, reason=reason)


async def kept(store: Store, calendar: Calendar, name: str = "j") -> Any:
    job = await store.jobs.job(calendar.place, name)
    return await store.jobs.secrets(job.key, uid=job.uid)


async def test_a_lost_key_is_told_by_the_history_and_everything_else_works(
    app: Any, database: Database, service: HttpService, tmp_path: Path
):
    key, clock = tmp_path / "keys", LeapingClock()
    async with running_jobs(app, with_file(database, key), clock) as jobs:
        await jobs.calendar.open(clock.now())
        await jobs.put(calling(service.url), recurrence={"frequency": "Hour"})
        await jobs.attempts(1)
    rows = database.rows("SELECT * FROM job_sealed_secret")
    key.unlink()

    async with running_jobs(app, store := with_file(database, key), clock) as jobs:
        room = jobs.client.jobroom
        await room.run(jobs.calendar.place, "j")
        entry = (await jobs.attempts(2))[-1]
        assert entry.status is EntryStatus.FAILED
        assert "a secret of the job cannot be opened" in entry.message
        assert "write the secret into the job again" in entry.message

        # What has nothing to do with it goes on, and leaves it as it is.
        assert [one["name"] for one in await room.jobs(jobs.calendar.place)] == ["jc/j"]
        await room.disable(jobs.calendar.place, "j")
        shown = await room.patch_job(
            jobs.calendar.place,
            "j",
            {"properties": {"state": "Enabled", "action": {"request": {"method": "PUT"}}}},
        )
        assert shown["properties"]["action"]["request"]["method"] == "PUT"
        assert database.rows("SELECT * FROM job_sealed_secret") == rows
        assert not key.exists()

        # Written again it is sealed with a new key.
        again = {"authentication": {"type": "Basic", "username": "u", "password": "another"}}
        await room.patch_job(jobs.calendar.place, "j", {"properties": {"action": {"request": again}}})
        assert (await kept(store, jobs.calendar))[PLACE] == "another"
        await room.run(jobs.calendar.place, "j")
        assert "'OK'" in (await jobs.attempts(3))[-1].message
    assert len(service.asked) == 2


async def test_of_a_certificate_that_cannot_be_opened_is_told_what_it_said(
    database: Database, tmp_path: Path
):
    shown = {"type": "ClientCertificate", "pfx": a_pfx(), "password": "hunter2"}
    action = {"type": "Https", "request": {"uri": "https://a/", "method": "GET", "authentication": shown}}
    async with looked_after(with_file(database, tmp_path / "keys")) as (room, place):
        before, _ = await room.put_job(place, "j", {"properties": {"action": action}})
    (tmp_path / "keys").unlink()

    async with looked_after(with_file(database, tmp_path / "keys")) as (room, place):
        after = await room.patch_job(place, "j", {"properties": {"state": "Disabled"}})

    assert "certificateThumbprint" in before["properties"]["action"]["request"]["authentication"]
    assert after["properties"]["action"] == before["properties"]["action"]


@pytest.mark.parametrize("row", ["hunter2", "bs0.{rest}", "bs1.0000000000000000.AAAA"])
async def test_a_row_that_somebody_rewrote_is_refused(
    database: Database, run_jobs: RunJobs, service: HttpService, row: str
):
    async with run_jobs() as jobs:
        await jobs.put(calling(service.url), recurrence={"frequency": "Hour"})
        await jobs.attempts(1)
        [[sealed]] = database.rows("SELECT sealed FROM job_sealed_secret")
        rewrite(database, row.format(rest=sealed.partition(".")[2]))
        await jobs.client.jobroom.run(jobs.calendar.place, "j")
        entry = (await jobs.attempts(2))[-1]

    assert "cannot be opened" in entry.message
    assert "hunter2" not in entry.message
    assert len(service.asked) == 1


async def test_a_row_of_another_job_does_not_open(
    database: Database, run_jobs: RunJobs, service: HttpService
):
    service.answers = [fine]
    async with run_jobs() as jobs:
        await jobs.put(calling(service.url, "first"))
        await jobs.put(calling(service.url, "second"), "k", recurrence={"frequency": "Hour"})
        await jobs.attempts(1, "k")
        [[sealed], _] = database.rows("SELECT sealed FROM job_sealed_secret ORDER BY job_key")
        rewrite(database, sealed)
        await jobs.client.jobroom.run(jobs.calendar.place, "k")
        entry = (await jobs.attempts(2, "k"))[-1]

    assert "altered, or belongs to something else" in entry.message


def rewrite(database: Database, row: str) -> None:
    """As somebody does who may write the database and has no key."""
    if isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("UPDATE job_sealed_secret SET sealed = ?", (row,))
    else:
        database.rows("UPDATE job_sealed_secret SET sealed = ? RETURNING 1", row)


async def test_on_a_server_without_a_key_only_secrets_are_refused(postgres_database: Database):
    store = postgres_database.store(vault=Vault(), server_clock=False)
    async with looked_after(store) as (room, place):
        with pytest.raises(SecretKeyMissing, match="set BACKSTAY_SECRET_KEY"):
            await room.put_job(place, "j", {"properties": {"action": calling("http://a/")}})
        bare = {"type": "Http", "request": {"uri": "http://a/", "method": "GET"}}
        await room.put_job(place, "j", {"properties": {"action": bare}})
        assert [one["name"] for one in await room.jobs(place)] == ["jc/j"]


# Rotation


async def test_a_server_that_runs_goes_on_opening_and_seals_with_the_new_key(  # noqa: PLR0917
    app: Any, database: Database, service: HttpService, tmp_path: Path, capsys: Any, monkeypatch: Any
):
    key, clock = tmp_path / "keys", LeapingClock()
    monkeypatch.setenv("BACKSTAY_SECRET_KEY_FILE", str(key))
    monkeypatch.chdir(tmp_path)
    async with running_jobs(app, store := with_file(database, key), clock) as jobs:
        await jobs.calendar.open(clock.now())
        for number in range(3):
            await jobs.put(
                calling(service.url, f"secret{number}"), f"j{number}", recurrence={"frequency": "Hour"}
            )
            await jobs.attempts(1, f"j{number}")
        before = {row[0] for row in database.rows("SELECT sealed FROM job_sealed_secret")}

        said = await in_a_thread("store", "rotate-key", "--json", "--store", database.url, capsys=capsys)

        new = KeyFile(key).keys()[0].id
        assert said == {"key": new, "made": True, "sealed": 3, "unopened": 0}
        after = {row[0] for row in database.rows("SELECT sealed FROM job_sealed_secret")}
        assert before.isdisjoint(after)
        assert all(row.startswith(f"bs1.{new}.") for row in after)
        for number in range(3):
            assert (await kept(store, jobs.calendar, f"j{number}"))[PLACE] == f"secret{number}"
        await jobs.client.jobroom.run(jobs.calendar.place, "j1")
        assert "'OK'" in (await jobs.attempts(2, "j1"))[-1].message
        await jobs.put(calling(service.url, "later"), "j9")
        assert len(database.rows("SELECT 1 FROM job_sealed_secret WHERE sealed LIKE ?", f"bs1.{new}.%")) == 4

        again = await in_a_thread(
            "store", "rotate-key", "--resume", "--json", "--store", database.url, capsys=capsys
        )
        assert again == {"key": new, "made": False, "sealed": 0, "unopened": 0}
        trail = await store.records.audit(AuditFilter())
        assert ("reseal", "store:secrets") in [(one.action, one.target) for one in trail]


async def in_a_thread(*arguments: str, capsys: Any) -> Any:
    capsys.readouterr()
    assert await asyncio.to_thread(run, list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


async def test_what_no_key_opens_is_counted_and_left(database: Database, tmp_path: Path):
    async with looked_after(with_file(database, tmp_path / "keys")) as (room, place):
        await room.put_job(place, "j", {"properties": {"action": calling("http://a/")}})
    (tmp_path / "keys").unlink()

    async with looked_after(store := with_file(database, tmp_path / "keys")) as (room, place):
        await room.put_job(place, "k", {"properties": {"action": calling("http://a/")}})
        KeyFile(tmp_path / "keys").add()
        done = await store.jobs.reseal(limit=1, now=LeapingClock().now())
        assert (done.sealed, done.unopened, done.after is None) == (0, 1, False)
        done = await store.jobs.reseal(done.after, limit=1, now=LeapingClock().now())
        assert (done.sealed, done.unopened) == (1, 0)
        done = await store.jobs.reseal(done.after, limit=1, now=LeapingClock().now())
        assert (done.sealed, done.unopened, done.after) == (0, 0, None)
