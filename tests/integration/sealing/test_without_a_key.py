"""A server without a key for secrets: who writes one is told so, nothing is changed, and all else goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backstay import App
from backstay.cli import run
from backstay.vault import Vault
from tests.support.arm import Arm, error
from tests.support.databases import PostgresDatabase
from tests.support.job_documents import BASIC, QUEUE, body, http
from tests.support.leaks import everything_in, leaked, tables_of
from tests.support.serving import serving
from tests.support.shell import Shell

REMEDY = "set BACKSTAY_SECRET_KEY (`openssl rand -base64 32` makes one)"
PASSWORD = BASIC["password"]
WITH_SECRET = http(authentication=BASIC)
WITH_SECRET_OF_ERROR = body(
    action={"type": "Http", "request": {"uri": "http://example.org", "method": "GET"}, "errorAction": QUEUE}
)
BARE = body()


@pytest.fixture
async def arm(postgres_database: PostgresDatabase) -> AsyncIterator[Arm]:
    store = postgres_database.store(vault=Vault())
    await store.open()
    async with serving(store, App("jobs").registry) as served:
        arm = Arm(served)
        await arm.made("jc1")
        yield arm
    await store.close()


def content(database: PostgresDatabase) -> dict[str, list[Any]]:
    return {table: database.rows(f"SELECT * FROM {table}") for table in tables_of(database)}


@pytest.mark.parametrize("document", [WITH_SECRET, WITH_SECRET_OF_ERROR], ids=["action", "errorAction"])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_over_rest_a_secret_is_refused_and_nothing_is_changed(
    arm: Arm, postgres_database: PostgresDatabase, method: str, document: Any
):
    job = "/jc1/jobs/j1"
    assert (await arm.put(job, BARE)).status == 201
    before, shown = content(postgres_database), (await arm.get(job)).json

    answer = await arm.ask(method, job, document)

    status, code, message = error(answer)
    assert (status, code) == (503, "ServerBusy")
    assert REMEDY in message
    assert leaked([PASSWORD], f"{answer.headers} {message}") == []
    assert content(postgres_database) == before
    assert (await arm.get(job)).json == shown
    # What has no secret is written as ever.
    assert (await arm.put(job, BARE)).status == 200


async def test_a_new_job_with_a_secret_is_not_made(arm: Arm, postgres_database: PostgresDatabase):
    before = content(postgres_database)

    assert (await arm.put("/jc1/jobs/j1", WITH_SECRET)).status == 503

    assert content(postgres_database) == before
    assert await arm.names("/jc1/jobs") == []
    assert leaked([PASSWORD], everything_in(postgres_database)) == []


async def test_at_the_command_line_of_that_server_it_says_the_same(
    arm: Arm, postgres_database: PostgresDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "job.json").write_text(json.dumps(WITH_SECRET))
    before = content(postgres_database)
    command = ["jobs", "create", "jc1/j1", "--file", str(tmp_path / "job.json"), "--url", arm.served.url]

    code = await asyncio.to_thread(run, [*command, "--subscription", "S", "--group", "RG"])

    said = capsys.readouterr()
    assert code == 1
    assert REMEDY in " ".join(said.err.split())
    assert leaked([PASSWORD], said.out + said.err) == []
    assert content(postgres_database) == before


def test_at_the_command_line_of_a_store_it_says_the_same(
    postgres_database: PostgresDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    shell = Shell("jobs", postgres_database, monkeypatch, capsys, remote=False)
    shell.work(_nothing)
    assert shell("create", "jc1").code == 0
    (tmp_path / "job.json").write_text(json.dumps(WITH_SECRET))
    (tmp_path / "jobs.json").write_text(json.dumps([{"name": "jc1/j1", **WITH_SECRET}]))
    before = content(postgres_database)

    created = shell("create", "jc1/j1", "--file", "job.json")
    imported = shell("import", "jobs.json")

    for said in (created, imported):
        assert said.code == 1
        assert REMEDY in " ".join(said.err.split())
        assert leaked([PASSWORD], said.out + said.err) == []
    assert content(postgres_database) == before


async def _nothing(_: object) -> None:
    """The store is there afterwards."""
