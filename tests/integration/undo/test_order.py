"""What came true is undone newest first, and each undo is told what came of its step."""

from __future__ import annotations

import asyncio
import threading

from backstay import App, Permanent, StepFailed
from tests.support.running import FASTER, ends
from tests.support.travel import Undone, states


async def test_completed_steps_are_undone_newest_first_by_completion(app: App, url: str):
    """Promise 6, CT-2: not in the order of the calls, but of what came true."""
    travel = Undone(app)
    flight, hotel, car = (travel.step(name) for name in ("flight", "hotel", "car"))
    hotel_is_booked = asyncio.Event()
    slow = app.agent("slow")

    @slow.step
    async def wait_for_hotel() -> None:
        await hotel_is_booked.wait()

    @slow.step
    async def tell() -> None:
        hotel_is_booked.set()

    @slow.step
    async def pay() -> None:
        raise Permanent("no funds")

    async def book_flight_late() -> None:
        await wait_for_hotel()
        await flight("LH1")

    async def book_hotel() -> None:
        await hotel("Ritz")
        await tell()

    @app.workflow
    async def holiday() -> None:
        await asyncio.gather(book_flight_late(), book_hotel())
        await car("Mini")
        await pay()

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")
        seen = await states(app, "t")

    assert travel.order == ["car", "flight", "hotel"]
    assert {seen[key] for key in ("car:1", "1.flight:1", "2.hotel:1")} == {"undone"}
    assert (seen["pay:1"], seen["2.tell:1"]) == ("failed", "completed")
    assert (failed.state, failed.step) == ("undone", "pay:1")
    assert failed.error is not None
    assert failed.error["message"] == "no funds"


async def test_an_undo_is_told_what_came_of_its_step_and_has_a_key_of_its_own(app: App, url: str):
    """CT-2, CT-3, CT-10: the arguments, the result, the outcome, and the step's own key with /undo."""
    travel = Undone(app)
    flight = travel.step("flight")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.told == {"flight": ("LH1", "flight LH1", "completed", "t/flight:1/undo")}


async def test_a_failure_that_the_workflow_makes_up_itself_counts_as_one(app: App, url: str):
    travel = Undone(app)
    flight = travel.step("flight")

    @app.workflow
    async def holiday() -> None:
        await flight("LH1")
        raise StepFailed("weather", {"reason": "rain"})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert (failed.state, failed.step) == ("undone", "weather")
    assert travel.order == ["flight"]


async def test_undos_run_in_threads_and_may_do_without_the_result(app: App, url: str):
    travel = Undone(app)
    ran: list[tuple[str, str]] = []

    @travel.agent.step
    def flight(number: str, *, seat: int = 1) -> dict[str, int]:
        return {number: seat}

    @flight.undo
    def release(seat: int, number: str) -> None:
        ran.append((f"{number}/{seat}", threading.current_thread().name))

    @app.workflow
    async def holiday() -> None:
        await flight("LH1", seat=7)
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(url, **FASTER):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    [(told, thread)] = ran
    assert told == "LH1/7"
    assert thread != threading.current_thread().name
