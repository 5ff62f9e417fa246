"""Several processes on one store: they share the work, take over from one another, and trust no clock."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from backstay.client import Client
from backstay.domain.lease import Leader, Owner
from backstay.errors import StoreUnavailable
from backstay.observe import INSTANCE_DEAD, LEASE_LOST, WRITE_REFUSED
from backstay.store.base import Changes, InstanceRecord
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.tables import Tables
from backstay.store.supervision import Freed
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, Holder, submitted
from tests.integration.postgres.schema import OpenStore, Schema
from tests.integration.postgres.worker import Effects, Worker, workload
from tests.support.leading import seize_lead
from tests.support.running import eventually

BACKLOG = [f"t{number:04}" for number in range(2_000)]


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture
async def client(postgres_url: str, effects: Effects) -> AsyncIterator[Client]:
    async with workload(effects).client(postgres_url) as client:
        yield client


async def submit(client: Client, ids: list[str]) -> None:
    await asyncio.gather(*(client.submit("work", id=one) for one in ids))


async def processed(schema: Schema, number: int) -> None:
    """Come back once so many tasks are processed; a machine that others use takes its time."""
    async with asyncio.timeout(60):
        while (await schema.states()).get("processed") != number:
            await asyncio.sleep(0.02)


async def instance_of(store: PostgresStore, worker: Worker) -> InstanceRecord:
    """The instance as which a worker lives."""

    async def look() -> list[InstanceRecord]:
        return [one for one in await store.instances() if one.pid == worker.pid and one.live]

    [found] = await eventually(look, lambda seen: len(seen) == 1, what="a registration")
    return found


# They share the work


async def test_of_two_stores_that_claim_one_backlog_each_task_goes_to_exactly_one(
    opened: OpenStore, clock: ManualClock
):
    stores = [await opened(), await opened()]
    await submitted(stores[0], clock, *BACKLOG)

    async def claim_all(store: PostgresStore, name: str) -> list[str]:
        holder, claimed = await Holder.joined(store, clock, name), []
        while found := await holder.claim(limit=37):
            claimed += [(one.task.id, one.task.locked_by) for one in found]
        assert all(locked_by == name for _, locked_by in claimed)
        return [task_id for task_id, _ in claimed]

    names = [(store, f"{number}") for number, store in enumerate(stores * 2)]
    claimed = await asyncio.gather(*(claim_all(store, name) for store, name in names))

    print([len(one) for one in claimed])
    assert sorted(task_id for one in claimed for task_id in one) == BACKLOG
    assert all(claimed), "everybody had a share"


async def test_of_two_processes_that_work_off_one_backlog_each_step_has_its_effect_once(
    postgres_url: str, tmp_path: Path, client: Client, store: PostgresStore, schema: Schema
):
    effects = Effects(tmp_path / "effects")
    with (
        Worker(postgres_url, tmp_path, lease="10s") as one,
        Worker(postgres_url, tmp_path, lease="10s") as two,
    ):
        # One alone would be done before the other is there.
        for worker in (one, two):
            await instance_of(store, worker)
        began = time.monotonic()
        await submit(client, BACKLOG)
        await processed(schema, len(BACKLOG))
        took = time.monotonic() - began
        shares = [len(effects.keys(by=worker.pid)) for worker in (one, two)]
        await asyncio.gather(one.stop(), two.stop())

    print(f"{len(BACKLOG)} tasks in {took:.1f} s, effects {shares}")
    done = Counter(effects.keys())
    assert done == Counter({f"{task}/{step}": 1 for task in BACKLOG for step in ("first:1", "second:1")})
    assert all(shares), "both worked"
    assert await schema.value("SELECT max(lock_number) FROM {schema}.task") == 1


# One stalls


async def test_a_stalled_process_is_relieved_and_each_of_its_late_writes_is_refused_and_counted(
    postgres_url: str, tmp_path: Path, client: Client, store: PostgresStore, schema: Schema
):
    """SIGSTOP past its lease, then SIGCONT."""
    effects, tasks, seconds = Effects(tmp_path / "effects"), BACKLOG[:30], 1.0
    with Worker(postgres_url, tmp_path, seconds=seconds) as stalled:
        before = await instance_of(store, stalled)
        await submit(client, tasks)
        await eventually(
            lambda: _begun(effects, stalled), lambda number: number == len(tasks), what="30 begun"
        )
        stalled.stall()
        begun_at = time.monotonic()

        with Worker(postgres_url, tmp_path) as other:
            await processed(schema, len(tasks))
            assert await schema.held_by_the_dead() == []
            recorded, done = await _journal(schema), Counter(effects.keys())

            # When it goes on, all of its bodies end at once, long after others have done their work.
            await asyncio.sleep(begun_at + seconds - time.monotonic())
            stalled.go_on()
            await eventually(
                lambda: stalled.counted(WRITE_REFUSED), lambda seen: seen == len(tasks), what="30 refusals"
            )
            after = await instance_of(store, stalled)
            await other.stop()

        await submit(client, ["afterwards"])
        await processed(schema, len(tasks) + 1)
        counted = await stalled.stop()

    assert counted[WRITE_REFUSED] == len(tasks), "each of its writes is counted, and counted once"
    assert counted[LEASE_LOST] >= len(tasks), "each of its runs is told"
    assert counted[INSTANCE_DEAD] == 1
    assert after.id != before.id
    assert {one.id: one.live for one in await store.instances()}[before.id] is False
    assert [row for row in await _journal(schema) if row[0] != "afterwards"] == recorded
    # What it had begun when it was stalled was begun again; what was recorded as done never.
    assert {done[f"{task}/first:1"] for task in tasks} == {2}
    assert {done[f"{task}/second:1"] for task in tasks} == {1}
    assert Counter(effects.keys()) - Counter(effects.keys("afterwards")) == done


async def _begun(effects: Effects, worker: Worker) -> int:
    return len(effects.keys(by=worker.pid))


async def _journal(schema: Schema) -> list[tuple[object, ...]]:
    return await schema.rows(
        "SELECT task.id, step.* FROM {schema}.step JOIN {schema}.task ON task.key = step.task_key"
        " ORDER BY task.id, step.key"
    )


async def between_statements(_tables: Tables) -> None:
    """As far as the server can tell, its client thinks."""


async def inside_a_statement(tables: Tables) -> None:
    """The driver has sent it, and not yet its values: the server takes itself to be at work."""
    await tables.connection.prepare(f"{tables._queries['leader'].sql} -- which is new here")


class Stall(NamedTuple):
    """Where a process stands still, and what the server calls that."""

    stand: Callable[[Tables], Awaitable[None]]
    state: str


STALLS = pytest.mark.parametrize(
    "stall",
    [
        pytest.param(Stall(between_statements, "idle in transaction"), id="between statements"),
        pytest.param(Stall(inside_a_statement, "active"), id="inside a statement"),
    ],
)


@STALLS
async def test_a_process_that_stalls_inside_a_transaction_does_not_hold_up_the_others_for_long(
    opened: OpenStore, clock: ManualClock, store: PostgresStore, schema: Schema, stall: Stall
):
    """Its connection stays open and says nothing; what it locked is free again after a few seconds."""
    stalled = await opened()
    alice = await Holder.joined(stalled, clock, "alice")
    await alice.hold("t")
    clock.pass_time(LEASE * 2)
    silence = asyncio.Event()

    async def stand_still(tables: Tables, _changes: Changes) -> None:
        await tables.epochs(["alice"])
        await stall.stand(tables)
        await silence.wait()

    began = time.monotonic()
    standing = asyncio.create_task(stalled._session.write(stand_still))
    await schema.idle_in_transaction(state=stall.state)

    leader = await seize_lead(store, now=clock.now())

    async def bury() -> Freed:
        return await store.supervision.bury(leader, lease=LEASE, now=clock.now())

    await eventually(bury, lambda freed: freed == Freed(runs=1), what="a burial")

    took = time.monotonic() - began
    print(f"freed after {took:.1f} s")
    assert took > 1, "it was held up at all"
    standing.cancel()
    await asyncio.wait([standing])


@STALLS
async def test_a_leader_that_stalls_inside_a_transaction_does_not_keep_the_lead_for_long(
    opened: OpenStore, clock: ManualClock, store: PostgresStore, schema: Schema, stall: Stall
):
    stalled = await opened()
    leader = await stalled.supervision.lead("stalled", lease=LEASE, now=clock.now())
    silence = asyncio.Event()

    async def stand_still(tables: Tables, _changes: Changes) -> None:
        await tables.run("leads", holder=leader.holder, epoch=leader.epoch, now=clock.now())
        await stall.stand(tables)
        await silence.wait()

    standing = asyncio.create_task(stalled._session.write(stand_still))
    await schema.idle_in_transaction(state=stall.state)
    clock.pass_time(LEASE * 2)

    async with asyncio.timeout(30):
        next_one = await _lead_at_last(store, clock)

    assert next_one == Leader(holder="next", epoch=leader.epoch + 1, until=clock.now() + LEASE)
    standing.cancel()
    await asyncio.wait([standing])


async def _lead_at_last(store: PostgresStore, clock: ManualClock) -> Leader:
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await store.supervision.lead("next", lease=LEASE, now=clock.now())


# Their clocks differ


async def test_processes_whose_clocks_are_hours_apart_leave_each_other_alive_and_agree_on_the_time(
    postgres_url: str, tmp_path: Path, client: Client, store: PostgresStore, schema: Schema
):
    hour = 3_600.0
    with (
        Worker(postgres_url, tmp_path, ahead_seconds=hour) as ahead,
        Worker(postgres_url, tmp_path, ahead_seconds=-hour) as behind,
    ):
        before = [await instance_of(store, worker) for worker in (ahead, behind)]
        began = time.monotonic()
        await asyncio.gather(*(client.submit("nap", "2s", id=f"nap-{number}") for number in range(20)))
        await submit(client, BACKLOG[:200])
        await processed(schema, 220)
        napped = time.monotonic() - began

        after = [await instance_of(store, worker) for worker in (ahead, behind)]
        counted = await asyncio.gather(ahead.stop(), behind.stop())

    assert [one.id for one in after] == [one.id for one in before]
    print(f"220 tasks, some of them asleep for 2 s: {napped:.1f} s")
    assert [one.get(INSTANCE_DEAD, 0) for one in counted] == [0, 0]
    assert napped >= 2
    assert await schema.value("SELECT max(failure_count + crash_count) FROM {schema}.task") == 0
    slept = await schema.rows(
        "SELECT extract(epoch FROM ended_at - started_at)::float FROM {schema}.step WHERE kind = 'sleep'"
    )
    assert all(1.9 < seconds < 8 for [seconds] in slept), slept
    skewed = await schema.rows(
        "SELECT id, created_at, updated_at FROM {schema}.task"
        " WHERE updated_at NOT BETWEEN created_at AND clock_timestamp() + interval '1 second'"
    )
    assert skewed == []


async def test_a_sign_of_life_counts_by_the_servers_clock_whatever_the_callers_clock_says(
    opened: OpenStore, clock: ManualClock
):
    store = await opened(server_clock=True)
    for name in ("alice", "bob"):
        await Holder.joined(store, clock, name)  # who believes that it is 2030

    leader = await seize_lead(store, now=clock.now())
    buried = await store.supervision.bury(leader, lease=LEASE, now=clock.now(), spare=Owner("alice", 1))
    assert buried == Freed()
    assert [one.live for one in await store.instances()] == [True, True]
