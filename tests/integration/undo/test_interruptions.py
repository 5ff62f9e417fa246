"""No undo starts beside its step's last attempt, and a crash interrupts an undo but does not end it."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from typing import Any

from backstay import App, Permanent, StepFailed, current_step
from tests.support.databases import Database
from tests.support.running import FASTER, SOON, ends, eventually, until
from tests.support.stores import DyingStore, PatientStore
from tests.support.travel import Undone, states


def interrupted(app: App, travel: Undone, began: asyncio.Event | None, **step: Any) -> Any:
    """A booking, and a step that hangs wherever ``began`` is given; its undo tells when it started."""
    flight = travel.step("flight")

    @travel.agent.step(**step)
    async def hotel() -> None:
        if began is not None:
            began.set()
            await asyncio.Event().wait()

    @hotel.undo
    async def leave() -> None:
        travel.order.append("hotel")
        travel.told["hotel"] = datetime.now(UTC)  # noqa: TID251

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel()

    return holiday


async def die_at_work(app: App, database: Database, workflow: Any, began: asyncio.Event) -> Any:
    """Run the task until its step is at work, and end like a killed process; the record of that step."""
    async with app.run(database.store_as(DyingStore), **FASTER):
        await app.submit(workflow, id="t")
        await asyncio.wait_for(began.wait(), SOON)
        return next(step for step in await app.steps("t") if step.key == "hotel:1")


async def test_no_undo_starts_before_the_interrupted_attempts_complete_by(app: App, database: Database):
    """Whoever began it may still be at work until then: it was not seen to end."""
    travel, began = Undone(app), asyncio.Event()
    holiday = interrupted(app, travel, began, complete_by="900ms")
    at_work = await die_at_work(app, database, holiday, began)

    async with app.client(database.url) as client:
        await client.undo("t")
    async with app.run(database.url, **FASTER | database.heir()):
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["hotel", "flight"]
    assert travel.told["hotel"] >= at_work.complete_by


async def test_an_interrupted_step_that_waits_in_line_keeps_the_undo_waiting_as_well(
    app: App, database: Database
):
    """It is taken up again and finds no slot; meanwhile the first attempt may still be at work."""
    travel, began = Undone(app), asyncio.Event()
    holiday = interrupted(app, travel, began, complete_by="1500ms")
    at_work = await die_at_work(app, database, holiday, began)

    busy, store = App("undo"), database.store_as(PatientStore)
    crowded = Undone(busy, concurrency=1)
    crowded.order, crowded.told = travel.order, travel.told
    interrupted(busy, crowded, None, complete_by="1500ms")
    full = asyncio.Event()

    @crowded.agent.step
    async def occupy() -> None:
        full.set()
        await asyncio.Event().wait()

    @busy.workflow
    async def crowd() -> None:
        await occupy()

    async with busy.run(store, **FASTER):
        occupied = await busy.submit(crowd)
        await asyncio.wait_for(full.wait(), SOON)
        store.may_bury = True
        await eventually(
            lambda: states(busy, "t"), lambda seen: seen["hotel:1"] == "pending", what="queueing"
        )
        await busy.undo("t")
        await until(busy, "t", "undoing")  # Before the slot is free, or the step would be quicker.
        await occupied.cancel(undo=False)
        assert (await ends(busy, "t")).state == "undone"

    assert travel.order == ["hotel", "flight"]
    assert travel.told["hotel"] >= at_work.complete_by


async def test_a_thread_that_cannot_be_stopped_keeps_its_undo_waiting_until_its_complete_by(
    app: App, url: str
):
    travel = Undone(app)
    began, release = threading.Event(), threading.Event()
    complete_by: list[datetime] = []

    @travel.agent.step(complete_by="1500ms")
    def hotel() -> None:
        complete_by.append(current_step().complete_by)
        began.set()
        release.wait(SOON)

    @hotel.undo
    async def leave() -> None:
        travel.order.append("hotel")
        travel.told["hotel"] = datetime.now(UTC)  # noqa: TID251

    @travel.agent.step
    async def pay() -> None:
        await asyncio.to_thread(began.wait, SOON)
        raise Permanent("no funds")

    @app.workflow
    async def holiday() -> None:
        await asyncio.gather(hotel(), pay())  # type: ignore[call-overload]

    try:
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            assert (await ends(app, "t")).state == "undone"
    finally:
        release.set()

    assert travel.told["hotel"] >= complete_by[0]


async def test_a_thread_that_heeds_its_cancel_token_lets_its_undo_start_at_once(app: App, url: str):
    """Its outcome is as unknown, but it is known to have stopped."""
    travel = Undone(app)
    began = threading.Event()

    @travel.agent.step(complete_by="60s")
    def hotel() -> None:
        began.set()
        while not current_step().cancelled:
            time.sleep(0.002)

    @hotel.undo
    async def leave() -> None:
        travel.order.append(f"hotel {current_step().outcome}")

    @travel.agent.step
    async def pay() -> None:
        await asyncio.to_thread(began.wait, SOON)
        raise Permanent("no funds")

    @app.workflow
    async def holiday() -> None:
        await asyncio.gather(hotel(), pay())  # type: ignore[call-overload]

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["hotel unknown"]


async def test_an_undo_goes_on_after_a_crash_where_it_stood(app: App, database: Database):
    """Promises 5 and 6, CT-3: what is undone is not undone again, what was under way is repeated."""
    travel = Undone(app)
    flight, car = travel.step("flight"), travel.step("car")
    began = asyncio.Event()
    attempts: list[tuple[int, str]] = []

    @travel.agent.step
    async def hotel() -> None: ...

    @hotel.undo
    async def leave() -> None:
        attempts.append((current_step().attempt, current_step().idempotency_key))
        if len(attempts) == 1:
            began.set()
            await asyncio.Event().wait()
        travel.order.append("hotel")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel()
        await car("Mini")
        raise StepFailed("pay:1", {"type": "Permanent", "message": "no funds", "permanent": True})

    async with app.run(database.store_as(DyingStore), **FASTER):
        await app.submit(holiday, id="t")
        await asyncio.wait_for(began.wait(), SOON)
    assert travel.order == ["car"]

    async with app.run(database.url, **FASTER | database.heir()):
        failed = await ends(app, "t")

    assert failed.state == "undone"
    assert failed.error is not None
    assert failed.error["message"] == "no funds"
    assert travel.order == ["car", "hotel", "flight"]
    assert attempts == [(1, "t/hotel:1/undo"), (2, "t/hotel:1/undo")]
