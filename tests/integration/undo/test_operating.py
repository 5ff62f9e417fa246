"""An operator has a task undone or cancelled, and a failed undo tried again or taken for done."""

from __future__ import annotations

import asyncio

import pytest

from backstay import App, current_step
from backstay.errors import IllegalMove
from tests.support.running import FASTER, SOON, ends, until
from tests.support.travel import Undone, states, stuck


async def test_an_operator_may_undo_a_task_that_ran_through(app: App, url: str):
    travel = Undone(app)
    flight, hotel = travel.step("flight"), travel.step("hotel")

    @app.workflow
    async def holiday() -> str:
        await flight("LH1")
        return str(await hotel("Ritz"))

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        assert await handle.result(SOON) == "hotel Ritz"
        await app.undo("t")
        assert (await ends(app, "t")).state == "undone"
        with pytest.raises(IllegalMove):
            await app.undo("t")

    assert travel.order == ["hotel", "flight"]


async def test_cancelling_a_task_at_work_undoes_what_it_did_and_what_it_may_have_done(app: App, url: str):
    travel = Undone(app)
    flight = travel.step("flight")
    began = asyncio.Event()

    @travel.agent.step
    async def hotel() -> None:
        began.set()
        await asyncio.Event().wait()

    @hotel.undo
    async def leave() -> None:
        travel.order.append(f"hotel {current_step().outcome}")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel()

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        await began.wait()
        await handle.cancel()
        failed = await ends(app, "t")

    assert failed.state == "undone"
    assert failed.error is not None
    assert failed.error["type"] == "Cancelled"
    assert travel.order == ["hotel unknown", "flight"]


@pytest.mark.parametrize("move", ["undo", "resubmit"])
async def test_the_operator_has_a_failed_undo_tried_again_and_finished_ones_stay_finished(
    app: App, url: str, move: str
):
    """CT-3: resumable from its point of failure."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service)

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"
        service["up"] = True
        await (app.undo("t") if move == "undo" else app.resubmit("t"))
        assert (await ends(app, "t")).state == "undone"
        seen = await states(app, "t")

    assert travel.order == ["car", "flight", "hotel"]
    assert set(seen.values()) == {"undone"}


async def test_the_operator_marks_a_failed_undo_as_done_by_hand(app: App, url: str):
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service)

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"
        await app.complete_step("t", "hotel:1")
        await until(app, "t", "undone")
        seen = await states(app, "t")

    assert travel.order == ["car", "flight"]
    assert seen["hotel:1"] == "undone"
