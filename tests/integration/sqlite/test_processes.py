"""Several processes on one file: who is alive, who wrote, who migrates."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from backstay.domain.states import TaskState
from backstay.errors import StoreUnavailable, UnknownTask
from backstay.store.base import Changes
from backstay.store.sqlite import SqliteStore, connection, writer
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder, submitted
from backstay.testing.records import a_step, new_task
from tests.integration.sqlite.file import OpenStore, rows
from tests.integration.sqlite.processes import go_on, running, wait_until_ready

LONG_LEASE = timedelta(hours=1)


async def test_what_a_killed_process_held_is_free_at_once_although_its_lease_is_fresh(
    path: Path, store: SqliteStore
):
    body = """
        owner = await store.register(NewInstance(id="child", host="h", pid=1), now=clock.now())
        await store.submit([new_task("t")], now=clock.now())
        await store.claim(owner, [Runnable("ship", 1, timedelta(minutes=1))], limit=1, now=clock.now())
        ready()
    """
    with running(path, body) as process:
        wait_until_ready(process)
        [child] = await store.instances()
        now = child.heartbeat_at
        assert await store.bury(lease=LONG_LEASE, now=now) == 0, "it lives"
        process.kill()
        process.wait()

        assert await store.bury(lease=LONG_LEASE, now=now) == 1

    task = await store.task("t")
    assert (task.state, task.locked_by, task.crash_count) == (TaskState.PENDING, None, 1)
    assert list(path.parent.glob("*-instances/*")) == [], "its lock file is gone as well"


async def test_an_instance_of_another_store_object_is_known_to_live(opened: OpenStore, clock: ManualClock):
    mine, other = await opened(), await opened()
    alice = await Holder.joined(mine, clock, "alice")
    await alice.hold("t")

    assert await other.bury(lease=LONG_LEASE, now=clock.now()) == 0


async def test_an_instance_that_closed_its_store_without_retiring_is_known_to_be_dead(
    opened: OpenStore, clock: ManualClock
):
    mine, other = await opened(), await opened()
    await (await Holder.joined(mine, clock, "alice")).hold("t")

    await mine.close()

    assert await other.bury(lease=LONG_LEASE, now=clock.now()) == 1


async def test_a_retired_instance_leaves_no_lock_file(
    store: SqliteStore, path: Path, alice: Holder, clock: ManualClock
):
    assert len(list(path.parent.glob("*-instances/*"))) == 1

    await store.retire(alice.owner, now=clock.now())

    assert list(path.parent.glob("*-instances/*")) == []


async def test_a_write_of_another_process_is_heard_as_foreign(path: Path, store: SqliteStore):
    heard = asyncio.Event()
    store.listen(lambda changes: heard.set() if changes.foreign else None)

    with running(path, 'await store.submit([new_task("elsewhere")], now=clock.now())') as process:
        await asyncio.wait_for(heard.wait(), 20)
        assert await asyncio.to_thread(process.wait, 20) == 0

    assert (await store.task("elsewhere")).state is TaskState.PENDING


async def test_a_write_of_our_own_is_not_heard_as_foreign(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "FOREIGN_POLL_SECONDS", 0.001)  # it asks after each commit
    heard: list[Changes] = []
    store.listen(heard.append)

    for number in range(20):
        await submitted(store, clock, f"t{number}")

    assert len(heard) >= 20
    assert not [changes for changes in heard if changes.foreign]


async def test_several_processes_may_bring_the_schema_up_to_date_at_once(path: Path):
    # Ready before opening: all have imported what they need and go off together.
    frames = [running(path, "await store.instances()", before_opening="ready()") for _ in range(3)]
    with frames[0] as one, frames[1] as two, frames[2] as three:
        racers = (one, two, three)
        for racer in racers:
            wait_until_ready(racer)
        for racer in racers:
            go_on(racer)
        assert [racer.wait(20) for racer in racers] == [0, 0, 0]

    assert sum(row.startswith('INSERT INTO "migration"') for row in rows(path)) == 1


async def test_while_another_process_holds_the_write_lock_calls_fail_and_turns_wait(
    path: Path, opened: OpenStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)
    store = await opened()
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    answer = alice.post(task, steps=[a_step()])
    with pytest.raises(StoreUnavailable, match="another process held the write lock"):
        await store.submit([new_task("new")], now=clock.now())
    assert not answer.done()
    other.execute("ROLLBACK")
    other.close()

    assert await answer is None
    with pytest.raises(UnknownTask):
        await store.task("new")
