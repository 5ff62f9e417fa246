"""An undo is tried hard: as often, and for as long, as it was declared."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from backstay import App, Breaker, Permanent, Recovery, Retry, StepFailed, current_step
from backstay.store.base import Settle, Transition
from tests.support.databases import AnyStore, Database
from tests.support.running import FASTER, ONCE, SOON, Down, ends, eventually


async def test_an_undo_retries_like_its_agent_and_is_repeated_up_to_undo_attempts(app: App, url: str):
    """CT-6, RT-7: Retry.attempts times Recovery.undo_attempts, all under one key."""
    calls: list[tuple[int, str]] = []
    agent = app.agent("travel", retry=Retry(attempts=2, first="1ms"))

    @agent.step(retry=ONCE)
    async def flight() -> None: ...

    @flight.undo
    async def release() -> None:
        calls.append((current_step().attempt, current_step().idempotency_key))
        raise Down("still no answer")

    @app.workflow(recovery=Recovery(undo_attempts=3))
    async def holiday() -> None:
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"
        [step] = await app.steps("t")

    assert calls == [(attempt, "t/flight:1/undo") for attempt in (1, 1, 2, 2, 3, 3)]
    assert step.state == "undo_failed"
    assert step.error is not None
    assert step.error.message == "still no answer"


async def test_an_undo_has_its_own_retry_and_complete_by(app: App, url: str):
    remaining: list[timedelta] = []
    agent = app.agent("travel", complete_by="20s", retry=ONCE)

    @agent.step
    async def flight() -> None: ...

    @flight.undo(retry=Retry(attempts=4, first="1ms"), complete_by="40s")
    async def release_flight() -> None:
        remaining.append(current_step().remaining)
        if len(remaining) < 4:
            raise Down

    @agent.step
    async def hotel() -> None: ...

    @hotel.undo
    async def leave_hotel() -> None:
        remaining.append(current_step().remaining)

    @app.workflow(recovery=Recovery(undo_attempts=1))
    async def holiday() -> None:
        await hotel()
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, undo_complete_by="90s", **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    *flights, hotel_left = remaining
    assert len(flights) == 4
    assert all(timedelta(seconds=30) < left <= timedelta(seconds=40) for left in flights)
    assert timedelta(seconds=80) < hotel_left <= timedelta(seconds=90)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_an_undo_that_hangs_is_given_up_at_its_complete_by_and_repeated(
    app: App, url: str, in_thread: bool
):
    """CT-1: blocked is found by time."""
    release = threading.Event()
    attempts: list[int] = []
    agent = app.agent("travel", retry=ONCE)

    @agent.step
    async def flight() -> None: ...

    async def give_back() -> None:
        attempts.append(current_step().attempt)
        if len(attempts) == 1:
            await asyncio.Event().wait()

    def give_back_in_thread() -> None:
        attempts.append(current_step().attempt)
        if len(attempts) == 1:
            release.wait(SOON)

    flight.undo(complete_by="400ms")(give_back_in_thread if in_thread else give_back)

    @app.workflow
    async def holiday() -> None:
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    try:
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            assert (await ends(app, "t")).state == "undone"
    finally:
        release.set()

    assert attempts == [1, 2]


async def test_an_undo_that_the_disk_held_up_past_its_complete_by_is_not_started(
    app: App, database: Database
):
    """Promise 4: past its complete-by an agent starts nothing, and the slot it had is free again."""

    class SlowStore(AnyStore):
        held_up = 0

        def apply(self, transition: Transition, settle: Settle) -> None:
            if self.held_up < 1 and any(step.undo_attempt == 1 for step in transition.steps):
                self.held_up += 1
                asyncio.get_running_loop().call_later(0.3, super().apply, transition, settle)
            else:
                super().apply(transition, settle)

    attempts: list[int] = []
    agent = app.agent("travel", retry=ONCE, concurrency=1)

    @agent.step
    async def flight() -> None: ...

    @flight.undo(complete_by="150ms")
    async def release() -> None:
        attempts.append(current_step().attempt)

    @app.workflow
    async def holiday() -> None:
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(database.store_as(SlowStore), **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert attempts == [2]


async def test_an_open_breaker_parks_the_undo_and_burns_no_attempt(app: App, url: str):
    """CB-4: as on the way forward, waiting for a service that is down is not a failure of the undo."""
    down = True
    calls: list[bool] = []
    agent = app.agent("travel", retry=Retry(attempts=9, first="1ms"), breaker=Breaker(2, "10s", "200ms"))

    @agent.step
    async def flight() -> None: ...

    @flight.undo
    async def release() -> None:
        calls.append(down)
        if down:
            raise Down

    @app.workflow(recovery=Recovery(undo_attempts=1))
    async def holiday() -> None:
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        await eventually(
            lambda: app.task("t"),
            lambda task: task.state == "undoing" and task.locked_by is None,
            what="parking",
        )
        assert calls == [True, True]
        down = False
        assert (await ends(app, "t")).state == "undone"

    assert calls == [True, True, False]


async def test_permanent_in_an_undo_is_not_tried_again(app: App, url: str):
    calls: list[int] = []
    agent = app.agent("travel", retry=Retry(attempts=5, first="1ms"))

    @agent.step
    async def flight() -> None: ...

    @flight.undo
    async def release() -> None:
        calls.append(current_step().attempt)
        raise Permanent("no refunds")

    @app.workflow
    async def holiday() -> None:
        await flight()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"

    assert calls == [1]
