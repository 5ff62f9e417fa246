"""Entering and leaving a running app: errors come out as they are, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from backstay import App, Recovery, StepFailed
from backstay.domain.lease import Owner
from backstay.errors import Closed, InvalidDefinition, StoreUnavailable
from backstay.store.base import Claimed
from tests.support.databases import AnyStore, Database
from tests.support.mail_order import Shop, record
from tests.support.running import FASTER, ONCE, SOON, ends

# A process stops


async def test_a_graceful_stop_releases_its_tasks_and_blames_nobody(database: Database):
    shop = Shop(attempts=1, crashes=1)
    async with shop.app.run(database.url, **FASTER):
        await shop.app.submit(shop.order, id="t")
        await shop.at_work()

    row = record(database)
    assert (row["state"], row["locked_by"], row["complete_by"]) == ("pending", None, None)
    assert (row["crash_count"], row["failure_count"]) == (0, 0)

    shop.open.set()
    async with shop.app.run(database.url, **FASTER):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 2"

    assert len(shop.paid) == 1


async def test_a_graceful_stop_in_the_middle_of_an_undo_blames_nobody_either(database: Database):
    app = App("shop")
    agent = app.agent("shop", retry=ONCE)
    began, go_on = asyncio.Event(), asyncio.Event()

    @agent.step
    async def pay() -> None: ...

    @pay.undo
    async def refund() -> None:
        began.set()
        await go_on.wait()

    @app.workflow(recovery=Recovery(undo_attempts=1, crashes=1))
    async def order() -> None:
        await pay()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(database.url, **FASTER):
        await app.submit(order, id="t")
        await asyncio.wait_for(began.wait(), SOON)
    assert (record(database)["state"], record(database)["locked_by"]) == ("undoing", None)

    go_on.set()
    async with app.run(database.url, **FASTER):
        assert (await ends(app, "t")).state == "undone"


async def test_cancelling_the_body_leaves_nothing_running_and_releases_the_task(database: Database):
    shop = Shop()

    async def body() -> None:
        async with shop.app.run(database.url, **FASTER):
            await shop.app.submit(shop.order, id="t")
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await shop.at_work()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert leftovers() == (set(), set())
    assert record(database)["state"] == "pending"


async def test_after_the_context_nothing_runs_and_the_app_says_that_it_is_closed(database: Database):
    shop = Shop()
    shop.open.set()
    async with shop.app.run(database.url, **FASTER):
        handle = await shop.app.submit(shop.order, id="t")
        await handle.result(SOON)

    assert leftovers() == (set(), set())
    with pytest.raises(Closed, match="not running"):
        await shop.app.submit(shop.order)


# A start that fails


async def test_a_store_that_cannot_be_opened_is_an_error_at_the_door_and_leaves_nothing(database: Database):
    shop = Shop()
    with pytest.raises(StoreUnavailable):
        async with shop.app.run(database.nowhere(), **FASTER):
            raise AssertionError("the body must not begin")

    assert leftovers() == (set(), set())
    with pytest.raises(Closed):
        await shop.app.submit(shop.order)


async def test_a_wrong_declaration_is_an_error_before_the_store_is_touched(database: Database):
    app = App("shop")
    agent = app.agent("shop")

    @agent.step
    async def pay(*everything: int) -> None: ...

    with pytest.raises(InvalidDefinition, match=r"\*everything"):
        async with app.run(database.url, **FASTER):
            raise AssertionError("the body must not begin")

    assert database.is_untouched()
    assert leftovers() == (set(), set())


async def test_an_app_runs_again_after_a_start_that_failed(database: Database):
    shop = Shop()
    shop.open.set()
    with pytest.raises(StoreUnavailable):
        async with shop.app.run(database.nowhere(), **FASTER):
            raise AssertionError("the body must not begin")
    async with shop.app.run(database.url, **FASTER):
        handle = await shop.app.submit(shop.order)
        assert await handle.result(SOON) == "sent at attempt 1"


# What happens inside


async def test_an_error_in_the_body_comes_out_as_it_is(database: Database):
    """Not in an ExceptionGroup: the roles beside it are nobody's business."""
    shop = Shop()
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        async with shop.app.run(database.url, **FASTER):
            raise error

    assert raised.value is error


async def test_one_run_inside_another_leaves_the_outer_one_as_it_was(database: Database):
    outer, inner = Shop(), Shop()
    outer.open.set()
    inner.open.set()
    other = database.another()
    async with outer.app.run(database.url, **FASTER):
        async with inner.app.run(database.url, **FASTER), outer.app.run(other.url, **FASTER):
            handle = await outer.app.submit(outer.order, id="elsewhere")
            assert await handle.result(SOON)
        handle = await outer.app.submit(outer.order, id="here")
        assert (await handle.result(SOON)).startswith("sent")
        with pytest.raises(Exception, match="no task 'elsewhere'"):
            await outer.app.task("elsewhere")


async def test_a_role_that_breaks_ends_the_app_with_its_error(database: Database):
    """Without its roles an application only seems to run."""

    class BrokenStore(AnyStore):
        async def claim(self, owner: Owner, runs: Any, **how: Any) -> list[Claimed]:
            raise RuntimeError("a mistake in the engine")

    shop = Shop()
    with pytest.raises(Exception) as raised:
        async with shop.app.run(database.store_as(BrokenStore), **FASTER):
            await asyncio.wait_for(asyncio.Event().wait(), SOON)

    assert "a mistake in the engine" in repr(raised.value)
    assert leftovers() == (set(), set())


# Underneath


def leftovers() -> tuple[set[str], set[str]]:
    """What still runs of ours: asyncio tasks, and threads (a reader's may need a moment to end)."""
    tasks = {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("backstay")}
    return tasks, {thread.name for thread in threading.enumerate() if thread.name.startswith("backstay")}
