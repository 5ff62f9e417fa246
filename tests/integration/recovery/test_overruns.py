"""A run that hangs is taken away and begun again; one that only waits in line is not."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, Recovery, current_step
from backstay.store.base import Standing
from backstay.supervisor import sweep
from tests.support.databases import AnyStore, Database
from tests.support.mail_order import Shop, record
from tests.support.running import FASTER, ONCE, SOON, ends, eventually, until
from tests.support.stores import DyingStore, PatientStore

# A run hangs


async def test_a_run_past_its_complete_by_is_taken_away_and_begun_again(database: Database):
    """The failure is the run's: its step is attempted again without blame, its completed step is not."""
    shop = Shop(complete_by="500ms", attempts=2)
    async with shop.app.run(database.url, **FASTER):
        handle = await shop.app.submit(shop.order, id="t")
        await shop.at_work()
        await shop.at_work()
        shop.open.set()
        assert await handle.result(SOON) == "sent at attempt 2"
        steps = {step.key: step for step in await shop.app.steps("t")}

    assert record(database)["failure_count"] == 1
    assert (steps["send:1"].attempt, steps["send:1"].failure_count) == (2, 0)
    assert len(shop.paid) == 1


async def test_the_run_that_takes_over_from_one_that_overran_is_the_only_one(database: Database):
    """In the same scheduler the second run may begin before the first one has heard of its loss."""

    class LateReader(AnyStore):
        async def standing(self, keys: Any) -> list[Standing]:
            await asyncio.sleep(0.1)
            return await super().standing(keys)

    app = App("shop")
    agent = app.agent("shop", retry=ONCE)
    began: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}
    first, cancelled = asyncio.Event(), asyncio.Event()

    @agent.step
    async def send() -> None:
        began[current_step().attempt].set()
        try:
            await (first if current_step().attempt == 1 else asyncio.Event()).wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @app.workflow(complete_by="1s", recovery=Recovery(attempts=2))
    async def order() -> None:
        await send()

    async with app.run(database.store_as(LateReader), **FASTER):
        await app.submit(order, id="t")
        await asyncio.wait_for(began[1].wait(), SOON)
        await asyncio.wait_for(began[2].wait(), SOON)
        assert cancelled.is_set()
        first.set()  # The first attempt, if it were still at work, would answer now.
        asked = time.monotonic()
        await app.cancel("t")
        failed = await ends(app, "t")

    assert failed.state == "cancelled"
    assert time.monotonic() - asked < 0.8  # and not only when the second run overruns as well


@pytest.mark.parametrize(("then", "state"), [("undo", "undone"), ("error", "error")])
async def test_a_run_that_overruns_too_often_goes_to_then(database: Database, then: str, state: str):
    shop = Shop(complete_by="500ms", attempts=2, then=then)
    async with shop.app.run(database.url, **FASTER):
        await shop.app.submit(shop.order, id="t")
        failed = await ends(shop.app, "t")

    assert failed.state == state
    assert failed.error is not None
    assert failed.error["type"] == "Overrun"
    assert shop.sent == [1, 2]
    assert record(database)["failure_count"] == 2


async def test_then_wait_lets_an_overrun_task_rest_and_begin_again(database: Database):
    shop = Shop(complete_by="500ms", attempts=1, then="wait", wait="100ms")
    async with shop.app.run(database.url, **FASTER):
        handle = await shop.app.submit(shop.order, id="t")
        await shop.at_work()
        task = await until(shop.app, "t", "waiting")
        assert task.error is not None
        assert task.error.type == "Overrun"
        shop.open.set()
        assert await handle.result(SOON) == "sent at attempt 2"


# A run waits in line


async def test_a_task_that_only_stands_in_line_for_a_slot_does_not_overrun(database: Database):
    app = App("busy")
    counter = app.agent("counter", concurrency=1)
    gate = asyncio.Event()

    @counter.step
    async def hold() -> None:
        await gate.wait()

    @counter.step
    async def pass_through() -> str:
        return "served"

    @app.workflow
    async def occupy() -> None:
        await hold()

    @app.workflow(complete_by="2s", recovery=Recovery(attempts=1))
    async def queue_up() -> str:
        return await pass_through()

    async with app.run(store=database.url, supervisor_period="100ms"):
        occupying = await app.submit(occupy)
        await eventually(lambda: app.steps(occupying.id), lambda steps: steps and steps[0].state == "running")
        queued = await app.submit(queue_up)
        claimed = await eventually(lambda: app.task(queued.id), lambda task: task.complete_by)
        first = claimed.complete_by
        assert first is not None
        # It would have overrun by then, and gone to ``then``.
        await eventually(lambda: has_passed(first), bool)
        gate.set()

        assert await queued.result(timeout=10) == "served"
        assert (await app.task(queued.id)).failure_count == 0


async def test_a_step_that_waits_in_line_after_a_crash_is_not_taken_for_an_overdue_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """DESIGN §4: a queued step has no complete-by, so waiting for a slot never burns an attempt."""
    monkeypatch.setattr(sweep, "EXPIRY_GRACE", timedelta(0))

    def shop(*, hang: bool) -> tuple[App, Any, asyncio.Event, asyncio.Event]:
        app = App("shop")
        agent = app.agent("shop", complete_by="1s", retry=ONCE, concurrency=1)
        began, go_on = asyncio.Event(), asyncio.Event()

        @agent.step
        async def send() -> str:
            began.set()
            if hang:
                await asyncio.Event().wait()
            return "sent"

        @agent.step(complete_by="10s")
        async def occupy() -> None:
            began.set()
            await go_on.wait()

        @app.workflow(recovery=Recovery(attempts=1))
        async def order() -> str:
            return await send()

        @app.workflow
        async def crowd() -> None:
            await occupy()

        return app, (order, crowd), began, go_on

    app, (order, _), began, _ = shop(hang=True)
    async with app.run(database.store_as(DyingStore), **FASTER):
        await app.submit(order, id="t")
        await asyncio.wait_for(began.wait(), SOON)
        [interrupted] = await app.steps("t")
        assert interrupted.complete_by is not None
        overdue = interrupted.complete_by + timedelta(milliseconds=100)

    store = database.store_as(PatientStore)
    app, (_, crowd), began, go_on = shop(hang=False)
    async with app.run(store, **FASTER):
        await app.submit(crowd)
        await asyncio.wait_for(began.wait(), SOON)
        store.may_bury = True
        [step] = await eventually(
            lambda: app.steps("t"), lambda steps: steps[0].state == "pending", what="queueing"
        )
        assert step.complete_by is None
        await eventually(lambda: has_passed(overdue), bool, what="the end of the interrupted attempt")
        go_on.set()
        assert await app.handle("t").result(SOON) == "sent"
        [step] = await app.steps("t")

    assert step.failure_count == 0


# Underneath


async def has_passed(instant: datetime) -> bool:
    return datetime.now(UTC) > instant  # noqa: TID251  The app runs on the machine's own clock here.
