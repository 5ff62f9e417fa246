"""What may have had an effect is undone with the rest, what certainly had none is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay import App, Breaker, Permanent, Recovery, Retry, StepFailed, current_step, race, wait_for
from tests.support.running import FASTER, ONCE, SOON, Down, ends, eventually
from tests.support.travel import Undone, states


async def test_a_step_of_unknown_outcome_is_undone_first_and_knows_no_result(app: App, url: str):
    """Promise 6: every try failed, so nobody knows whether one took effect."""
    travel = Undone(app)
    flight = travel.step("flight")
    told: list[Any] = []

    @travel.agent.step
    async def hotel(name: str) -> str:
        raise Down

    @hotel.undo
    async def leave(name: str, *, result: str | None) -> None:
        travel.order.append("hotel")
        told.append((result, current_step().outcome))

    @app.workflow(recovery=Recovery(attempts=2))
    async def holiday() -> None:
        await flight("LH1")
        await hotel("Ritz")

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["hotel", "flight"]
    assert told == [(None, "unknown")]


async def test_a_step_that_was_refused_at_the_first_word_has_nothing_to_undo(app: App, url: str):
    travel = Undone(app)
    flight = travel.step("flight")

    @travel.agent.step
    async def hotel() -> None:
        raise Permanent("full")

    @hotel.undo
    async def leave(*, result: None) -> None:
        travel.order.append("hotel")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        await hotel()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"
        seen = await states(app, "t")

    assert travel.order == ["flight"]
    assert seen == {"flight:1": "undone", "hotel:1": "failed"}


async def test_a_refusal_after_an_unanswered_try_leaves_the_outcome_unknown(app: App, url: str):
    """The first try may have taken effect although the second was refused: perhaps for that very reason."""
    travel = Undone(app)
    tries: list[int] = []

    @travel.agent.step(retry=Retry(attempts=2, first="1ms"))
    async def hotel() -> None:
        tries.append(1)
        raise Down if len(tries) == 1 else Permanent("you have a room already")

    @hotel.undo
    async def leave() -> None:
        travel.order.append(current_step().outcome or "")

    @app.workflow
    async def holiday() -> None:
        await hotel()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["unknown"]


async def test_a_failure_that_the_workflow_went_around_is_undone_with_the_rest_if_it_may_have_had_effect(
    app: App, url: str
):
    travel = Undone(app)
    van = travel.step("van")

    @travel.agent.step
    async def drone() -> None:
        raise Down

    @drone.undo
    async def recall() -> None:
        travel.order.append("drone")

    @app.workflow(recovery=Recovery(attempts=1))
    async def deliver() -> None:
        try:
            await drone()
        except StepFailed:
            await van("7")

    async with app.run(url, **FASTER):
        handle = await app.submit(deliver, id="t")
        await handle.result(SOON)
        await app.undo("t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["van", "drone"]


async def test_a_step_given_up_while_a_breaker_parked_it_is_undone_with_the_rest(app: App, url: str):
    """It failed without verdict before the breaker opened, so its effect may be there."""
    travel = Undone(app)
    flaky = app.agent("flaky", retry=Retry(attempts=5, first="1ms"), breaker=Breaker(1, "10s", "60s"))

    @flaky.step
    async def drone() -> None:
        raise Down

    @drone.undo(retry=ONCE)
    async def recall() -> None:
        travel.order.append("drone")

    @app.workflow
    async def deliver() -> str:
        await race(drone(), wait_for("enough"))
        return "by van"

    other = App("undo")  # The same declarations, with a service that works again.
    well = other.agent("flaky")

    @well.step(name="drone")
    async def drone_again() -> None: ...

    drone_again.undo(recall)
    other.workflow(name="deliver")(deliver.function)

    async with app.run(url, **FASTER):
        handle = await app.submit(deliver, id="t")
        await eventually(
            lambda: states(app, "t"), lambda seen: seen.get("drone:1") == "pending", what="parking"
        )
        await app.signal("t", "enough")
        assert await handle.result(SOON) == "by van"
    async with other.run(url, **FASTER):
        await other.undo("t")
        assert (await ends(other, "t")).state == "undone"

    assert travel.order == ["drone"]


@pytest.mark.parametrize("first", ["hotel", "flight"])
async def test_a_step_that_answers_in_the_same_moment_as_its_neighbour_fails_is_undone_as_completed(
    app: App, url: str, first: str
):
    """Its result is known, although the workflow was never told; and nothing has to be waited for."""
    travel, both = Undone(app), asyncio.Barrier(2)
    told: list[Any] = []

    @travel.agent.step
    async def hotel() -> None:
        await both.wait()
        raise Permanent("full")

    @travel.agent.step
    async def flight() -> str:
        await both.wait()
        return "LH1"

    @flight.undo
    async def give_back(*, result: str | None) -> None:
        told.append((result, current_step().outcome))

    @app.workflow
    async def holiday() -> None:
        await asyncio.gather(*((hotel(), flight()) if first == "hotel" else (flight(), hotel())))

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert told == [("LH1", "completed")]


async def test_a_refusal_in_the_same_moment_as_the_end_leaves_nothing_to_undo(app: App, url: str):
    travel, both = Undone(app), asyncio.Barrier(2)

    async def refuse() -> None:
        await both.wait()
        raise Permanent("full")

    async def give_back() -> None:
        travel.order.append("undone")

    hotels = [travel.agent.step(name=name)(refuse) for name in ("ritz", "savoy")]
    for hotel in hotels:
        hotel.undo(give_back)

    @app.workflow
    async def holiday() -> None:
        await asyncio.gather(*(hotel() for hotel in hotels))

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"
        assert set((await states(app, "t")).values()) == {"failed"}

    assert travel.order == []


@pytest.mark.parametrize("how", ["gather", "TaskGroup"])
async def test_steps_in_flight_when_their_neighbour_fails_are_cancelled_and_undone_as_unknown(
    app: App, url: str, how: str
):
    """CT-5: they never gave a result, so they are the newest."""
    travel = Undone(app)
    flight = travel.step("flight")
    began, cancelled = asyncio.Event(), asyncio.Event()

    @travel.agent.step
    async def hotel() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    @hotel.undo
    async def leave(*, result: str | None) -> None:
        assert cancelled.is_set()
        travel.order.append(f"hotel {current_step().outcome} {result}")

    @travel.agent.step
    async def pay() -> None:
        await began.wait()
        raise Permanent("no funds")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        if how == "gather":
            await asyncio.gather(hotel(), pay())
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(hotel())
                group.create_task(pay())

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert travel.order == ["hotel unknown None", "flight"]
    assert failed.state == "undone"
    assert failed.step is not None
    assert failed.step.endswith("pay:1")
