"""What becomes of a task that cannot go on is what its Recovery.then says."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, Recovery
from tests.support.running import FASTER, SOON, Down, ends, until
from tests.support.travel import Undone


@pytest.mark.parametrize(
    ("then", "state", "undone"), [("undo", "undone", ["flight"]), ("error", "error", [])]
)
async def test_then_says_what_becomes_of_a_task_that_cannot_go_on(
    app: App, url: str, then: Any, state: str, undone: list[str]
):
    travel = Undone(app)
    flight = travel.step("flight")

    @travel.agent.step
    async def pay() -> None:
        raise Down

    @app.workflow(recovery=Recovery(attempts=2, then=then))
    async def holiday() -> None:
        await flight("LH1")
        await pay()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == state

    assert travel.order == undone


async def test_then_wait_rests_for_long_and_tries_again_once_per_rest(app: App, url: str):
    """A full set of attempts first; after that one for each rest."""
    travel = Undone(app)
    flight = travel.step("flight")
    calls: list[datetime] = []

    @travel.agent.step
    async def pay() -> str:
        calls.append(datetime.now(UTC))  # noqa: TID251
        if len(calls) < 4:
            raise Down
        return "paid"

    @app.workflow(recovery=Recovery(attempts=2, wait="150ms", then="wait"))
    async def holiday() -> str:
        await flight("LH1")
        return await pay()

    async with app.run(url, **FASTER):
        handle = await app.submit(holiday, id="t")
        task = await until(app, "t", "waiting")
        assert (task.locked_by, task.complete_by) == (None, None)
        assert task.error is not None
        assert task.error.type == "Down"
        assert await handle.result(SOON) == "paid"
        task = await app.task("t")

    pauses = [later - earlier for earlier, later in itertools.pairwise(calls)]
    assert pauses[0] < timedelta(milliseconds=150) <= min(pauses[1:])
    assert travel.order == []
    assert task.error is None


async def test_an_error_in_the_workflows_own_code_is_never_an_undo_by_itself(app: App, url: str):
    """DESIGN §4: fix the code, resubmit."""
    travel = Undone(app)
    flight = travel.step("flight")

    @app.workflow(recovery=Recovery(then="undo"))
    async def holiday() -> None:
        await flight("LH1")
        raise KeyError("typo")

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert failed.state == "error"
    assert failed.error is not None
    assert failed.error["type"] == "KeyError"
    assert travel.order == []
