"""What is closed or cancelled while it writes leaves nothing in anybody's way."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from backstay.domain.states import TaskState
from backstay.errors import Closed, StoreUnavailable
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.lane import GOODBYE_SECONDS
from backstay.store.postgres.session import CLOSE_SECONDS
from backstay.testing import ManualClock
from backstay.testing.promises.holder import CANCEL, Holder, submitted
from backstay.testing.records import a_step, let_go, new_task
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.pgproxy import PgProxy
from tests.support.running import eventually

# Closing


async def test_what_was_handed_in_before_closing_is_written(
    opened: OpenStore, clock: ManualClock, schema: Schema
):
    store = await opened()
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    answer = alice.post(task, task=let_go(task, TaskState.PROCESSED))
    submitting = asyncio.create_task(store.submit([new_task("late")], now=clock.now()))
    await asyncio.sleep(0)

    await store.close()
    await store.close()

    assert await answer is None
    await submitting
    assert await schema.states() == {"processed": 1, "pending": 1}
    assert await schema.rows("SELECT * FROM {schema}.writer") == [], "it leaves no trace of its lanes"


async def test_a_closed_store_refuses_everything(store: PostgresStore, clock: ManualClock):
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    await store.close()

    with pytest.raises(Closed):
        await store.submit([new_task("late")], now=clock.now())
    with pytest.raises(Closed):
        await store.task("t")
    with pytest.raises(Closed):
        await alice.write(task, steps=[a_step()])
    with pytest.raises(Closed):
        await store.beat(alice.owner, now=clock.now())


async def test_a_store_that_is_closed_while_it_still_connects_leaves_no_error_behind(opened: OpenStore):
    left: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: left.append(context["message"]))

    for turns in range(30):
        store = await opened()
        for _ in range(turns % 10):
            await asyncio.sleep(0)
        await store.close()

    gc.collect()
    assert left == []


@pytest.mark.parametrize("how", ["refused", "hanging"])
async def test_a_store_that_is_closed_while_its_server_is_away_tells_those_who_wait_in_bounded_time(
    opened: OpenStore, proxy: PgProxy, proxy_url: str, clock: ManualClock, how: str
):
    store = await opened(proxy_url)
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    if how == "refused":
        proxy.refuse = True
        proxy.drop_all()
    else:
        proxy.hold()

    answer = alice.post(task, steps=[a_step()])
    waiting = [
        asyncio.create_task(store.submit([new_task("late")], now=clock.now())),
        asyncio.create_task(alice.claim()),
        asyncio.create_task(store.amend("t", CANCEL, now=clock.now())),
    ]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await store.close()
    took = time.monotonic() - began
    told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)

    print(f"{how}: closed after {took:.1f} s")
    assert took < CLOSE_SECONDS + 2 * GOODBYE_SECONDS + 1
    assert isinstance(await answer, Closed)
    assert all(isinstance(one, Closed | StoreUnavailable) for one in told), told
    proxy.release()


# Cancelled callers


async def test_a_caller_may_be_cancelled_at_any_moment_and_its_lane_goes_on(
    opened: OpenStore, clock: ManualClock, schema: Schema
):
    store = await opened(connections=1)
    alice = await Holder.joined(store, clock, "alice")
    await submitted(store, clock, "t")
    before = await schema.connections()

    for milliseconds in range(0, 40, 2):
        calls = [
            asyncio.create_task(alice.claim(limit=1)),
            asyncio.create_task(store.signal("t", "go", b"1", dedup="once", now=clock.now())),
            asyncio.create_task(store.submit([new_task(f"new-{milliseconds}")], now=clock.now())),
            asyncio.create_task(store.beat(alice.owner, now=clock.now())),
        ]
        await asyncio.sleep(milliseconds / 1_000)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)

    await asyncio.wait_for(store.beat(alice.owner, now=clock.now()), 5)
    await asyncio.wait_for(store.signal("t", "go", b"1", dedup="once", now=clock.now()), 5)
    assert await schema.value("SELECT count(*) FROM {schema}.signal") == 1
    assert await eventually(
        schema.connections, lambda number: number <= before + 4, what="no connection left over"
    )


async def test_what_a_cancelled_claim_may_have_locked_is_freed_with_its_instance(
    opened: OpenStore, clock: ManualClock, schema: Schema
):
    threshold = Threshold()
    store = await opened(boundary=threshold)
    alice = await Holder.joined(store, clock, "alice")
    await submitted(store, clock, "t")
    async with schema.slow_commits("task"):
        claiming = asyncio.create_task(alice.claim())
        await schema.one_inside_commit()
        claiming.cancel()
        await asyncio.wait([claiming])
        retiring = asyncio.create_task(store.retire(alice.owner, now=clock.now()))
        await asyncio.sleep(0.1)

    await retiring
    assert await schema.rows("SELECT state, locked_by FROM {schema}.task") == [("pending", None)]
    assert await schema.held_by_the_dead() == []


async def test_cancelled_submissions_leave_the_others_alone(store: PostgresStore, clock: ManualClock):
    submitting = [
        asyncio.create_task(store.submit([new_task(f"t{number}")], now=clock.now())) for number in range(50)
    ]
    await asyncio.sleep(0)
    for one in submitting[::2]:
        one.cancel()

    kept = await asyncio.gather(*submitting[1::2])

    assert len(kept) == 25


# Connections


async def test_connections_that_died_while_nobody_used_them_are_replaced(
    store: PostgresStore, clock: ManualClock, schema: Schema
):
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    await alice.write(task, steps=[a_step()])
    await store.beat(alice.owner, now=clock.now())

    for _ in range(3):
        assert await schema.end_connections() > 0
        assert await alice.write(task, steps=[a_step()]) is None
        await store.beat(alice.owner, now=clock.now())
        await submitted(store, clock, "u")
        assert (await store.task("t")).locked_by == "alice"


async def test_a_caller_for_whom_no_connection_is_free_in_time_hears_so(
    opened: OpenStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.store.postgres.lane.PATIENCE_SECONDS", 0.2)
    threshold = Threshold()
    store = await opened(connections=1, boundary=threshold)
    await submitted(store, clock, "t")
    threshold.close()
    holding = asyncio.create_task(store.amend("t", CANCEL, now=clock.now()))
    await threshold.reached()

    with pytest.raises(StoreUnavailable, match="all 1 connections to the store are busy"):
        await store.task("t")

    threshold.open()
    await holding
    assert (await store.task("t")).state is TaskState.CANCELLED
