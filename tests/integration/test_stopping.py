"""What ends a task, or moves it, from outside: its hard end, and an operator."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay import App, TaskFailed
from backstay.errors import IllegalMove, InvalidInput, UnknownStep
from tests.support.crashes import Crashes
from tests.support.gate import Gate
from tests.support.running import NEVER_STALE, LeapingClock, running, until
from tests.support.shop import ENDED, Failing, Order


@pytest.fixture
def app() -> App:
    return App("stopping")


# The hard end

# What a task is at its hard end, by what its workflow's ``Recovery`` says.
AT_THE_END = [("undo", "undone"), ("error", "error"), ("wait", "undone")]


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_task_that_is_still_pending_at_its_hard_end_does_nothing_any_more(
    crashes: Crashes, then: str, end: str
):
    order = Order(Gate(), then=then)
    clock = LeapingClock()
    async with order.app.client(crashes.store()) as client:
        await client.submit(order.order, id="t", complete_by="1h")
    clock.leap(timedelta(hours=1))
    async with running(order.app, crashes.store(), clock=clock) as client:
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert task.error is not None
    assert task.error.type == "HardEnd"
    assert order.shop.done == []


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_task_at_work_is_stopped_at_its_hard_end(crashes: Crashes, then: str, end: str):
    gate = Gate(closed=True)
    order = Order(gate, then=then)
    async with running(order.app, crashes.store()) as client:
        gate.let("a")
        submitted = await client.submit(order.order, id="t", complete_by="1s")
        await gate.came("b")
        limit = (await client.task("t")).hard_end
        steps = await client.steps("t")
        task = await until(client, submitted.id, *ENDED)

    assert limit is not None
    assert all(step.complete_by is not None and step.complete_by <= limit for step in steps)
    assert task.state == end
    assert task.updated_at >= limit
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if end == "undone" else [])


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_waiting_task_is_woken_and_ended_at_its_hard_end(crashes: Crashes, then: str, end: str):
    order = Order(Gate(), then=then)
    clock = LeapingClock()
    async with running(order.app, crashes.store(), clock=clock, **NEVER_STALE) as client:
        await client.submit(order.order, id="t", complete_by="1h")
        await until(client, "t", "waiting")
        clock.leap(timedelta(hours=1))
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.undone == ([("b", "completed"), ("a", "completed")] if end == "undone" else [])


# The operator


@pytest.mark.parametrize("undo", [True, False])
async def test_a_pending_task_that_did_nothing_is_cancelled_on_the_spot(crashes: Crashes, undo: bool):
    order = Order(Gate())
    async with order.app.client(crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        assert (await handle.cancel(undo=undo)).state == "cancelled"
        with pytest.raises(TaskFailed) as failed:
            await handle.result(timeout=5)

    assert failed.value.state == "cancelled"


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_whose_process_died_is_cancelled_before_anybody_takes_it_up(
    crashes: Crashes, undo: bool, end: str
):
    gate = Gate(closed=True)
    gate.let("a")
    async with running(Order(gate, complete_by="1s").app, crashes.store()) as client:
        await client.submit("order", id="t")
        await gate.came("b")
        crash = crashes.now()
    order = Order(Gate())  # Nothing is undone before the complete-by of what may still be at work.
    async with order.app.client(crash.store()) as client:
        await client.cancel("t", undo=undo)
    async with running(order.app, crash.store()) as client:
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.done == []
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if undo else [])


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_at_work_is_cancelled_and_its_step_broken_off(crashes: Crashes, undo: bool, end: str):
    gate = Gate(closed=True)
    gate.let("a")
    order = Order(gate)
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await gate.came("b")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.done == ["a"]
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if undo else [])


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_waiting_task_is_cancelled(crashes: Crashes, undo: bool, end: str):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await until(client, "t", "waiting")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.undone == ([("b", "completed"), ("a", "completed")] if undo else [])


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_in_error_is_cancelled(crashes: Crashes, undo: bool, end: str):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", "undone", "cancelled")

    assert task.state == end
    assert failing.shop.undone == ([("a", "completed")] if undo else [])


async def test_what_has_ended_cannot_be_cancelled(crashes: Crashes):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        await client.signal("t", "word", "done")
        assert await handle.result(timeout=10) == "done"
        with pytest.raises(IllegalMove, match="processed"):
            await handle.cancel()
        await client.undo("t")
        await until(client, "t", "undone")
        with pytest.raises(IllegalMove, match="undone"):
            await handle.cancel()


async def test_a_processed_task_is_undone_newest_first_when_an_operator_asks(crashes: Crashes):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        await client.signal("t", "word", "done")
        await handle.result(timeout=10)
        await client.undo("t")
        await until(client, "t", "undone")

    assert order.shop.undone == [("b", "completed"), ("a", "completed")]


async def test_past_the_point_of_no_return_a_processed_task_is_not_undone(app: App, crashes: Crashes):
    agent = app.agent("bank")

    @agent.step(pivot=True)
    async def pay() -> str:
        return "paid"

    @app.workflow
    async def order() -> str:
        return await pay()

    async with running(app, crashes.store()) as client:
        await (await client.submit(order, id="t")).result(timeout=10)
        with pytest.raises(IllegalMove, match="point of no return"):
            await client.undo("t")


async def test_a_resubmitted_task_goes_on_at_the_step_that_failed(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        failed = await until(client, "t", "error")
        failing.repaired = True
        await client.resubmit("t")

        assert await handle.result(timeout=10) == ["a reserved", "packed", "b reserved"]
    assert failed.error is not None
    assert (failed.error.step, failed.error.permanent) == ("pack:1", True)
    assert failing.shop.done == ["a", "b"]


async def test_a_task_resubmitted_from_the_start_does_everything_again(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        failing.repaired = True
        await client.resubmit("t", from_="start")

        assert await handle.result(timeout=10) == ["a reserved", "packed", "b reserved"]
    assert failing.shop.done == ["a", "a", "b"]


async def test_a_task_at_work_is_not_resubmitted(crashes: Crashes):
    gate = Gate(closed=True)
    order = Order(gate)
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await gate.came("a")
        with pytest.raises(IllegalMove, match="working on it"):
            await client.resubmit("t")


async def test_a_failed_step_that_a_person_completes_lets_its_task_go_on(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        with pytest.raises(UnknownStep):
            await client.complete_step("t", "pack:2", "by hand")
        with pytest.raises(InvalidInput):
            await client.complete_step("t", "pack:1", 17)
        await client.complete_step("t", "pack:1", "packed by hand")

        assert await handle.result(timeout=10) == ["a reserved", "packed by hand", "b reserved"]
        steps = {step.key: step for step in await client.steps("t")}
    assert (steps["pack:1"].state, steps["pack:1"].error) == ("completed", None)


async def test_a_step_in_line_that_a_person_completes_is_not_attempted_any_more(app: App, crashes: Crashes):
    gate = Gate(closed=True)
    agent = app.agent("narrow", concurrency=1)

    @agent.step
    async def pack(what: str) -> str:
        return await gate.enter(what)

    @app.workflow
    async def order() -> list[str]:
        return list(await asyncio.gather(pack("a"), pack("b")))

    async with running(app, crashes.store()) as client:
        handle = await client.submit(order, id="t")
        await gate.came("a")
        await client.complete_step("t", "pack:2", "by hand")
        gate.let("a")

        assert await handle.result(timeout=10) == ["a", "by hand"]
    assert "b" not in gate.ran


async def test_a_planned_step_may_be_completed_before_the_workflow_comes_to_it(app: App, crashes: Crashes):
    gate = Gate(closed=True)
    agent = app.agent("agent")

    @agent.step
    async def first() -> str:
        return await gate.enter()

    @agent.step
    async def second(what: str) -> str:
        return await gate.enter()

    @app.workflow(plan=[first, second])
    async def order() -> list[str]:
        return [await first(), await second("x")]

    async with running(app, crashes.store()) as client:
        handle = await client.submit(order, id="t")
        await gate.came("first:1")
        await client.complete_step("t", "second:1", "by hand")
        gate.let("first:1")

        assert await handle.result(timeout=10) == ["first:1", "by hand"]
    assert "second:1" not in gate.ran
    for crash in crashes.copies:
        gate = Gate()
        completed_by_hand = "second:1" in crash.completed("t")
        async with running(app, crash.store()) as client:
            task = await until(client, "t", *ENDED)
        assert task.state == "processed", task.error
        assert (task.output[1] == "by hand") or not completed_by_hand
