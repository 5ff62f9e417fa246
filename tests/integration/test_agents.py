"""Agents: retry, complete-by, threads, concurrency, breaker, and what passes in and out of a step."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from backstay import (
    App,
    Breaker,
    Permanent,
    Recovery,
    Retry,
    StepFailed,
    TaskFailed,
    Transient,
    current_step,
    start,
    wait_for,
)
from backstay.errors import NotInWorkflow
from backstay.observe import BREAKER_OPENED, LATE_REPLY, STEP_RETRIED, counters
from backstay.scheduler.run import Run
from backstay.store.base import Settle, Transition
from tests.support.databases import AnyStore, Database
from tests.support.running import eventually

FAST: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "1s", "lease": "10s"}
ONCE = Retry(attempts=1)
SOON = 10.0

#: A complete-by that passes soon, but not before the record of the attempt is written: it would never begin.
SHORT = "400ms"


class Down(Exception):
    """The service does not answer."""


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def app() -> App:
    return App("agents")


async def comes_true(holds: Callable[[], object]) -> None:
    async def look() -> object:
        return holds()

    await eventually(look, bool)


async def until(app: App, task_id: str, state: str) -> None:
    await eventually(lambda: app.task(task_id), lambda task: task.state == state, what=f"{task_id} {state}")


async def recorded(app: App, task_id: str, key: str) -> None:
    await eventually(lambda: step_of(app, task_id, key), bool, what=f"{task_id}/{key}")


async def step_of(app: App, task_id: str, key: str) -> Any:
    return next((step for step in await app.steps(task_id) if step.key == key), None)


# Retry, within one attempt


async def test_a_transient_failure_is_retried_with_growing_pauses_under_one_key(app: App, url: str):
    """RT-2: exponential, per service. The attempt is one, however many tries it takes."""
    called: list[tuple[float, int, str]] = []
    agent = app.agent("drone", retry=Retry(attempts=4, first="20ms", factor=2, jitter=False))

    @agent.step
    async def schedule(delivery: str) -> str:
        called.append((time.monotonic(), current_step().attempt, current_step().idempotency_key))
        if len(called) < 4:
            raise Down
        return f"drone for {delivery}"

    @app.workflow
    async def deliver(delivery: str) -> str:
        return await schedule(delivery)

    retried = counters[STEP_RETRIED]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver, "d1", id="t")
        result = await handle.result(SOON)
        [step] = await app.steps("t")

    assert result == "drone for d1"
    assert [(attempt, key) for _, attempt, key in called] == [(1, "t/schedule:1")] * 4
    pauses = [later - earlier for (earlier, *_), (later, *_) in itertools.pairwise(called)]
    assert [pause >= wanted for pause, wanted in zip(pauses, (0.02, 0.04, 0.08), strict=True)] == [True] * 3
    assert (step.state, step.attempt, step.failure_count) == ("completed", 1, 0)
    assert counters[STEP_RETRIED] - retried == 3


async def test_retries_stop_at_the_complete_by(app: App, url: str):
    """CT-1, promise 4: the complete-by covers all of the agent's own retries."""
    remaining: list[timedelta] = []
    endless = Retry(attempts=1000, first="10ms", factor=1, jitter=False)
    agent = app.agent("drone", complete_by="300ms", retry=endless)

    @agent.step
    async def schedule() -> None:
        remaining.append(current_step().remaining)
        raise Down

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def deliver() -> None:
        await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)
        [step] = await app.steps("t")

    assert failed.value.state == "error"
    assert 2 <= len(remaining) <= 30
    assert all(timedelta(0) < left <= timedelta(milliseconds=300) for left in remaining)
    assert (step.state, step.attempt, step.failure_count) == ("failed", 1, 1)


async def test_permanent_is_not_retried_and_not_repeated(app: App, url: str):
    """RT-1: a refusal is final at the first word."""
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=5, first="1ms"))

    @agent.step
    async def charge() -> None:
        calls.append(current_step().attempt)
        raise Permanent("card refused")

    @app.workflow(recovery=Recovery(attempts=5, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == [1]
    assert failed.value.step == "charge:1"
    assert failed.value.error == {
        "type": "Permanent",
        "message": "card refused",
        "step": "charge:1",
        "permanent": True,
    }


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("typo"), True),
        (Transient("busy"), False),
        (Permanent("no"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_where_a_step_raised_is_logged_once_it_is_given_up_unless_it_said_what_is_wrong(
    app: App, url: str, caplog: pytest.LogCaptureFixture, error: Exception, told: bool
):
    @app.agent("a", retry=Retry(attempts=2, first="1ms")).step
    async def broken() -> None:
        raise error

    @app.workflow(recovery=Recovery(attempts=1))
    async def run() -> None:
        await broken()

    with caplog.at_level(logging.WARNING, "backstay"):
        async with app.run(url, **FAST):
            handle = await app.submit(run, id="t")
            with pytest.raises(TaskFailed):
                await handle.result(SOON)

    lines = [one for one in caplog.records if one.getMessage() == "step broken:1 of task t raised"]
    assert [one.exc_info[1] for one in lines if one.exc_info] == ([error] if told else [])


async def test_all_retries_times_all_recoveries_is_the_bound(app: App, url: str):
    """RT-7: Retry.attempts times Recovery.attempts calls, under one key; a used-up attempt is one failure."""
    calls: list[tuple[int, str]] = []
    agent = app.agent("bank", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def charge() -> None:
        calls.append((current_step().attempt, current_step().idempotency_key))
        raise Down("no route")

    @app.workflow(recovery=Recovery(attempts=3, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)
        [step] = await app.steps("t")

    assert calls == [(attempt, "t/charge:1") for attempt in (1, 1, 2, 2, 3, 3)]
    assert (step.state, step.attempt, step.failure_count) == ("failed", 3, 3)
    assert failed.value.error is not None
    assert (failed.value.error["type"], failed.value.error["message"]) == ("Down", "no route")
    assert failed.value.error["permanent"] is False


async def test_a_step_has_its_own_retry_and_complete_by_before_its_agents(app: App, url: str):
    calls: list[timedelta] = []
    agent = app.agent("bank", complete_by="30s", retry=Retry(attempts=50, first="1ms"))

    @agent.step(complete_by="2s", retry=Retry(attempts=3, first="1ms"))
    async def charge() -> None:
        calls.append(current_step().remaining)
        raise Down

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        with pytest.raises(TaskFailed):
            await handle.result(SOON)

    assert len(calls) == 3
    assert timedelta(seconds=1) < calls[0] <= timedelta(seconds=2)


async def test_the_workflow_sees_a_failure_only_when_it_is_final_and_may_go_another_way(app: App, url: str):
    """CT-11: an alternative instead of an undo."""
    seen: list[StepFailed] = []
    calls: list[str] = []
    agent = app.agent("carrier", retry=ONCE)

    @agent.step
    async def by_drone() -> str:
        calls.append("drone")
        raise Down("fog")

    @agent.step
    async def by_van() -> str:
        calls.append("van")
        return "van 7"

    @app.workflow(recovery=Recovery(attempts=3))
    async def deliver() -> str:
        try:
            return await by_drone()
        except StepFailed as failed:
            seen.append(failed)
            return await by_van()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        result = await handle.result(SOON)
        states = {step.key: step.state for step in await app.steps("t")}

    assert result == "van 7"
    assert calls == ["drone", "drone", "drone", "van"]
    assert [(failed.step, failed.error["type"]) for failed in seen] == [("by_drone:1", "Down")]
    assert states == {"by_drone:1": "failed", "by_van:1": "completed"}


async def test_a_body_that_raises_cancelled_error_itself_has_failed_like_any_other(app: App, url: str):
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        assert await handle.result(SOON) == "paid"

    assert calls == [1, 1]


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_whatever_a_thread_step_raises_is_a_failure_and_frees_its_slot(
    app: App, url: str, error: type[BaseException]
):
    calls: list[int] = []
    agent = app.agent("bank", complete_by="5s", retry=Retry(attempts=2, first="1ms"), concurrency=1)

    @agent.step
    def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise error
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        first = await app.submit(order)
        assert await first.result(2) == "paid"
        second = await app.submit(order)
        assert await second.result(2) == "paid"

    assert calls == [1, 1, 1]


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


@pytest.mark.parametrize("where", ["step", "workflow"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unreadable, "its message cannot be read"),
        (lambda: Down("half a pair: \ud800"), "half a pair: ?"),
        (lambda: Down("x" * 1_000_000), "x" * 1_999 + "…"),
        (Down, "Down()"),
    ],
    ids=["unreadable", "surrogate", "long", "silent"],
)
async def test_whatever_an_error_says_of_itself_it_can_be_recorded(
    app: App, url: str, where: str, error: Callable[[], Exception], message: str
):
    agent = app.agent("bank", retry=ONCE)

    @agent.step
    async def charge() -> None:
        raise error()

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def order() -> None:
        if where == "workflow":
            raise error()
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        with pytest.raises(TaskFailed) as failed:
            await handle.result(5)

    assert failed.value.error is not None
    assert failed.value.error["message"] == message


async def test_a_step_that_calls_sys_exit_has_failed_and_ends_nobody_else(app: App, url: str):
    """It would end the process gracefully, again at every start, and no crash would ever be counted."""
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise SystemExit(3)
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        assert await handle.result(SOON) == "paid"

    assert calls == [1, 1]


# Complete-by


async def test_an_async_step_is_cancelled_at_its_complete_by(app: App, url: str):
    """CB-13: every call ends, so the breaker, the retry and the supervisor can act."""
    ended: list[str] = []
    agent = app.agent("drone", complete_by=SHORT, retry=Retry(attempts=5, first="1ms"))

    @agent.step
    async def schedule() -> str:
        if current_step().attempt > 1:
            return "drone 2"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        raise AssertionError("nobody sets this event")

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        assert await handle.result(SOON) == "drone 2"
        [step] = await app.steps("t")

    assert ended == ["cancelled"]
    assert (step.attempt, step.failure_count) == (2, 1)


async def test_a_step_that_will_not_be_cancelled_says_nothing_after_its_complete_by(app: App, url: str):
    """SAS: past its complete-by an agent says nothing; what it still returns changes nothing."""
    stubborn = asyncio.Event()
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE)

    @agent.step
    async def schedule() -> str:
        if current_step().attempt > 1:
            await stubborn.wait()
            return "in time"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stubborn.set()
        return "late"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        assert await handle.result(SOON) == "in time"
        [step] = await app.steps("t")

    assert (step.attempt, step.output) == (2, "in time")


async def test_a_thread_step_gets_a_cancel_token_and_its_late_result_is_refused_and_counted(
    app: App, url: str
):
    told = threading.Event()
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE)

    @agent.step
    def schedule() -> str:
        step = current_step()
        if step.attempt > 1:
            return "in time"
        while not step.cancelled:
            time.sleep(0.002)
        assert step.remaining == timedelta(0)
        told.set()
        return "late"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    late = counters[LATE_REPLY]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver)
        assert await handle.result(SOON) == "in time"
        assert await asyncio.to_thread(told.wait, SOON)
        await comes_true(lambda: counters[LATE_REPLY] > late)

    assert counters[LATE_REPLY] - late == 1


async def test_a_thread_that_hangs_keeps_its_slot_until_it_ends(app: App, url: str):
    """Promise 10: abandoned threads are bounded by the agent's concurrency."""
    release = threading.Event()
    running: list[int] = []
    agent = app.agent("drone", complete_by=SHORT, retry=ONCE, concurrency=1)

    @agent.step
    def schedule() -> str:
        attempt = current_step().attempt
        running.append(attempt)
        if attempt == 1:
            release.wait(SOON)
        return f"attempt {attempt}"

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    async def queued() -> Any:
        step = await step_of(app, "t", "schedule:1")
        return step if step is not None and step.failure_count == 1 else None

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        step = await eventually(queued, bool)
        assert (step.state, step.complete_by) == ("pending", None)
        assert running == [1]

        release.set()
        assert await handle.result(SOON) == "attempt 2"


# Concurrency


async def test_concurrency_bounds_what_is_in_flight_and_the_rest_is_queued_without_complete_by(
    app: App, url: str
):
    """QL-1: a spike is not passed on. DESIGN §4: a queued step is pending and has no complete-by."""
    gate = asyncio.Event()
    inside: set[str] = set()
    most: list[int] = []
    agent = app.agent("drone", concurrency=3)

    @agent.step
    async def schedule(delivery: int) -> int:
        inside.add(current_step().task_id)
        most.append(len(inside))
        await gate.wait()
        inside.discard(current_step().task_id)
        return delivery

    @app.workflow
    async def deliver(delivery: int) -> int:
        return await schedule(delivery)

    async def all_recorded() -> Any:
        steps = [step for number in range(12) for step in await app.steps(f"t{number}")]
        return steps if len(steps) == 12 else None

    async with app.run(url, **FAST):
        handles = [await app.submit(deliver, number, id=f"t{number}") for number in range(12)]
        steps = await eventually(all_recorded, bool)
        running = [step for step in steps if step.state == "running"]
        queued = [step for step in steps if step.state == "pending"]
        assert (len(running), len(queued)) == (3, 9)
        assert all(step.complete_by is not None and step.attempt == 1 for step in running)
        assert all(step.complete_by is None and step.attempt == 0 for step in queued)

        gate.set()
        results = [await handle.result(SOON) for handle in handles]

    assert results == list(range(12))
    assert max(most) == 3


async def test_concurrency_bounds_threads_too(app: App, url: str):
    lock = threading.Lock()
    inside, most = 0, 0
    agent = app.agent("disk", concurrency=2)

    @agent.step
    def copy(number: int) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        with lock:
            inside -= 1
        return number

    @app.workflow
    async def backup() -> list[int]:
        return await asyncio.gather(*(copy(number) for number in range(8)))

    async with app.run(url, **FAST):
        handle = await app.submit(backup)
        assert await handle.result(SOON) == list(range(8))

    assert most == 2


# The breaker


class Service:
    """A service that a test switches off, makes hang, and on again; it counts who came."""

    def __init__(self) -> None:
        self.up = False
        self.calls = 0
        self.inside = 0
        self.hang: asyncio.Event | None = None

    async def answer(self) -> str:
        self.calls += 1
        self.inside += 1
        try:
            if self.hang is not None:
                await self.hang.wait()
            if not self.up:
                raise Down
        finally:
            self.inside -= 1
        return "here"


def guarded(app: App, service: Service, breaker: Breaker, **agent: Any) -> Any:
    """A workflow of one step at ``service``, behind ``breaker``."""
    options: dict[str, Any] = {"retry": Retry(attempts=20, first="1ms", factor=1), **agent}
    drone = app.agent("drone", breaker=breaker, **options)

    @drone.step
    async def schedule() -> str:
        return await service.answer()

    @app.workflow
    async def deliver() -> str:
        return await schedule()

    return deliver


def is_pending(step: Any) -> bool:
    return step is not None and bool(step.state == "pending")


async def parked(app: App, task_id: str) -> Any:
    """The step of the task, once its record shows that it went back into the line."""
    step = await step_of(app, task_id, "schedule:1")
    return step if step is not None and step.state == "pending" and step.attempt > 0 else None


async def test_an_open_breaker_parks_the_step_and_burns_no_failure(app: App, url: str):
    """CB-1, CB-2, CB-4, RT-6: at the threshold the retries stop; the step is pending, and unblamed."""
    service = Service()
    deliver = guarded(app, service, Breaker(failures=3, within="10s", open_for="800ms"))

    opened = counters[BREAKER_OPENED]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        step = await eventually(lambda: parked(app, "t"), bool)
        assert (step.failure_count, step.complete_by, step.attempt) == (0, None, 1)
        assert service.calls == 3

        service.up = True
        assert await handle.result(SOON) == "here"
        [step] = await app.steps("t")

    assert service.calls == 4
    assert (step.attempt, step.failure_count) == (2, 0)
    assert counters[BREAKER_OPENED] - opened == 1


async def test_failures_outside_the_window_do_not_open_the_breaker(app: App, url: str):
    """CB-1: failures are counted in a time window."""
    service = Service()
    slow = Retry(attempts=4, first="60ms", factor=1, jitter=False)
    deliver = guarded(app, service, Breaker(failures=2, within="20ms", open_for="60s"), retry=slow)

    opened = counters[BREAKER_OPENED]
    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="t")
        await comes_true(lambda: service.calls == 3)
        service.up = True
        assert await handle.result(SOON) == "here"

    assert counters[BREAKER_OPENED] == opened


async def test_permanent_answers_do_not_open_the_breaker(app: App, url: str):
    agent = app.agent("bank", breaker=Breaker(failures=1, open_for="60s"))

    @agent.step
    async def charge(card: str) -> str:
        if card == "bad":
            raise Permanent("refused")
        return "paid"

    @app.workflow(recovery=Recovery(then="error"))
    async def order(card: str) -> str:
        return await charge(card)

    async with app.run(url, **FAST):
        refused = await app.submit(order, "bad")
        with pytest.raises(TaskFailed):
            await refused.result(SOON)
        paid = await app.submit(order, "good")
        assert await paid.result(SOON) == "paid"


async def test_a_half_open_breaker_lets_one_probe_through_and_the_rest_follow_its_success(app: App, url: str):
    """CB-3: limited probes, then closed."""
    service = Service()
    deliver = guarded(app, service, Breaker(failures=3, open_for="300ms"))

    async with app.run(url, **FAST):
        handles = [await app.submit(deliver, id="t0")]
        await eventually(lambda: parked(app, "t0"), bool)
        handles += [await app.submit(deliver, id=f"t{number}") for number in range(1, 6)]
        for number in range(1, 6):
            await recorded(app, f"t{number}", "schedule:1")
        service.up, service.hang, before = True, asyncio.Event(), service.calls
        await comes_true(lambda: service.inside > 0)
        assert (service.calls - before, service.inside) == (1, 1)

        service.hang.set()
        assert [await handle.result(SOON) for handle in handles] == ["here"] * 6

    assert service.calls - before == 6


async def test_a_probe_that_fails_opens_the_breaker_again_and_nobody_else_is_let_in(app: App, url: str):
    """CB-3, CB-7: any failure opens it again, and for longer."""
    service = Service()
    deliver = guarded(app, service, Breaker(failures=3, open_for="150ms"))

    opened = counters[BREAKER_OPENED]
    async with app.run(url, **FAST):
        handles = [await app.submit(deliver, id=f"t{number}") for number in range(2)]
        await comes_true(lambda: counters[BREAKER_OPENED] - opened == 3)
        calls = service.calls
        service.up = True
        assert [await handle.result(SOON) for handle in handles] == ["here"] * 2

    # Both may have been under way when it opened first; from then on one probe per opening.
    assert calls <= 4 + 2


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_probe_that_never_answers_does_not_strand_those_in_line(app: App, url: str, in_thread: bool):
    """The probe's complete-by passes: the breaker opens again, and after that the next one probes."""
    release = threading.Event()
    calls: list[str] = []
    agent = app.agent(
        "drone",
        complete_by="150ms",
        retry=Retry(attempts=20, first="1ms"),
        breaker=Breaker(2, "10s", "100ms"),
    )

    def answer() -> bool:
        calls.append(current_step().task_id)
        if len(calls) <= 2:
            raise Down
        return len(calls) == 3  # the first probe

    @agent.step
    async def ask() -> str:
        if answer():
            await asyncio.Event().wait()
        return "here"

    @agent.step
    def ask_in_thread() -> str:
        if answer():
            release.wait(SOON)
        return "here"

    @app.workflow(recovery=Recovery(attempts=5))
    async def deliver() -> str:
        return await (ask_in_thread() if in_thread else ask())

    try:
        async with app.run(url, **FAST):
            handles = [await app.submit(deliver, id=f"t{number}") for number in range(4)]
            assert [await handle.result(5) for handle in handles] == ["here"] * 4
    finally:
        release.set()


async def test_a_probe_that_is_cancelled_does_not_strand_those_in_line(app: App, url: str):
    service = Service()
    deliver = guarded(app, service, Breaker(failures=2, open_for="400ms"))

    opened = counters[BREAKER_OPENED]
    async with app.run(url, **FAST):
        handles = {f"t{number}": await app.submit(deliver, id=f"t{number}") for number in range(3)}
        await comes_true(lambda: counters[BREAKER_OPENED] > opened)
        for task_id in handles:
            await eventually(lambda task_id=task_id: step_of(app, task_id, "schedule:1"), is_pending)  # type: ignore[misc]
        service.up, service.hang = True, asyncio.Event()
        await comes_true(lambda: service.inside == 1)
        probing = [
            task_id for task_id in handles if (await step_of(app, task_id, "schedule:1")).state == "running"
        ]
        hanging, service.hang = service.hang, None
        for task_id in probing:
            await app.cancel(task_id, undo=False)

        others = [handle for task_id, handle in handles.items() if task_id not in probing]
        assert [await handle.result(5) for handle in others] == ["here"] * len(others)
        hanging.set()


async def test_an_open_breaker_costs_no_other_agent_anything(app: App, url: str):
    """CB-11, promise 10: one breaker per agent."""
    service = Service()
    deliver = guarded(app, service, Breaker(failures=1, open_for="60s"))
    bank = app.agent("bank", breaker=Breaker(failures=1, open_for="60s"))

    @bank.step
    async def charge() -> str:
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, in_flight=4, **FAST):
        for number in range(12):
            await app.submit(deliver, id=f"t{number}")
        await comes_true(lambda: service.calls > 0)
        handles = [await app.submit(order) for _ in range(5)]
        assert [await handle.result(SOON) for handle in handles] == ["paid"] * 5


async def test_a_task_parked_by_a_long_open_breaker_leaves_memory_and_comes_back(app: App, url: str):
    """Promise 10: a dead service costs bounded memory."""
    service = Service()
    deliver = guarded(app, service, Breaker(failures=2, open_for="1500ms"))

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="parked")
        await until(app, "parked", "waiting")
        task, [step] = await app.task("parked"), await app.steps("parked")
        assert (task.locked_by, task.complete_by) == (None, None)
        assert (step.state, step.failure_count, step.complete_by) == ("pending", 0, None)
        await comes_true(lambda: not runs_in_memory("parked"))

        service.up = True
        assert await handle.result(SOON) == "here"


async def test_those_who_already_stand_in_line_leave_memory_as_well_when_the_breaker_opens(
    app: App, url: str
):
    """Promise 10: tasks in the line of a dead service must not use up in_flight."""
    service = Service()
    service.hang = asyncio.Event()
    deliver = guarded(app, service, Breaker(failures=1, open_for="30s"), concurrency=1)
    bank = app.agent("bank")

    @bank.step
    async def charge() -> str:
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, in_flight=3, **FAST):
        for number in range(3):
            await app.submit(deliver, id=f"t{number}")
            await recorded(app, f"t{number}", "schedule:1")
        handle = await app.submit(order)
        service.hang.set()

        assert await handle.result(SOON) == "paid"
        for number in range(3):
            await until(app, f"t{number}", "waiting")


# Not idempotent


async def test_a_step_that_is_not_idempotent_is_never_tried_again_after_a_failure_without_verdict(
    app: App, url: str
):
    """RT-4: never retry without knowing; the outcome goes to Recovery.then."""
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=5, first="1ms"))

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        raise Down

    @app.workflow(recovery=Recovery(attempts=3, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == [1]
    assert (failed.value.state, failed.value.step) == ("error", "charge:1")


async def test_a_step_that_is_not_idempotent_is_not_repeated_when_its_complete_by_passes(app: App, url: str):
    calls: list[int] = []
    agent = app.agent("bank", complete_by=SHORT)

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        await asyncio.Event().wait()

    @app.workflow(recovery=Recovery(attempts=3, then="error"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == [1]
    assert failed.value.error is not None
    assert failed.value.error["type"] == "Expired"


@pytest.mark.parametrize("attempts", [1, 3])
async def test_then_wait_does_not_repeat_a_step_of_unknown_outcome_that_is_not_idempotent(
    app: App, url: str, attempts: int
):
    """Waiting ends in another try, which is the one thing this step must not get."""
    calls: list[int] = []
    agent = app.agent("bank")

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append(current_step().attempt)
        raise Down

    @app.workflow(recovery=Recovery(attempts=attempts, wait="50ms", then="wait"))
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert failed.value.state == "error"
    assert calls == [1]


async def test_a_step_that_is_not_idempotent_is_not_taken_up_again_after_its_neighbour_failed(
    app: App, url: str
):
    """It was cancelled at work, so its outcome is unknown; the wait that follows must not repeat it."""
    began = asyncio.Event()
    calls: list[str] = []
    agent = app.agent("bank", retry=ONCE)

    @agent.step(idempotent=False)
    async def charge() -> None:
        calls.append("charge")
        began.set()
        await asyncio.Event().wait()

    @agent.step
    async def reserve() -> None:
        await began.wait()
        calls.append("reserve")
        if calls.count("reserve") == 1:
            raise Permanent("sold out")

    @app.workflow(recovery=Recovery(wait="50ms", then="wait"))
    async def order() -> None:
        await asyncio.gather(charge(), reserve())

    async with app.run(url, **FAST):
        handle = await app.submit(order, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert calls == ["charge", "reserve"]
    assert (failed.value.state, failed.value.step) == ("error", "charge:1")


async def test_an_attempt_that_the_disk_held_up_past_its_complete_by_never_began(
    app: App, database: Database
):
    """Promise 4: it is not started any more; and as it never was, there is nothing unknown about it."""

    class SlowStore(AnyStore):
        held_up = 0

        def apply(self, transition: Transition, settle: Settle) -> None:
            if self.held_up < 1 and any(step.state == "running" for step in transition.steps):
                self.held_up += 1
                asyncio.get_running_loop().call_later(0.3, super().apply, transition, settle)
            else:
                super().apply(transition, settle)

    calls: list[int] = []
    agent = app.agent("bank", complete_by="150ms", concurrency=1)

    @agent.step(idempotent=False)
    async def charge() -> str:
        calls.append(current_step().attempt)
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(database.store_as(SlowStore), **FAST):
        handle = await app.submit(order, id="t")
        assert await handle.result(SOON) == "paid"
        [step] = await app.steps("t")

    assert calls == [2]
    assert (step.attempt, step.failure_count) == (2, 1)


async def test_a_step_that_is_not_idempotent_waits_for_a_slot_like_any_other(app: App, url: str):
    """Queueing is not an attempt: nothing is unknown about a step that never began."""
    gate = asyncio.Event()
    calls: list[str] = []
    agent = app.agent("bank", concurrency=1)

    @agent.step(idempotent=False)
    async def charge(order: str) -> str:
        calls.append(order)
        await gate.wait()
        return order

    @app.workflow
    async def order(name: str) -> str:
        return await charge(name)

    async with app.run(url, **FAST):
        handles = [await app.submit(order, name, id=name) for name in ("a", "b")]
        await recorded(app, "b", "charge:1")
        gate.set()
        assert [await handle.result(SOON) for handle in handles] == ["a", "b"]

    assert sorted(calls) == ["a", "b"]


# What a step knows about itself, and what it is elsewhere


async def test_current_step_tells_who_it_is_and_how_long_it_has(app: App, url: str):
    seen: list[Any] = []
    agent = app.agent("drone", complete_by="20s")

    @agent.step
    async def schedule() -> None:
        seen.append((current_step(), current_step().remaining))

    @agent.step
    def schedule_in_thread() -> None:
        seen.append((current_step(), current_step().remaining))

    @app.workflow
    async def deliver() -> None:
        await schedule()
        await schedule_in_thread()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver, id="delivery-17")
        await handle.result(SOON)
        steps = await app.steps("delivery-17")

    for (context, remaining), step, name in zip(seen, steps, ("schedule", "schedule_in_thread"), strict=True):
        assert context.task_id == "delivery-17"
        assert context.key == step.key == f"{name}:1"
        assert context.idempotency_key == f"delivery-17/{name}:1"
        assert context.attempt == 1
        assert context.outcome is None
        assert context.cancelled is False
        assert timedelta(seconds=15) < remaining <= timedelta(seconds=20)
        assert context.complete_by.utcoffset() == timedelta(0)
        assert timedelta(0) < context.complete_by - datetime.now(UTC) < timedelta(seconds=20)  # noqa: TID251


async def test_a_step_called_outside_a_task_is_the_plain_function(app: App):
    agent = app.agent("math")

    @agent.step
    def double(number: int) -> int:
        """Twice as much."""
        return 2 * number

    @agent.step
    async def triple(number: int, *, plus: int = 0) -> int:
        return 3 * number + plus

    @app.workflow
    async def six(number: int) -> int:
        return await triple(double(number))

    assert double(2) == 4
    assert await triple(2, plus=1) == 7
    assert await six(1) == 6
    assert (vars(double)["__name__"], double.__doc__) == ("double", "Twice as much.")
    with pytest.raises(NotInWorkflow, match="current_step"):
        current_step()


async def test_a_step_called_in_the_body_of_a_step_is_the_plain_function(app: App, url: str):
    agent = app.agent("math")

    @agent.step
    def double(number: int) -> int:
        return 2 * number

    @agent.step
    async def triple(number: int) -> int:
        return 3 * number

    @agent.step
    async def six(number: int) -> int:
        return await triple(double(number))

    @agent.step
    def four(number: int) -> int:
        return double(double(number))

    @app.workflow
    async def compute() -> tuple[int, int]:
        return await six(1), await four(1)

    async with app.run(url, **FAST):
        handle = await app.submit(compute, id="t")
        assert await handle.result(SOON) == (6, 4)
        keys = [step.key for step in await app.steps("t")]

    assert keys == ["six:1", "four:1"]


async def test_a_step_of_another_app_is_refused_by_name(app: App, url: str):
    stranger = App("stranger").agent("drone")

    @stranger.step
    async def schedule() -> None: ...

    @app.workflow
    async def deliver() -> None:
        await schedule()

    async with app.run(url, **FAST):
        handle = await app.submit(deliver)
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert failed.value.state == "error"
    assert failed.value.error is not None
    assert failed.value.error["type"] == "InvalidDefinition"
    assert "schedule" in failed.value.error["message"]


# What passes in and out


class Colour(Enum):
    RED = "red"


class Package(msgspec.Struct, frozen=True):
    size: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Address:
    street: str
    since: date | None = None


class Account(pydantic.BaseModel):
    owner: str
    limit: Decimal = Decimal("1.50")


class Licence(pydantic.BaseModel):
    """As models are in the wild: strict, with other names outside than inside, and with derived fields."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    holder: str = pydantic.Field(alias="holderName")
    until: date
    points: tuple[int, ...] = ()

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return sum(self.points)


VALUES: list[tuple[Any, Any]] = [
    (Package, Package(3, ("a", "b"))),
    (Address, Address("Main St", date(2030, 1, 2))),
    (Account, Account(owner="ann", limit=Decimal("2.25"))),
    (Licence, Licence(holderName="ann", until=date(2030, 1, 2), points=(1, 2))),
    (list[Account], [Account(owner="ann"), Account(owner="bob")]),
    (dict[str, Package], {"p": Package(1)}),
    (Package | None, None),
    (tuple[int, str], (1, "x")),
    (set[int], {1, 2, 3}),
    (datetime, datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)),
    (timedelta, timedelta(days=1, milliseconds=5)),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=7)),
    (bytes, b"\x00\xff"),
    (Colour, Colour.RED),
    (float, 1.5),
    (int, 2**70),
    (str, "käse 🧀"),
    (dict[int, str], {1: "one"}),
]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda one: str(one)[:30])
async def test_a_typed_value_arrives_in_the_step_and_comes_back_unchanged(
    app: App, url: str, kind: Any, value: Any, in_thread: bool
):
    arrived: list[Any] = []
    agent = app.agent("echo")

    async def echo(value):
        arrived.append(value)
        return value

    def echo_in_thread(value):
        arrived.append(value)
        return value

    async def relay(value):
        arrived.append(value)
        return await step(value)

    for function in (echo, echo_in_thread, relay):
        function.__annotations__ = {"value": kind, "return": kind}
    step: Any = agent.step(echo_in_thread if in_thread else echo)
    workflow = app.workflow(relay)

    async with app.run(url, **FAST):
        handle = await app.submit(workflow, value)
        result = await handle.result(SOON)

    assert [*arrived, result] == [value] * 3
    assert {type(one) for one in [*arrived, result]} == {type(value)}


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, 3)),
        {1, 2},
        {3: "three"},
        Package(3, ("a",)),
        datetime(2030, 1, 1, tzinfo=UTC),
        Decimal("1.10"),
        b"x",
    ],
    ids=str,
)
async def test_an_untyped_value_is_the_same_live_and_after_replay(app: App, url: str, value: Any):
    """What passes through a step passes through JSON even the first time."""
    seen: list[Any] = []
    agent = app.agent("echo")

    @agent.step
    async def fetch():
        return value

    @app.workflow
    async def remember() -> None:
        seen.append(await fetch())
        await wait_for("go")

    async with app.run(url, **FAST):
        handle = await app.submit(remember, id="t")
        await until(app, "t", "waiting")
        await app.signal("t", "go")
        await handle.result(SOON)

    live, replayed = seen
    assert live == replayed
    assert repr(live) == repr(replayed)


async def test_what_a_step_does_to_its_argument_stays_in_the_step(app: App, url: str):
    """Also when it is tried again: each try gets what was recorded."""
    given: list[list[int]] = []
    agent = app.agent("list", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def spoil(numbers: list[int]) -> int:
        given.append(list(numbers))
        numbers.append(99)
        if len(given) == 1:
            raise Down
        return len(numbers)

    @app.workflow
    async def count() -> list[int]:
        numbers = [1, 2]
        await spoil(numbers)
        return numbers

    async with app.run(url, **FAST):
        handle = await app.submit(count)
        assert await handle.result(SOON) == [1, 2]

    assert given == [[1, 2], [1, 2]]


async def test_several_arguments_defaults_and_keywords_are_recorded_by_name(app: App, url: str):
    agent = app.agent("echo")

    @agent.step
    async def tell(first: int, second: str = "two", *, third: float = 3.0) -> str:
        return f"{first} {second} {third}"

    @app.workflow
    async def both(first: int, *, second: str = "zwei") -> list[str]:
        return [await tell(first), await tell(first, second), await tell(first=first, third=1.5)]

    async with app.run(url, **FAST):
        by_position = await app.submit(both, 7, "deux", id="a")
        by_name = await app.submit(both, {"first": 7, "second": "deux"}, id="b")
        by_default = await app.submit(both, {"first": 7}, id="c")
        one_given = await app.submit(both, 7, id="d")
        assert await by_position.result(SOON) == ["7 two 3.0", "7 deux 3.0", "7 two 1.5"]
        assert await by_name.result(SOON) == await by_position.result()
        assert await by_default.result(SOON) == ["7 two 3.0", "7 zwei 3.0", "7 two 1.5"]
        assert await one_given.result(SOON) == await by_default.result()
        inputs = [step.input for step in await app.steps("a")]
        assert (await app.task("a")).input == {"first": 7, "second": "deux"}

    assert inputs == [
        {"first": 7, "second": "two", "third": 3.0},
        {"first": 7, "second": "deux", "third": 3.0},
        {"first": 7, "second": "two", "third": 1.5},
    ]


async def test_no_argument_and_no_result_are_null(app: App, url: str):
    agent = app.agent("echo")

    @agent.step
    async def nothing() -> None: ...

    @app.workflow
    async def idle() -> None:
        return await nothing()

    async with app.run(url, **FAST):
        handle = await app.submit(idle, id="t")
        assert await handle.result(SOON) is None
        [step] = await app.steps("t")
        task = await app.task("t")

    assert (step.input, step.output, task.input, task.output) == (None, None, None, None)


async def test_a_child_takes_its_input_as_a_submission_does(app: App, url: str):
    @app.workflow
    async def add(first: int, second: int = 10) -> int:
        return first + second

    @app.workflow
    async def sums() -> list[int]:
        return [await start(add, 1, 2), await start(add, {"first": 1, "second": 3}), await start(add, 1)]

    async with app.run(url, **FAST):
        handle = await app.submit(sums)
        assert await handle.result(SOON) == [3, 4, 11]


# Underneath


def runs_in_memory(task_id: str) -> list[Run]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Run) and one.task.id == task_id]
