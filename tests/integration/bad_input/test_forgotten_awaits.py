"""A workflow that forgets an ``await`` is told so: what it called and did not wait for was never done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backstay import App, Retry, TaskFailed, sleep, start, wait_for
from tests.support.databases import Database
from tests.support.running import FAST, SOON

Workflow = Callable[[], Awaitable[Any]]


class Shop:
    """An app whose steps note that they were done."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.done: list[str] = []
        agent = self.app.agent("stock", retry=Retry(attempts=1))

        @agent.step
        async def reserve(what: str) -> str:
            self.done.append(what)
            return what

        @agent.step
        async def refuse() -> None:
            raise ConnectionError("out of order")

        @self.app.workflow
        async def child() -> None: ...

        self.reserve, self.refuse, self.child = reserve, refuse, child

    async def comes_to(self, workflow: Workflow, database: Database) -> Any:
        """The result of a task, or the failure that it stops with."""
        declared = self.app.workflow(name="order")(workflow)
        async with self.app.run(database.url, **FAST):
            handle = await self.app.submit(declared, id="t")
            try:
                return await handle.result(SOON)
            except TaskFailed as failed:
                return failed


@pytest.fixture
def shop() -> Shop:
    return Shop()


def calls(shop: Shop) -> dict[str, Callable[[], Any]]:
    return {
        "reserve:1": lambda: shop.reserve("lamp"),
        "sleep:1": lambda: sleep("1s"),
        "wait_for-approval:1": lambda: wait_for("approval"),
        "start-child:1": lambda: start(shop.child),
    }


@pytest.mark.parametrize("key", calls(Shop()))
async def test_what_is_called_without_await_stops_the_task(shop: Shop, database: Database, key: str):
    call = calls(shop)[key]

    async def order() -> str:
        call()
        return "done"

    failed = await shop.comes_to(order, database)

    assert isinstance(failed, TaskFailed)
    assert failed.state == "error"
    assert failed.error is not None
    assert failed.error["type"] == "NotAwaited"
    assert failed.error["message"].startswith(f"the workflow called {key} and does not wait for it")
    assert shop.done == []


async def test_a_call_that_is_kept_and_never_awaited_is_found_as_well(shop: Shop, database: Database):
    async def order() -> str:
        kept = [shop.reserve("lamp"), shop.reserve("vase")]
        return await kept[0]

    failed = await shop.comes_to(order, database)

    assert failed.error["message"].startswith("the workflow called reserve:2 and does not wait for it")
    assert shop.done == ["lamp"]


async def test_a_call_that_was_cancelled_before_it_began_is_no_mistake(shop: Shop, database: Database):
    async def order() -> str:
        task = asyncio.ensure_future(shop.reserve("lamp"))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return await shop.reserve("vase")

    assert await shop.comes_to(order, database) == "vase"
    assert shop.done == ["vase"]


async def test_what_a_failure_kept_from_being_awaited_is_no_mistake(shop: Shop, database: Database):
    async def order() -> None:
        never = shop.reserve("lamp")
        await shop.refuse()
        await never

    failed = await shop.comes_to(order, database)

    assert failed.error["type"] == "ConnectionError"


async def test_a_call_that_is_given_to_another_instead_of_its_result_is_hinted_at(
    shop: Shop, database: Database
):
    async def order() -> None:
        lamp: Any = shop.reserve("lamp")
        await shop.reserve(lamp)

    failed = await shop.comes_to(order, database)

    assert "is an `await` missing?" in failed.error["message"]


@pytest.mark.parametrize("shape", ["gather", "task"])
async def test_what_is_begun_in_the_background_as_the_workflow_ends_is_found_as_well(
    shop: Shop, database: Database, shape: str
):
    async def order() -> str:
        if shape == "gather":
            _ = asyncio.gather(shop.reserve("lamp"), shop.reserve("vase"))
        else:
            _ = asyncio.ensure_future(shop.reserve("lamp"))  # noqa: RUF006  The mistake itself.
        return "done"

    failed = await shop.comes_to(order, database)

    assert failed.error["type"] == "NotAwaited"
    assert shop.done == []


async def test_who_waits_for_the_first_of_several_may_leave_the_others(shop: Shop, database: Database):
    async def order() -> str:
        branches = {asyncio.ensure_future(shop.reserve("lamp")), asyncio.ensure_future(wait_for("approval"))}
        [first], _ = await asyncio.wait(branches, return_when=asyncio.FIRST_COMPLETED)
        return str(await first)

    assert await shop.comes_to(order, database) == "lamp"


@pytest.mark.parametrize("before", [0, 2])
async def test_nothing_after_the_forgotten_call_is_done_and_a_mended_workflow_can_be_resubmitted(
    shop: Shop, database: Database, before: int
):
    mended = False

    async def order() -> list[str]:
        done = [await shop.reserve(f"before-{number}") for number in range(before)]
        charging = shop.reserve("charge")
        if mended:
            await charging
        del charging
        return [*done, await shop.reserve("ship")]

    declared = shop.app.workflow(name="order")(order)
    async with shop.app.run(database.url, **FAST):
        handle = await shop.app.submit(declared, id="t")
        with pytest.raises(TaskFailed, match="NotAwaited"):
            await handle.result(SOON)
        done_until_then = [*shop.done]
        mended = True
        await shop.app.resubmit("t")
        result = await handle.result(SOON)

    first = [f"before-{number}" for number in range(before)]
    assert done_until_then == first
    assert shop.done == [*first, "charge", "ship"]
    assert result == [*first, "ship"]


async def test_a_call_that_is_prepared_and_awaited_after_a_rest_is_no_mistake(shop: Shop, database: Database):
    async def order() -> str:
        prepared = shop.reserve("lamp")
        await sleep("1100ms")  # Long enough for the task to leave memory, and the prepared call with it.
        return await prepared

    assert await shop.comes_to(order, database) == "lamp"
    assert shop.done == ["lamp"]


async def test_a_signal_that_was_there_is_not_lost_to_a_turn_with_a_mistake_in_it(
    shop: Shop, database: Database
):
    mended = False

    async def order() -> str:
        word = await wait_for("word")
        charging = shop.reserve("charge")
        if mended:
            await charging
        del charging
        return str(await shop.reserve(word))

    declared = shop.app.workflow(name="order")(order)
    async with shop.app.client(database.url) as early:
        await early.submit(declared, id="t")
        await early.signal("t", "word", "lamp")
    async with shop.app.run(database.url, **FAST):
        handle = shop.app.handle("t")
        with pytest.raises(TaskFailed, match="NotAwaited"):
            await handle.result(SOON)
        mended = True
        await shop.app.resubmit("t")
        assert await handle.result(SOON) == "lamp"

    assert shop.done == ["charge", "lamp"]
