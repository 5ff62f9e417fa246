"""The copies from which tests resume: who takes them at every commit holds nobody up."""

from __future__ import annotations

import asyncio

from backstay.domain.lease import Leader
from backstay.store.postgres.tables import Tables
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE
from tests.support.crashes import PostgresCrashes
from tests.support.databases import PostgresDatabase


async def test_who_is_stopped_in_the_middle_of_a_commit_may_still_await_another(
    postgres_database: PostgresDatabase, clock: ManualClock
):
    """As a supervisor does that steps down; its commits would wait for one another for ever."""
    crashes = PostgresCrashes(postgres_database)
    stopped: list[str] = []

    async def stop_the_first(moment: str, tables: Tables) -> None:
        await crashes._reached(moment, tables)
        task = asyncio.current_task()
        if task is not None and task.get_name() == "supervisor" and moment == "before":
            stopped.append(moment)
            task.cancel()

    store = postgres_database.store(boundary=stop_the_first, server_clock=False)
    await store.open()

    async def lead(holder: str) -> Leader:
        return await store.supervision.lead(holder, lease=LEASE, now=clock.now())

    async def supervise() -> None:
        try:
            await lead("one")
        finally:
            await asyncio.shield(lead("two"))

    supervisor = asyncio.create_task(supervise(), name="supervisor")
    ended, _ = await asyncio.wait([supervisor], timeout=10)
    supervisor.cancel()
    await store.close()
    assert stopped == ["before"]
    assert ended == {supervisor}
