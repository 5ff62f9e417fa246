"""Past the point of no return nothing is undone: the work goes on, or a person is called."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from backstay import App, Permanent, Recovery, current_step
from backstay.errors import IllegalMove
from tests.support.running import FASTER, SOON, Down, ends
from tests.support.travel import Undone


def past_the_pivot(app: App, travel: Undone, last: Any, **recovery: Any) -> Any:
    """A booking, the pivot, and then ``last``."""
    flight = travel.step("flight")
    pay = travel.step("pay", pivot=True)

    @app.workflow(recovery=Recovery(attempts=2, **recovery))
    async def holiday() -> str:
        await flight("LH1")
        await pay("100")
        return str(await last())

    return holiday


async def test_after_the_pivot_recovery_goes_only_forward(app: App, url: str):
    """SG-1, CT-7: no undo, but a rest and another try, until it goes through."""
    travel = Undone(app)
    calls: list[int] = []

    @travel.agent.step
    async def send() -> str:
        calls.append(current_step().attempt)
        if len(calls) < 4:
            raise Down
        return "sent"

    holiday = past_the_pivot(app, travel, send, wait="60ms", then="undo")

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        assert await handle.result(SOON) == "sent"

    assert travel.order == []
    assert calls == [1, 2, 3, 4]


async def test_after_the_pivot_a_refusal_is_an_error_for_a_person_and_undo_is_refused(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    travel = Undone(app)

    @travel.agent.step
    async def send() -> None:
        raise Permanent("no such address")

    holiday = past_the_pivot(app, travel, send, then="undo")

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FASTER):
            await app.submit(holiday, id="t")
            assert (await ends(app, "t")).state == "error"
            for move in (app.undo("t"), app.cancel("t")):
                with pytest.raises(IllegalMove, match="point of no return"):
                    await move
            assert (await app.task("t")).state == "error"

    assert travel.order == []
    assert "alert=task_error task_id=t" in caplog.text


async def test_a_task_that_ran_through_its_pivot_cannot_be_undone(app: App, url: str):
    travel = Undone(app)
    send = travel.step("send")
    holiday = past_the_pivot(app, travel, lambda: send("it"))

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        await handle.result(SOON)
        with pytest.raises(IllegalMove, match="point of no return"):
            await app.undo("t")

    assert travel.order == []


async def test_an_operator_who_asks_for_undo_while_the_pivot_runs_gets_an_error_and_no_undo(
    app: App, url: str
):
    travel = Undone(app)
    flight = travel.step("flight")
    began = asyncio.Event()

    @travel.agent.step(pivot=True)
    async def pay() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await pay()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        await began.wait()
        with pytest.raises(IllegalMove, match="point of no return"):
            await app.undo("t")
        assert (await app.task("t")).state == "processing"

    assert travel.order == []


async def test_a_pivot_of_unknown_outcome_counts_as_passed(app: App, url: str):
    travel = Undone(app)
    flight = travel.step("flight")
    calls: list[int] = []

    @travel.agent.step(pivot=True)
    async def pay() -> str:
        calls.append(current_step().attempt)
        if len(calls) < 3:
            raise Down
        return "paid"

    @app.workflow(recovery=Recovery(attempts=2, wait="60ms", then="undo"))
    async def holiday() -> str:
        await flight("LH1")
        return await pay()

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        assert await handle.result(SOON) == "paid"

    assert (travel.order, calls) == ([], [1, 2, 3])


async def test_a_pivot_that_was_refused_is_not_passed(app: App, url: str):
    travel = Undone(app)
    flight = travel.step("flight")

    @travel.agent.step(pivot=True)
    async def pay() -> None:
        raise Permanent("no funds")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await pay()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["flight"]
