"""Planted secrets are found nowhere: not in the database or its files, nor in logs, answers or exports.

Every kind of secret there is, in main and error actions, written by PUT, PATCH and import, and used by
attempts that succeed and by attempts that fail, at receivers that repeat what they were told.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from backstay import App
from backstay.cli import run
from backstay.runtime import Running
from backstay.runtime.http import answering, listen
from backstay.settings import Settings
from tests.integration.jobs.conftest import authority
from tests.integration.sealing.planting import KINDS, Planter, Receivers, receivers
from tests.support.arm import ROOT, VERSION
from tests.support.databases import Database
from tests.support.leaks import everything_in, leaked
from tests.support.running import eventually

__all__ = ["authority"]

#: They run when they are told to.
LATER = {"startTime": "2090-01-01T00:00:00Z"}
ATTEMPTS_SECONDS = 60
WHERE = ("--subscription", "S", "--group", "RG")


class Tongue:
    """Everything that is told to anybody who asks the one server, over HTTP or at the command line."""

    def __init__(self, url: str, store: str, session: aiohttp.ClientSession, capsys: Any) -> None:
        self.told = ""
        self._url = url
        self._store = store
        self._session = session
        self._capsys = capsys

    async def asked(self, method: str, path: str, body: Any = None) -> Any:
        async with self._session.request(method, self._url + path, json=body) as answer:
            text = await answer.text()
            self.told += f"{dict(answer.headers)} {text}\n"
            assert answer.status < 300, text
            return json.loads(text) if text.startswith(("{", "[")) else text

    async def arm(self, method: str, path: str, body: Any = None) -> Any:
        return await self.asked(method, f"{ROOT}{path}?api-version={VERSION}", body)

    async def typed(self, *command: str) -> None:
        """Typed twice: by somebody at a server, and by somebody at the store."""
        for where in (("--url", self._url), ("--store", self._store)):
            self._capsys.readouterr()
            code = await asyncio.to_thread(run, [*command, *where])
            said = self._capsys.readouterr()
            self.told += said.out + said.err
            assert code == 0, said.err

    async def attempts(self, job: str, number: int) -> None:
        await eventually(
            lambda: self.arm("GET", f"{job}/history"),
            lambda found: len(found["value"]) >= number,
            what=f"{number} attempts of {job}",
            seconds=ATTEMPTS_SECONDS,
        )


@asynccontextmanager
async def serving(database: Database, those: Receivers) -> AsyncIterator[str]:
    """All roles and the HTTP interface in this process, whose whole log the test sees; its address."""
    given = {"store": database.url, "port": "0", **database.sealing, **those.settings}
    settings = Settings.load(given, environment={})
    registry = App("jobs").registry
    with listen(settings) as socket:
        async with (
            Running(registry, settings) as running,
            answering(running, settings, on=socket, mounts={}, dials={}, ended=lambda: None) as address,
        ):
            yield address


@pytest.fixture
async def those(authority: trustme.CA) -> AsyncIterator[Receivers]:
    async with receivers(authority) as made:
        yield made


@pytest.fixture
def plant(those: Receivers, authority: trustme.CA) -> Planter:
    return Planter(those, authority)


@pytest.fixture
async def tongue(
    database: Database,
    those: Receivers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> AsyncIterator[Tongue]:
    monkeypatch.chdir(tmp_path)
    for name, value in database.sealing_variables.items():
        monkeypatch.setenv(name, value)
    async with serving(database, those) as url, aiohttp.ClientSession() as session:
        yield Tongue(url, database.url, session, capsys)


def document(action: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"action": action, **LATER}}


def failing(plant: Planter, kind: str, *, error_is_there: bool) -> dict[str, Any]:
    return plant.action(kind, there=False, errorAction=plant.action(kind, there=error_is_there))


async def write_and_run(tongue: Tongue, plant: Planter, folder: Path) -> list[str]:
    """Every kind in every way; the paths of the jobs."""
    collection = {"location": "westus", "properties": {"sku": {"name": "P20Premium"}}}
    await tongue.arm("PUT", "/jc", collection)
    imported = [{"name": "jc", **collection}]
    for kind in KINDS:
        good, bad = f"/jc/jobs/{kind}-good", f"/jc/jobs/{kind}-bad"
        await tongue.arm("PUT", good, document(plant.action(kind, there=True)))
        await tongue.arm("PUT", bad, document(failing(plant, kind, error_is_there=True)))
        imported += [
            {"name": f"jc/{kind}-imported-good", **document(plant.action(kind, there=True))},
            {"name": f"jc/{kind}-imported-bad", **document(failing(plant, kind, error_is_there=False))},
        ]
        await ran(tongue, {good: 1, bad: 2})
        # What it was sent so far is forgotten, and may be found no more than what comes now.
        await tongue.arm("PATCH", good, document(failing(plant, kind, error_is_there=True)))
        await ran(tongue, {good: 3})
    (folder / "in.json").write_text(json.dumps(imported))
    await tongue.typed("jobs", "import", "in.json", *WHERE)
    (folder / "in.json").unlink()
    await ran(tongue, {f"/jc/jobs/{kind}-imported-good": 1 for kind in KINDS})
    await ran(tongue, {f"/jc/jobs/{kind}-imported-bad": 2 for kind in KINDS})
    return [
        f"/jc/jobs/{kind}-{how}" for kind in KINDS for how in ("good", "bad", "imported-good", "imported-bad")
    ]


async def ran(tongue: Tongue, attempts: dict[str, int]) -> None:
    for job in attempts:
        await tongue.arm("POST", f"{job}/run")
    for job, number in attempts.items():
        await tongue.attempts(job, number)


async def ask_everything(tongue: Tongue, jobs: Iterable[str]) -> None:
    for path in ("", "/jc", "/jc/jobs", *jobs, *(f"{job}/history" for job in jobs)):
        await tongue.arm("GET", path)
    tasks = await tongue.asked("GET", "/v1/tasks?limit=1000")
    for task in tasks["items"]:
        for path in ("", "/steps", "/why"):
            await tongue.asked("GET", f"/v1/tasks/{task['id']}{path}")
    for path in ("/v1/audit?limit=1000", "/v1/alerts", "/metrics"):
        await tongue.asked("GET", path)


async def type_everything(tongue: Tongue, jobs: Iterable[str]) -> None:
    for more in ((), ("--json",)):
        await tongue.typed("jobs", "ls", "jc", *WHERE, *more)
        await tongue.typed("jobs", "show", "jc", *WHERE, *more)
        await tongue.typed("tasks", "ls", *more)
        await tongue.typed("audit", *more)
        for job in jobs:
            await tongue.typed("jobs", "show", job[1:].replace("/jobs/", "/"), *WHERE, *more)
            await tongue.typed("jobs", "history", job[1:].replace("/jobs/", "/"), *WHERE, *more)
    await tongue.typed("jobs", "export", *WHERE)
    await tongue.typed("jobs", "export", "--file", "out.json", *WHERE)


@pytest.mark.timeout(180)
async def test_planted_secrets_are_nowhere(  # noqa: PLR0917
    database: Database,
    those: Receivers,
    plant: Planter,
    tongue: Tongue,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)

    jobs = await write_and_run(tongue, plant, tmp_path)
    await ask_everything(tongue, jobs)
    await type_everything(tongue, [job for job in jobs if job.endswith("bad")][:4])

    found = {
        "the database": everything_in(database),
        "what was told": tongue.told,
        "the log": caplog.text + "".join(str(record.__dict__) for record in caplog.records),
        "the export": (tmp_path / "out.json").read_text(),
    }
    planted = plant.planted()
    assert {where: leaked(planted, text) for where, text in found.items()} == {where: [] for where in found}
    check_that_there_was_something_to_find(database, those, tongue)


def check_that_there_was_something_to_find(database: Database, those: Receivers, tongue: Tongue) -> None:
    # Of each kind: one PUT with one action, which PATCH makes two, and PUT and import of three more.
    kinds_with_one, of_certificates = len(KINDS) - 1, 2
    assert database.rows("SELECT count(*) FROM job_sealed_secret") == [
        ((kinds_with_one + of_certificates) * 7,)
    ]
    assert "you said" in tongue.told, "receivers did repeat"
    assert "[hidden]" in tongue.told
    assert [one.path for one in those.https.asked].count("/there") == 4
    assert len(those.bus.arrived) == 8
    assert len([one for one in those.storage.asked if "pl4nted" not in one.query_string]) == 4
    assert {"/there/oauth2/token", "/none/oauth2/token"} == {one.path for one in those.tokens.asked}
