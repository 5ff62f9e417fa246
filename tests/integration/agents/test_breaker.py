"""A service that fails is left alone until it answers again, and that costs nobody else anything."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from backstay import App, Breaker, Permanent, Recovery, Retry, TaskFailed, current_step
from backstay.observe import BREAKER_OPENED, counters
from backstay.scheduler.run import Run
from tests.support.running import FAST, SHORT, SOON, Down, comes_true, eventually, recorded, step_of, until


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


def runs_in_memory(task_id: str) -> list[Run]:
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Run) and one.task.id == task_id]


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
        complete_by=SHORT,
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
