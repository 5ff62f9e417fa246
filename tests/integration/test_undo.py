"""Undo: what a task did that failed for good is taken back, newest first, or a person is called."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import (
    App,
    Breaker,
    Permanent,
    Recovery,
    Retry,
    StepFailed,
    TaskFailed,
    current_step,
    race,
    wait_for,
)
from backstay.errors import IllegalMove
from backstay.store.base import Settle, Transition
from backstay.store.records import AlertFilter
from tests.support.databases import AnyStore, Database
from tests.support.running import eventually
from tests.support.stores import DyingStore, PatientStore

FAST: dict[str, Any] = {"supervisor_period": "20ms", "heartbeat": "1s", "lease": "10s"}
ONCE = Retry(attempts=1)
SOON = 10.0


class Down(Exception):
    """The service does not answer."""


class Undone:
    """Steps with an undo, and what the undos were told."""

    def __init__(self, app: App, **agent: Any) -> None:
        self.agent = app.agent("travel", **{"retry": ONCE, **agent})
        self.order: list[str] = []
        self.told: dict[str, Any] = {}

    def step(self, name: str, *, undo: dict[str, Any] | None = None, **options: Any) -> Any:
        """A step that returns ``<name> <argument>``; its undo notes that it ran, and what it was told."""

        async def book(what: str) -> str:
            return f"{name} {what}"

        declared: Any = self.agent.step(name=name, **options)(book)

        async def release(what: str, *, result: str | None) -> None:
            step = current_step()
            self.order.append(name)
            self.told[name] = (what, result, step.outcome, step.idempotency_key)

        declared.undo(**(undo or {}))(release)
        return declared


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def app() -> App:
    return App("undo")


async def until(app: App, task_id: str, *states: str) -> Any:
    return await eventually(lambda: app.task(task_id), lambda task: task.state in states, what=task_id)


async def states(app: App, task_id: str) -> dict[str, str]:
    return {step.key: step.state for step in await app.steps(task_id)}


async def ends(app: App, task_id: str) -> TaskFailed:
    with pytest.raises(TaskFailed) as failed:
        await app.handle(task_id).result(SOON)
    return failed.value


# The plan


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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert (failed.state, failed.step) == ("undone", "weather")
    assert travel.order == ["flight"]


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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        await eventually(
            lambda: states(app, "t"), lambda seen: seen.get("drone:1") == "pending", what="parking"
        )
        await app.signal("t", "enough")
        assert await handle.result(SOON) == "by van"
    async with other.run(url, **FAST):
        await other.undo("t")
        assert (await ends(other, "t")).state == "undone"

    assert travel.order == ["drone"]


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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert travel.order == ["hotel unknown None", "flight"]
    assert failed.state == "undone"
    assert failed.step is not None
    assert failed.step.endswith("pay:1")


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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    [(told, thread)] = ran
    assert told == "LH1/7"
    assert thread != threading.current_thread().name


async def test_an_operator_may_undo_a_task_that_ran_through(app: App, url: str):
    travel = Undone(app)
    flight, hotel = travel.step("flight"), travel.step("hotel")

    @app.workflow
    async def holiday() -> str:
        await flight("LH1")
        return str(await hotel("Ritz"))

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        handle = await app.submit(holiday, id="t")
        await began.wait()
        await handle.cancel()
        failed = await ends(app, "t")

    assert failed.state == "undone"
    assert failed.error is not None
    assert failed.error["type"] == "Cancelled"
    assert travel.order == ["hotel unknown", "flight"]


# Trying hard


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

    async with app.run(url, **FAST):
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

    async with app.run(url, undo_complete_by="90s", **FAST):
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
        async with app.run(url, **FAST):
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

    async with app.run(database.store_as(SlowStore), **FAST):
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

    async with app.run(url, **FAST):
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


# A stuck undo


def stuck(app: App, travel: Undone, service: dict[str, bool], *, car: Any = None, **recovery: Any) -> Any:
    """Three bookings, of which the middle one cannot be undone while ``service["up"]`` is false."""
    flight, car = travel.step("flight"), car or travel.step("car")

    @travel.agent.step
    async def hotel() -> None: ...

    @hotel.undo
    async def leave() -> None:
        if not service["up"]:
            raise Down("nobody at the desk")
        travel.order.append("hotel")

    @app.workflow(recovery=Recovery(undo_attempts=2, **recovery))
    async def holiday() -> None:
        await flight("LH1")
        await hotel()
        await car("Mini")
        raise StepFailed("pay:1", {"type": "Permanent", "message": "no funds", "permanent": True})

    return holiday


async def test_an_undo_that_keeps_failing_holds_up_no_other_and_calls_a_person(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    """Promise 6, CT-9: a stuck undo is a state of its own, and an alert with its cause."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service)

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FAST):
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


@pytest.mark.parametrize("move", ["undo", "resubmit"])
async def test_the_operator_has_a_failed_undo_tried_again_and_finished_ones_stay_finished(
    app: App, url: str, move: str
):
    """CT-3: resumable from its point of failure."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service)

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"
        await app.complete_step("t", "hotel:1")
        await until(app, "t", "undone")
        seen = await states(app, "t")

    assert travel.order == ["car", "flight"]
    assert seen["hotel:1"] == "undone"


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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undo_failed"

    assert calls == [1]


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

    async with app.run(url, **FAST):
        handle = await app.submit(holiday, id="t")
        await handle.result(SOON)
    async with later.run(url, **FAST):
        await later.undo("t")
        assert (await ends(later, "t")).state == "undo_failed"
        steps = {step.key: step for step in await later.steps("t")}

    assert travel.order == ["flight"]
    assert steps["hotel:1"].state == "undo_failed"
    assert steps["hotel:1"].error is not None
    assert steps["hotel:1"].error.message == "no undo of 'hotel' is registered here"


# A person's work


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
        async with app.run(url, **FAST):
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


async def test_an_undo_that_fails_beside_a_persons_work_calls_somebody_at_once(
    app: App, url: str, caplog: pytest.LogCaptureFixture
):
    """The person may take days; nobody should have to wait so long to hear of the other one."""
    travel, service = Undone(app), {"up": False}
    holiday = stuck(app, travel, service, car=travel.step("car", undo={"manual": True}))

    with caplog.at_level(logging.ERROR, "backstay"):
        async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        await eventually(
            lambda: states(app, "t"), lambda seen: seen.get("hotel:1") == "undoing", what="undoing"
        )
    async with app.run(url, **FAST):
        await app.complete_step("t", "hotel:1")
        await until(app, "t", "undone")

    assert travel.order == []


# The point of no return


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

    async with app.run(url, **FAST):
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
        async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        assert (await ends(app, "t")).state == "undone"

    assert travel.order == ["flight"]


# Recovery.then


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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
        await app.submit(holiday, id="t")
        failed = await ends(app, "t")

    assert failed.state == "error"
    assert failed.error is not None
    assert failed.error["type"] == "KeyError"
    assert travel.order == []


# When an undo may start, and what a crash does to it


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
    async with app.run(database.store_as(DyingStore), **FAST):
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
    async with app.run(database.url, **FAST | database.heir()):
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

    async with busy.run(store, **FAST):
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
        async with app.run(url, **FAST):
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

    async with app.run(url, **FAST):
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

    async with app.run(database.store_as(DyingStore), **FAST):
        await app.submit(holiday, id="t")
        await asyncio.wait_for(began.wait(), SOON)
    assert travel.order == ["car"]

    async with app.run(database.url, **FAST | database.heir()):
        failed = await ends(app, "t")

    assert failed.state == "undone"
    assert failed.error is not None
    assert failed.error["message"] == "no funds"
    assert travel.order == ["car", "hotel", "flight"]
    assert attempts == [(1, "t/hotel:1/undo"), (2, "t/hotel:1/undo")]
