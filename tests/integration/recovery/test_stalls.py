"""A process that is taken for dead, and lives: its task is another's, and nothing it says counts."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, current_step
from backstay.observe import INSTANCE_DEAD, LEASE_LOST, counters
from backstay.store.supervision import Freed
from backstay.supervisor import sweep
from tests.support.databases import Database
from tests.support.leading import free_lead, seize_lead
from tests.support.mail_order import Shop, record
from tests.support.running import FASTER, ONCE, SOON, eventually
from tests.support.stores import StalledStore

AN_HOUR = timedelta(hours=1)


async def test_an_instance_declared_dead_is_refused_every_write_and_starts_again_under_a_new_id(
    database: Database,
):
    """Promise 3: it was only stalled, and wakes up too late; what it computed is dropped."""
    shop, store = Shop(), database.store_as(StalledStore)
    other = database.store()
    await other.open()
    try:
        async with shop.app.run(store, **FASTER):
            handle = await shop.app.submit(shop.order, id="t")
            await shop.at_work()
            lost, dead = counters[LEASE_LOST], counters[INSTANCE_DEAD]

            store.awake.clear()
            [before] = await other.instances()
            now = datetime.now(UTC) + AN_HOUR  # noqa: TID251
            leader = await seize_lead(other, now=now)
            assert await other.supervision.bury(leader, lease=timedelta(0), now=now) == Freed(runs=1)
            shop.open.set()  # Its step answers now, to a scheduler that holds nothing any more.
            await eventually(
                lambda: _as_it_is(counters[LEASE_LOST] - lost), lambda seen: seen == 1, what="a refusal"
            )
            assert (record(database)["state"], record(database)["crash_count"]) == ("pending", 1)

            store.awake.set()
            assert await handle.result(SOON) == "sent at attempt 2"
            instances = {one.id: one.live for one in await other.instances()}
    finally:
        await other.close()

    assert counters[INSTANCE_DEAD] - dead == 1
    assert instances.pop(before.id) is False
    assert list(instances.values()) == [True]
    assert shop.sent == [1, 2]
    assert len(shop.paid) == 1


async def test_a_scheduler_whose_loop_hangs_past_a_steps_complete_by_loses_the_task_to_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """CT-1: it cannot even notice; the other one's sweep counts the attempt as failed and takes the task."""
    monkeypatch.setattr(sweep, "EXPIRY_GRACE", timedelta(milliseconds=100))
    hanging, hung = threading.Event(), threading.Event()

    def shop(*, hang: bool) -> tuple[App, Any]:
        app = App("shop")
        agent = app.agent("shop", complete_by="300ms", retry=ONCE)

        @agent.step
        async def send() -> str:
            if hang:
                hanging.set()
                hung.wait(SOON)  # Not awaited: nothing else happens on this loop.
            return f"sent at attempt {current_step().attempt}"

        @app.workflow
        async def order() -> str:
            return await send()

        return app, order

    async def hang() -> None:
        app, order = shop(hang=True)
        async with app.run(database.url, **FASTER):
            handle = await app.submit(order, id="t")
            assert await handle.result(SOON) == "sent at attempt 2"

    lost = counters[LEASE_LOST]
    stuck = asyncio.create_task(asyncio.to_thread(asyncio.run, hang()))
    assert await asyncio.to_thread(hanging.wait, SOON)
    await free_lead(database)
    app, _ = shop(hang=False)
    async with app.run(database.url, **FASTER):
        assert await app.handle("t").result(SOON) == "sent at attempt 2"
        [step] = await app.steps("t")
    hung.set()
    await stuck

    assert (step.attempt, step.failure_count) == (2, 1)
    assert record(database)["failure_count"] == 0
    assert counters[LEASE_LOST] - lost == 1


async def _as_it_is(value: Any) -> Any:
    return value
