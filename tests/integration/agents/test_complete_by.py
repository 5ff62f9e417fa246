"""Every call ends at its complete-by, and what comes of it later changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Retry, current_step
from backstay.observe import LATE_REPLY, counters
from tests.support.running import FAST, ONCE, SHORT, SOON, comes_true, eventually, step_of


async def test_an_async_step_is_cancelled_at_its_complete_by(app: App, url: str):
    """CB-13: every call ends, so the breaker, the retry and the supervisor can act."""
    ended: list[str] = []
    agent = app.agent("drone", complete_by=SHORT, retry=Retry(attempts=5, first="1ms"))

    @agent.step
    async def schedule() -> str:
        if current_step().attempt > 1:
            return "drone 2"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        raise AssertionError("nobody sets this event")

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        assert await handle.result(SOON) == "drone 2"
        [step] = await app.steps("t")

    assert ended == ["cancelled"]
    assert (step.attempt, step.failure_count) == (2, 1)


async def test_a_step_that_will_not_be_cancelled_says_nothing_after_its_complete_by(app: App, url: str):
    """SAS: past its complete-by an agent says nothing; what it still returns changes nothing."""
    stubborn = asyncio.Event()
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE)

    @agent.step
    async def schedule() -> str:
        if current_step().attempt > 1:
            await stubborn.wait()
            return "in time"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stubborn.set()
        return "late"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        assert await handle.result(SOON) == "in time"
        [step] = await app.steps("t")

    assert (step.attempt, step.output) == (2, "in time")


@pytest.mark.parametrize("waits_first", [False, True])
async def test_a_step_that_holds_up_the_event_loop_says_nothing_after_its_complete_by(
    app: App, url: str, waits_first: bool
):
    """SAS-03: no alarm rings while it does, and its result comes late all the same."""
    calls: list[int] = []
    agent = app.agent("drone", complete_by="1s", retry=ONCE)

    @agent.step
    async def schedule() -> str:
        step = current_step()
        calls.append(step.attempt)
        if len(calls) > 1:
            return "in time"
        if waits_first:
            await asyncio.sleep(0)
        while step.remaining:
            time.sleep(0.002)
        return "late"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    late = counters[LATE_REPLY]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        assert await handle.result(SOON) == "in time"

    assert (len(calls), counters[LATE_REPLY] - late) == (2, 1)


async def test_a_thread_step_gets_a_cancel_token_and_its_late_result_is_refused_and_counted(
    app: App, url: str
):
    told = threading.Event()
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE)

    @agent.step
    def schedule() -> str:
        step = current_step()
        if step.attempt > 1:
            return "in time"
        while not step.cancelled:
            time.sleep(0.002)
        assert step.remaining == timedelta(0)
        told.set()
        return "late"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    late = counters[LATE_REPLY]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver)
        assert await handle.result(SOON) == "in time"
        assert await asyncio.to_thread(told.wait, SOON)
        await comes_true(lambda: counters[LATE_REPLY] > late)

    assert counters[LATE_REPLY] - late == 1


async def test_a_thread_that_hangs_keeps_its_slot_until_it_ends(app: App, url: str):
    """Promise 10: abandoned threads are bounded by the agent's concurrency."""
    release = threading.Event()
    running: list[int] = []
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE, concurrency=1)

    @agent.step
    def schedule() -> str:
        attempt = current_step().attempt
        running.append(attempt)
        if attempt == 1:
            release.wait(SOON)
        return f"attempt {attempt}"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async def queued() -> Any:
        step = await step_of(app, "t", "schedule:1")
        return step if step is not None and step.failure_count == 1 else None

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        step = await eventually(queued, bool)
        assert (step.state, step.complete_by) == ("pending", None)
        assert running == [1]

        release.set()
        assert await handle.result(SOON) == "attempt 2"
