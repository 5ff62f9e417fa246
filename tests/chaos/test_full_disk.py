"""The disk is full under a process that takes orders and works on them: it refuses, waits, and goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from backstay.errors import StoreFull, Unavailable
from backstay.runtime import Running
from backstay.settings import Settings
from backstay.store.sqlite import SqliteStore
from tests.chaos.matrix import FULL, Healing, Part, Watch, failure
from tests.chaos.workload import (
    Effects,
    Site,
    append,
    effects_of,
    ended,
    ends_of,
    is_refused,
    orders,
    refusals,
    started,
)
from tests.support.databases import Database, SqliteDatabase
from tests.support.platform import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

ORDERS = 2_000 if FULL else 300
FULL_SECONDS = 20.0 if FULL else 1.0


@pytest.fixture
def database(sqlite_database: SqliteDatabase) -> Database:
    """A full disk under PostgreSQL is an outage of the server."""
    return sqlite_database


def work(site: Site) -> None:
    """Take orders and work on them, until killed. While there is a file ``full`` there is no room."""
    asyncio.run(_work(site))


async def _work(site: Site) -> None:
    store = SqliteStore(site.store)
    settings = Settings.load({"store": site.store, **site.options}, environment={})
    async with Running(orders(site.effects).registry, settings, store=store) as live:
        assert live.client is not None
        limiting = asyncio.create_task(_limit(store, site.folder))
        for number in range(ORDERS):
            while True:
                try:
                    order = {"number": number, "refused": is_refused(number)}
                    await live.client.submit("order", order, id=f"order-{number}")
                    break
                except StoreFull:
                    append(site.folder / "refused", f"order-{number}")
                except Unavailable:
                    pass
                await asyncio.sleep(0.05)
            append(site.folder / "taken", f"order-{number}")
        await limiting


async def _limit(store: SqliteStore, folder: Path) -> None:
    was_full = False
    while True:
        is_full = (folder / "full").exists()
        if is_full != was_full:
            # The database's own limit: it meets it where it would meet the end of the disk.
            connection = store._session.writer._connection
            [pages] = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages if is_full else 2**30}").fetchone()
            was_full = is_full
        await asyncio.sleep(0.01)


@failure(
    "the disk is full",
    of=Part.DATABASE,
    seen=(
        "submissions are refused with `StoreFull` (503); tasks stand still; nothing that was "
        "acknowledged is lost"
    ),
    heals="what could not be written is kept and written once there is room; nobody counts it as a failure",
    takes="until there is room, and a second (SQLite)",
    within="60s",
    invariants=(1, 2, 3, 4, 5, 7, 14, 16),
)
def test_when_the_disk_is_full_work_stands_still_and_goes_on_when_there_is_room(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    site = Site(tmp_path, database.url, {"supervisor_period": "100ms"})
    refused, taken = Effects(tmp_path / "refused"), Effects(tmp_path / "taken")
    child = started(work, site)
    try:
        eventually(lambda: len(taken.count()), lambda number: number > ORDERS // 10, what="a process at work")
        (tmp_path / "full").touch()
        eventually(refused.count, bool, what="a submission that was refused")
        stood = ended(database)
        time.sleep(FULL_SECONDS)
        gone_on = ended(database) - stood
        assert child.is_alive()
        with healing():
            (tmp_path / "full").unlink()
            eventually(
                lambda: ended(database),
                lambda number: number == ORDERS,
                what="the end of all orders",
                seconds=healing.within_seconds,
            )
    finally:
        child.kill()
        child.join()

    assert gone_on < ORDERS // 2, "there was room all the time"
    assert set(taken.count()) == {f"order-{number}" for number in range(ORDERS)}
    assert site.effects.count() == dict.fromkeys(effects_of(refusals(ORDERS)), 1)
    assert database.rows("SELECT id FROM task WHERE failure_count + crash_count > 0") == []
    watch.facts.model = ends_of(refusals(ORDERS))
