"""An undo that keeps failing, or that is a person's work, calls somebody and holds up no other."""

from __future__ import annotations

import asyncio
import logging

import pytest

from backstay import App, StepFailed, current_step
from backstay.store.records import AlertFilter
from tests.support.running import FASTER, SOON, ends, eventually, until
from tests.support.travel import Undone, states, stuck

# A stuck undo


async def test_an_undo_that_keeps_failing_holds_up_no_other_and_calls_a_person(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    """Promise 6, CT-9: a stuck undo is a state of its own, and an alert with its cause."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service)

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            failed = await ends(app, "t")
            seen = await states(app, "t")

    assert failed.state == "undo_failed"
    assert failed.error is not None
    assert failed.error["message"] == "no funds"
    assert travel.order == ["car", "flight"]
    assert seen == {"flight:1": "undone", "hotel:1": "undo_failed", "car:1": "undone"}
    [line] = [record.getMessage() for record in caplog.records if "alert=undo_failed" in record.getMessage()]
    assert line.startswith("alert=undo_failed task_id=t step=hotel:1")
    assert "nobody at the desk" in line


async def test_an_undo_that_is_no_longer_registered_fails_and_says_so(app: App, url: str):
    travel = Undone(app)
    flight, hotel = travel.step("flight"), travel.step("hotel")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel("Ritz")

    later = App("undo")  # The next release has lost one of the two.
    agent = later.agent("travel")

    @agent.step(name="flight")
    async def flight_later(what: str) -> None: ...

    @flight_later.undo
    async def release(what: str) -> None:
        travel.order.append("flight")

    @agent.step(name="hotel")
    async def hotel_later(what: str) -> None: ...

    @later.workflow(name="holiday")
    async def holiday_later() -> None:
        await flight_later("LH1")
        await hotel_later("Ritz")

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        await handle.result(SOON)
    async with later.run(url, **FASTER):
        await later.undo("t")
        assert (await ends(later, "t")).state == "undo_failed"
        steps = {step.key: step for step in await later.steps("t")}

    assert travel.order == ["flight"]
    assert steps["hotel:1"].state == "undo_failed"
    assert steps["hotel:1"].error is not None
    assert steps["hotel:1"].error.message == "no undo of 'hotel' is registered here"


async def test_an_undo_that_fails_beside_a_persons_work_calls_somebody_at_once(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    """The person may take days; nobody should have to wait so long to hear of the other one."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service, car=travel.step("car", undo={"manual": True}))

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            await eventually(
                lambda: states(app, "t"), lambda seen: seen.get("hotel:1") == "undo_failed", what="giving up"
            )
            await eventually(lambda: app.task("t"), lambda task: task.locked_by is None, what="parking")
            why = await app.operator.why("t")
            alerts = (await app.operator.alerts(AlertFilter())).items
            plan = await app.operator.undo_plan("t")

    assert {(one.kind, one.step) for one in alerts} == {("undo_failed", "hotel:1"), ("undo_manual", "car:1")}
    assert "the undo of car:1 is a person's work" in why.reason
    assert "the undo of hotel:1 keeps failing" in why.reason
    assert {step.key for step in plan.steps} == {"car:1", "hotel:1"}


# A manual undo


async def test_a_manual_undo_calls_a_person_and_waits_for_the_word(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    """CT-9, CT-11: the others are undone meanwhile; the operator's complete-step ends it."""
    travel = Undone(app)
    flight, hotel = travel.step("flight"), travel.step("hotel", undo={"manual": True})
    car = travel.step("car")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel("Ritz")
        await car("Mini")
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            await eventually(
                lambda: states(app, "t"),
                lambda seen: seen.get("flight:1") == "undone",
                what="the other undos",
            )
            task = await eventually(
                lambda: app.task("t"), lambda task: task.locked_by is None, what="parking"
            )
            assert task.state == "undoing"
            assert (await states(app, "t"))["hotel:1"] == "undoing"

            await app.complete_step("t", "hotel:1")
            await until(app, "t", "undone")
            seen = await states(app, "t")

    assert set(seen.values()) == {"undone"}
    assert travel.order == ["car", "flight"]
    lines = [record.getMessage() for record in caplog.records if "alert=undo_manual" in record.getMessage()]
    [line] = lines
    assert line.startswith("alert=undo_manual task_id=t step=hotel:1")


async def test_a_manual_undo_is_confirmed_while_another_undo_is_under_way(app: App, url: str):
    """Whoever holds the task is fenced off; the undo under way is repeated, under the same key."""
    travel = Undone(app)
    hotel = travel.step("hotel", undo={"manual": True})
    began = asyncio.Event()
    attempts: list[tuple[int, str]] = []

    @travel.agent.step
    async def flight() -> None: ...

    @flight.undo
    async def release() -> None:
        attempts.append((current_step().attempt, current_step().idempotency_key))
        began.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()

    @app.workflow
    async def holiday() -> None:
        await flight()
        await hotel("Ritz")
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        await asyncio.wait_for(began.wait(), SOON)
        await app.complete_step("t", "hotel:1")
        await until(app, "t", "undone")

    assert attempts == [(1, "t/flight:1/undo"), (2, "t/flight:1/undo")]


async def test_a_manual_undo_is_confirmed_after_a_restart(app: App, url: str):
    travel = Undone(app)
    hotel = travel.step("hotel", undo={"manual": True})

    @app.workflow
    async def holiday() -> None:
        await hotel("Ritz")
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        await eventually(
            lambda: states(app, "t"), lambda seen: seen.get("hotel:1") == "undoing", what="undoing"
        )
    async with app.run(url, **FASTER):
        await app.complete_step("t", "hotel:1")
        await until(app, "t", "undone")

    assert travel.order == []
