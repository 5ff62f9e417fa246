"""Commands of jobs on a store that is empty, and at a server that has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.databases import Database, SqliteDatabase
from tests.support.shell import Shell


@pytest.fixture(params=["store", "server"])
def shell_on(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Database], Shell]:
    monkeypatch.chdir(tmp_path)

    def shell_on(database: Database) -> Shell:
        shell = Shell("jobs", database, monkeypatch, capsys, remote=request.param == "server")
        shell.work(do_nothing)
        return shell

    return shell_on


async def do_nothing(_: object) -> None:
    """The store is there afterwards."""


@pytest.fixture
def shell(shell_on: Callable[[Database], Shell], sqlite_database: SqliteDatabase) -> Shell:
    return shell_on(sqlite_database)


@pytest.fixture
def each_shell(shell_on: Callable[[Database], Shell], database: Database) -> Shell:
    """For what the store must know."""
    return shell_on(database)
