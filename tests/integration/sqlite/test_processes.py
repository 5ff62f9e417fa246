"""Several processes on one file: who is alive, who wrote, who migrates."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from backstay.domain.states import TaskState
from backstay.errors import StoreUnavailable, UnknownTask
from backstay.sql.migrations import load_migrations
from backstay.sql.sqlite import connection, others
from backstay.store.base import Changes
from backstay.store.sqlite import SqliteStore
from backstay.store.supervision import Freed
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder, submitted
from backstay.testing.records import a_step, new_task
from tests.integration.sqlite.file import OpenStore, rows
from tests.integration.sqlite.processes import go_on, running, wait_until_ready
from tests.support.leading import seize_lead

LONG_LEASE = timedelta(hours=1)


def lock_files(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.glob("*-instances/*"))


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
        leader = await seize_lead(store, now=now)
        assert await store.supervision.bury(leader, lease=LONG_LEASE, now=now) == Freed(), "it lives"
        process.kill()
        process.wait()

        assert await store.supervision.work_waits(lease=LONG_LEASE, grace=LONG_LEASE, now=now, spare=None)
        assert await store.supervision.bury(leader, lease=LONG_LEASE, now=now) == Freed(runs=1)
        await store.supervision.step_down(leader, now=now)

    task = await store.task("t")
    assert (task.state, task.locked_by, task.crash_count) == (TaskState.PENDING, None, 1)
    assert lock_files(path) == [], "its lock file is gone as well, and ours when we stepped down"


async def test_an_instance_of_another_store_object_is_known_to_live(opened: OpenStore, clock: ManualClock):
    mine, other = await opened(), await opened()
    alice = await Holder.joined(mine, clock, "alice")
    await alice.hold("t")
    leader = await seize_lead(other, now=clock.now())

    assert await other.supervision.bury(leader, lease=LONG_LEASE, now=clock.now()) == Freed()


async def test_an_instance_that_closed_its_store_without_retiring_is_known_to_be_dead(
    opened: OpenStore, clock: ManualClock
):
    mine, other = await opened(), await opened()
    await (await Holder.joined(mine, clock, "alice")).hold("t")

    await mine.close()

    leader = await seize_lead(other, now=clock.now())
    assert await other.supervision.bury(leader, lease=LONG_LEASE, now=clock.now()) == Freed(runs=1)


async def test_a_retired_instance_leaves_no_lock_file(
    store: SqliteStore, path: Path, alice: Holder, clock: ManualClock
):
    assert lock_files(path) == ["alice.lock"]

    await store.retire(alice.owner, now=clock.now())

    assert lock_files(path) == []


# Who leads


async def test_the_lead_of_a_killed_process_is_free_at_once_although_its_lease_is_fresh(
    path: Path, store: SqliteStore
):
    body = """
        await store.supervision.lead("child", lease=timedelta(hours=1), now=clock.now())
        ready()
    """
    with running(path, body) as process:
        wait_until_ready(process)
        first = await store.supervision.leader()
        assert first.until is not None
        now = first.until - LONG_LEASE
        assert await store.supervision.lead("me", lease=LONG_LEASE, now=now) == first, "it lives"
        process.kill()
        process.wait()

        leader = await store.supervision.lead("me", lease=LONG_LEASE, now=now)

    assert (leader.holder, leader.epoch) == ("me", first.epoch + 1)
    assert lock_files(path) == ["me.lock"]


async def test_the_lock_file_of_a_dead_leader_that_was_an_instance_is_left_to_its_burial(
    path: Path, opened: OpenStore, clock: ManualClock
):
    mine, other = await opened(), await opened()
    await (await Holder.joined(mine, clock, "alice")).hold("t")
    await mine.supervision.lead("alice", lease=LONG_LEASE, now=clock.now())
    await mine.close()

    leader = await other.supervision.lead("me", lease=LONG_LEASE, now=clock.now())

    assert (leader.holder, lock_files(path)) == ("me", ["alice.lock", "me.lock"])
    assert await other.supervision.bury(leader, lease=LONG_LEASE, now=clock.now()) == Freed(runs=1)
    assert lock_files(path) == ["me.lock"]


async def test_who_does_not_get_the_lead_leaves_no_lock_file_and_an_instance_keeps_its_own(
    path: Path, store: SqliteStore, alice: Holder, clock: ManualClock
):
    hers = await store.supervision.lead("alice", lease=LONG_LEASE, now=clock.now())
    await store.supervision.lead("me", lease=LONG_LEASE, now=clock.now())
    assert lock_files(path) == ["alice.lock"]

    await store.supervision.step_down(hers, now=clock.now())
    await store.supervision.lead("me", lease=LONG_LEASE, now=clock.now())

    assert lock_files(path) == ["alice.lock", "me.lock"]


async def test_several_processes_that_look_at_once_all_see_who_is_dead(opened: OpenStore, clock: ManualClock):
    """A look must not be taken for a sign of life."""
    mine, *others = [await opened() for _ in range(4)]
    await Holder.joined(mine, clock, "alice")
    await mine.close()

    for _ in range(50):
        looks = [
            one.supervision.work_waits(lease=LONG_LEASE, grace=LONG_LEASE, now=clock.now(), spare=None)
            for one in others
        ]
        assert await asyncio.gather(*looks) == [True] * 3


# Who writes


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
    monkeypatch.setattr(others, "POLL_SECONDS", 0.001)  # it asks after each commit
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

    applied = sum(row.startswith('INSERT INTO "migration"') for row in rows(path))
    assert applied == len(load_migrations("backstay.store.sqlite"))


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
