"""``store check`` as a command: what it says, and how it ends."""

from __future__ import annotations

import asyncio
import json

import pytest

from backstay.cli import run
from backstay.testing import ManualClock
from tests.integration.keeping.test_faults import filled, plant
from tests.support.databases import Database


def test_a_fault_is_listed_with_its_remedy_and_ends_the_command_with_1(
    database: Database, capsys: pytest.CaptureFixture[str]
):
    async def fill() -> None:
        store = database.store()
        await store.open()
        await filled(store, ManualClock())
        await store.close()

    asyncio.run(fill())
    assert run(["store", "check", "--store", database.url]) == 0
    assert "every rule holds" in capsys.readouterr().out

    plant(database, "UPDATE job SET entries = 7")

    assert run(["store", "check", "--store", database.url, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["ok"]
    [fault] = said["faults"]
    assert (fault["kind"], fault["id"]) == ("job_entries", "j")
    assert {*fault} == {"kind", "id", "wrong", "remedy"}
