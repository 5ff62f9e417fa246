"""The disk is full: whoever hands in is told, and running tasks resume when there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from backstay import App, current_step
from backstay.errors import StoreFull
from backstay.store.sqlite import SqliteStore
from tests.support.databases import SqliteDatabase
from tests.support.mail_order import record
from tests.support.running import FASTER, ONCE, SOON


def limit(store: SqliteStore) -> Callable[..., None]:
    """Call it with no argument to fill the disk, with ``room=True`` to make room again."""

    def set_limit(*, room: bool = False) -> None:
        # Straight on the writing connection: while it is full, nothing gets through the front door.
        database = store._session.writer._connection
        [pages] = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {2**30 if room else pages}").fetchone()

    return set_limit


async def test_on_a_full_disk_submissions_fail_loudly_and_running_tasks_resume_when_there_is_room(
    sqlite_database: SqliteDatabase,
):
    """Nothing acknowledged is lost, nothing unacknowledged is half there."""
    app, store = App("shop"), SqliteStore(sqlite_database.url)
    full = limit(store)
    agent = app.agent("shop", retry=ONCE)
    began, go_on = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @agent.step
    async def make() -> str:
        calls.append(current_step().attempt)
        began.set()
        await go_on.wait()
        return "x" * 100_000

    @app.workflow
    async def order(note: str) -> int:
        return len(await make())

    async with app.run(store, **FASTER):
        handle = await app.submit(order, "small", id="t")
        await asyncio.wait_for(began.wait(), SOON)
        full()
        with pytest.raises(StoreFull, match="no room left"):
            await app.submit(order, "y" * 100_000, id="refused")

        go_on.set()
        with pytest.raises(TimeoutError):
            await handle.result(0.5)
        assert (await app.task("t")).state == "processing"

        full(room=True)
        assert await handle.result(SOON) == 100_000
        again = await app.submit(order, "y" * 100_000, id="refused")
        assert await again.result(SOON) == 100_000

    assert calls == [1, 1]
    assert record(sqlite_database)["failure_count"] == 0
