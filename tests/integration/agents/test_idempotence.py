"""A step that is not idempotent is never repeated while the outcome of its attempt is unknown."""

from __future__ import annotations

import asyncio

import pytest

from backstay import App, Permanent, Recovery, Retry, TaskFailed, current_step
from backstay.store.base import Settle, Transition
from tests.support.databases import AnyStore, Database
from tests.support.running import FAST, ONCE, SHORT, SHORT_SECONDS, SOON, Down, recorded


async def test_a_step_that_is_not_idempotent_is_never_tried_again_after_a_failure_without_verdict(
    app: App, url: str
):
    """RT-4: never retry without knowing; the outcome goes to Recovery.then."""
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=5, first="1ms"))

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        raise Down

    @app.workflow(recovery=Recovery(attempts=3, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == [1]
    assert (failed.value.state, failed.value.step) == ("error", "charge:1")


async def test_a_step_that_is_not_idempotent_is_not_repeated_when_its_complete_by_passes(app: App, url: str):
    calls: list[int] = []
    agent = app.agent("bank", complete_by=SHORT)

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        await asyncio.Event().wait()

    @app.workflow(recovery=Recovery(attempts=3, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == [1]
    assert failed.value.error is not None
    assert failed.value.error["type"] == "Expired"


@pytest.mark.parametrize("attempts", [1, 3])
async def test_then_wait_does_not_repeat_a_step_of_unknown_outcome_that_is_not_idempotent(
    app: App, url: str, attempts: int
):
    """Waiting ends in another try, which is the one thing this step must not get."""
    calls: list[int] = []
    agent = app.agent("bank")

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        raise Down

    @app.workflow(recovery=Recovery(attempts=attempts, wait="50ms", then="wait"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert failed.value.state == "error"
    assert calls == [1]


async def test_a_step_that_is_not_idempotent_is_not_taken_up_again_after_its_neighbour_failed(
    app: App, url: str
):
    """It was cancelled at work, so its outcome is unknown; the wait that follows must not repeat it."""
    began = asyncio.Event()
    calls: list[str] = []
    agent = app.agent("bank", retry=ONCE)

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append("charge")
        began.set()
        await asyncio.Event().wait()

    @agent.step
    async def reserve() -> None:
        await began.wait()
        calls.append("reserve")
        if calls.count("reserve") == 1:
            raise Permanent("sold out")

    @app.workflow(recovery=Recovery(wait="50ms", then="wait"))
    async def order() -> None:
        await asyncio.gather(charge(), reserve())

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == ["charge", "reserve"]
    assert (failed.value.state, failed.value.step) == ("error", "charge:1")


async def test_an_attempt_that_the_disk_held_up_past_its_complete_by_never_began(
    app: App, database: Database
):
    """Promise 4: it is not started any more; and as it never was, there is nothing unknown about it."""

    class SlowStore(AnyStore):
        held_up = 0

        def apply(self, transition: Transition, settle: Settle) -> None:
            if self.held_up < 1 and any(step.state == "running" for step in transition.steps):
                self.held_up += 1
                asyncio.get_running_loop().call_later(2 * SHORT_SECONDS, super().apply, transition, settle)
            else:
                super().apply(transition, settle)

    calls: list[int] = []
    agent = app.agent("bank", complete_by=SHORT, concurrency=1)

    @agent.step(idempotent=False)
    async def charge() -> str:
        calls.append(current_step().attempt)
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(database.store_as(SlowStore), **FAST):
        handle = await app.submit(order, id="t")
        assert await handle.result(SOON) == "paid"
        [step] = await app.steps("t")

    assert calls == [2]
    assert (step.attempt, step.failure_count) == (2, 1)


async def test_a_step_that_is_not_idempotent_waits_for_a_slot_like_any_other(app: App, url: str):
    """Queueing is not an attempt: nothing is unknown about a step that never began."""
    gate = asyncio.Event()
    calls: list[str] = []
    agent = app.agent("bank", concurrency=1)

    @agent.step(idempotent=False)
    async def charge(order: str) -> str:
        calls.append(order)
        await gate.wait()
        return order

    @app.workflow
    async def order(name: str) -> str:
        return await charge(name)

    async with app.run(url, **FAST):
        handles = [await app.submit(order, name, id=name) for name in ("a", "b")]
        await recorded(app, "b", "charge:1")
        gate.set()
        assert [await handle.result(SOON) for handle in handles] == ["a", "b"]

    assert sorted(calls) == ["a", "b"]
