"""What the submitter of a task is told over its whole life, on every database."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from backstay import App, Permanent, Recovery, TaskFailed, start
from backstay.client import Client
from tests.support.crashes import Crashes
from tests.support.databases import Database
from tests.support.running import FASTER, ONCE, SOON, ends, running, until
from tests.support.stores import DyingStore

USUAL = [("received", 1), ("started", 2), ("completed", 3)]


async def bodies(client: Client, queue: str = "desk") -> list[dict[str, Any]]:
    """All that was told, in the order of telling; it stays there."""
    records = await client.exchange.queues.peek(queue, limit=1000)
    found = [msgspec.json.decode(record.body) for record in records]
    names = [f"{one['task_id']}:{one['status']}:{one['sequence']}" for one in found]
    assert [record.id for record in records] == names
    return found


async def told(client: Client, task_id: str = "t") -> list[tuple[str, int]]:
    return [(one["status"], one["sequence"]) for one in await bodies(client) if one["task_id"] == task_id]


class Shop:
    """Pays, then sends; sending may fail, and so may the undo of paying."""

    def __init__(self, **recovery: Any) -> None:
        self.app = App("shop")
        self.app.queue("desk")
        self.fails: Exception | None = None
        self.undo_fails: Exception | None = None
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        agent = self.app.agent("shop", retry=ONCE)

        @agent.step
        async def pay() -> str:
            return "paid"

        @pay.undo
        async def refund(*, result: str | None) -> None:
            if self.undo_fails is not None:
                raise self.undo_fails

        @agent.step
        async def send() -> str:
            self.began.set()
            await self.open.wait()
            if self.fails is not None:
                raise self.fails
            return "sent"

        @self.app.workflow(recovery=Recovery(**recovery))
        async def order() -> str:
            await pay()
            return await send()

        child: Any = order

        @self.app.workflow
        async def family() -> str:
            return await start(child)


async def test_a_task_that_succeeds_is_told_three_times(database: Database):
    shop = Shop()
    async with shop.app.run(database.store(), **FASTER):
        handle = await shop.app.submit("order", id="t", reply_to="queue:desk")
        await handle.result(SOON)

        found = await bodies(shop.app._running)

    assert [(one["status"], one["sequence"]) for one in found] == USUAL
    assert found[-1]["output"] == "sent"
    assert {one["workflow"] for one in found} == {"order"}
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)


async def test_a_receiver_that_waits_is_woken_by_each(database: Database):
    shop = Shop()
    async with shop.app.run(database.store(), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        found: list[str] = []
        while len(found) < 3:
            [message] = await shop.app.queue("desk").receive(wait="10s")
            found.append(message.body["status"])
            await message.complete()

    assert found == ["received", "started", "completed"]


async def test_who_does_not_ask_is_not_told_and_children_are_their_parents_business(database: Database):
    shop = Shop()
    async with shop.app.run(database.store(), **FASTER):
        silent = await shop.app.submit("order", id="silent")
        parent = await shop.app.submit("family", id="t", reply_to="queue:desk")
        await asyncio.gather(silent.result(SOON), parent.result(SOON))

        found = await bodies(shop.app._running)

    assert [(one["task_id"], one["status"]) for one in found] == [
        ("t", "received"),
        ("t", "started"),
        ("t", "completed"),
    ]
    assert database.rows("SELECT count(*) FROM told") == [(1,)]


async def test_a_task_that_is_undone_says_why(database: Database):
    shop = Shop(then="undo")
    shop.fails = Permanent("no more stock")
    async with shop.app.run(database.store(), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        await ends(shop.app, "t")

        found = await bodies(shop.app._running)

    assert [one["status"] for one in found] == ["received", "started", "undone"]
    assert found[-1]["error"] == {
        "type": "Permanent",
        "message": "no more stock",
        "step": "send:1",
        "permanent": True,
    }


async def test_an_undo_that_fails_and_is_tried_again_is_told_as_it_goes(database: Database):
    shop = Shop(then="undo", undo_attempts=1)
    shop.fails = Permanent("no more stock")
    shop.undo_fails = Permanent("the bank is shut")
    async with shop.app.run(database.store(), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        await until(shop.app, "t", "undo_failed")
        shop.undo_fails = None
        await shop.app.undo("t")
        await until(shop.app, "t", "undone")

        assert await told(shop.app._running) == [*USUAL[:2], ("failed", 3), ("undone", 4)]


async def test_a_task_in_error_that_is_resubmitted_starts_again(database: Database):
    shop = Shop(then="error")
    shop.fails = Permanent("no more stock")
    async with shop.app.run(database.store(), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        await until(shop.app, "t", "error")
        shop.fails = None
        await shop.app.resubmit("t")
        await until(shop.app, "t", "processed")

        again = [("failed", 3), ("started", 4), ("completed", 5)]
        assert await told(shop.app._running) == [*USUAL[:2], *again]


async def test_a_step_that_a_person_completed_lets_the_task_start_again(database: Database):
    shop = Shop(then="error")
    shop.fails = Permanent("no more stock")
    async with shop.app.run(database.store(), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        await until(shop.app, "t", "error")
        await shop.app.complete_step("t", "send:1", "by hand")
        await until(shop.app, "t", "processed")

        assert [one[0] for one in await told(shop.app._running)][2:] == ["failed", "started", "completed"]


@pytest.mark.parametrize(("undo", "status"), [(True, "undone"), (False, "failed")])
async def test_a_running_task_that_is_cancelled_is_told_by_how_it_ends(
    database: Database, undo: bool, status: str
):
    shop = Shop()
    shop.open.clear()
    async with shop.app.run(database.store(), **FASTER):
        handle = await shop.app.submit("order", id="t", reply_to="queue:desk")
        await shop.began.wait()
        await handle.cancel(undo=undo)
        with pytest.raises(TaskFailed):
            await handle.result(SOON)

        found = await bodies(shop.app._running)

    assert [one["status"] for one in found] == ["received", "started", status]
    assert found[-1]["error"]["type"] == "Cancelled"


async def test_a_task_nobody_runs_is_received_and_cancelled(database: Database):
    shop = Shop()
    async with shop.app.client(database.store()) as client:
        handle = await client.submit("order", id="t", reply_to="queue:desk")
        await handle.cancel()

        assert await told(client) == [("received", 1), ("failed", 2)]


async def test_a_processed_task_that_is_undone_later_is_told_so(database: Database):
    shop = Shop()
    async with shop.app.run(database.store(), **FASTER):
        handle = await shop.app.submit("order", id="t", reply_to="queue:desk")
        await handle.result(SOON)
        await shop.app.undo("t")
        await until(shop.app, "t", "undone")

        assert await told(shop.app._running) == [*USUAL, ("undone", 4)]


async def test_a_topic_is_told_and_its_subscriptions_choose(database: Database):
    shop = Shop()
    ends_only = shop.app.topic("news").subscription("ends", where={"status": "completed"})
    async with shop.app.run(database.store(), **FASTER):
        handle = await shop.app.submit("order", id="t", reply_to="topic:news")
        await handle.result(SOON)
        [message] = await ends_only.receive(max=10, wait="10s")

    assert (message.id, message.properties["correlation_id"]) == ("t:completed:3", "t")


async def test_a_process_that_dies_in_the_middle_leaves_nothing_to_be_told_twice(database: Database):
    shop, heir = Shop(), Shop()
    shop.open.clear()
    async with shop.app.run(database.store_as(DyingStore), **FASTER):
        await shop.app.submit("order", id="t", reply_to="queue:desk")
        await shop.began.wait()

    async with heir.app.run(database.url, **FASTER | database.heir()):
        await heir.app.handle("t").result(SOON)

        assert await told(heir.app._running) == USUAL


async def test_a_crash_after_any_commit_loses_and_doubles_nothing(crashes: Crashes):
    """Among them: between the claim and the first write, and between each two writes of a run."""
    async with running(Shop().app, crashes.store()) as client:
        handle = await client.submit("order", id="t", reply_to="queue:desk")
        await handle.result(SOON)
        assert await told(client) == USUAL

    assert len({tuple(crash.rows("SELECT status FROM told")) for crash in crashes.copies}) == 3
    for crash in crashes.copies:
        async with running(Shop().app, crash.store()) as client:
            await client.handle("t").result(SOON)
            assert await told(client) == USUAL, crash.name
