"""What was acknowledged is on the disk, and nothing is acknowledged before."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from backstay.domain.states import TaskState
from backstay.store.base import Changes
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.payloads import large
from backstay.testing.records import a_step
from tests.integration.sqlite.file import OpenStore
from tests.integration.sqlite.processes import running, wait_until_ready

LARGE = large("x")


async def test_the_writing_connection_waits_for_the_disk_at_each_commit(store: SqliteStore):
    def settings(tables: Any, _changes: Changes) -> list[object]:
        pragmas = ("journal_mode", "synchronous")
        return [tables.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]

    full = 2
    # The journal mode is a property of the file, synchronous of this very connection.
    assert await store._session.write(settings) == ["wal", full]


async def test_everything_is_there_after_the_store_was_closed_and_opened_again(
    opened: OpenStore, clock: ManualClock
):
    first = await opened()
    alice = await Holder.joined(first, clock, "alice")
    task = await alice.hold("t", input=LARGE)
    await first.signal("t", "go", LARGE, dedup=None, now=clock.now())
    await alice.write(task, steps=[a_step(output=LARGE)])
    before = await first.task("t"), await first.steps("t"), await first.standing([task.key])
    await first.close()

    second = await opened()

    assert (await second.task("t"), await second.steps("t"), await second.standing([task.key])) == before


async def test_nothing_is_settled_before_its_commit(opened: OpenStore, path: Path, clock: ManualClock):
    reached, allowed = threading.Event(), threading.Event()
    allowed.set()

    def boundary(moment: str) -> None:
        if moment == "before":
            reached.set()
            assert allowed.wait(10)

    store = await opened(boundary=boundary)
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    reached.clear()
    allowed.clear()

    answer = alice.post(task, steps=[a_step()])
    await asyncio.to_thread(reached.wait, 10)
    assert not answer.done()
    assert await store.steps("t") == []
    allowed.set()

    assert await answer is None
    assert len(await store.steps("t")) == 1


async def test_what_was_acknowledged_survives_the_death_of_the_process_that_heard_it(
    path: Path, opened: OpenStore
):
    with running(path, 'await store.submit([new_task("acknowledged")], now=clock.now()); ready()') as process:
        wait_until_ready(process)
        process.kill()

    store = await opened()

    assert (await store.task("acknowledged")).state is TaskState.PENDING
