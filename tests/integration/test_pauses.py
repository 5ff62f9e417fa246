"""A service that asks to be left alone is left alone: by the next try, the next attempt, and the undo."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from backstay import App, Breaker, Permanent, Recovery, Retry, TaskFailed, Transient, current_step
from backstay.store.base import Store
from tests.support.crashes import store_at
from tests.support.running import NEVER_STALE, LeapingClock, eventually, running, until

HOUR = timedelta(hours=1)
PAUSE = timedelta(milliseconds=300)


class Service:
    """Says the next of its lines at each call, the last one for ever."""

    def __init__(self, *says: Exception | None) -> None:
        self._says = list(says)
        self.asked: list[float] = []

    def ask(self) -> str:
        self.asked.append(time.monotonic())
        line = self._says.pop(0) if len(self._says) > 1 else self._says[0]
        if line is not None:
            raise line
        return "done"


@pytest.fixture
def app() -> App:
    return App("pauses")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "pauses.db")


def busy(pause: timedelta, *, unsure: bool = True) -> Transient:
    return Transient("busy", retry_after=pause, unsure=unsure)


def one_step(app: App, service: Service, recovery: Recovery | None = None) -> None:
    agent = app.agent("bank", complete_by="200ms", retry=Retry(attempts=4, first="1ms", jitter=False))

    @agent.step
    async def charge() -> str:
        return service.ask()

    @app.workflow(recovery=recovery or Recovery())
    async def order() -> str:
        return await charge()


async def test_the_next_attempt_waits_when_the_pause_leads_past_the_complete_by(app: App, store: Store):
    service = Service(busy(PAUSE), None)
    one_step(app, service)

    async with running(app, store) as client:
        assert await (await client.submit("order", id="t")).result() == "done"
        [step] = await client.steps("t")

    asked, again = service.asked
    assert again - asked >= PAUSE.total_seconds()
    assert (step.attempt, step.failure_count) == (2, 1)


async def test_a_task_leaves_memory_for_a_long_pause_and_comes_back_when_it_is_over(app: App, store: Store):
    service = Service(busy(HOUR), None)
    clock = LeapingClock()
    one_step(app, service)

    async with running(app, store, clock=clock, **NEVER_STALE) as client:
        handle = await client.submit("order", id="t")
        waiting = await until(client, "t", "waiting")
        clock.leap(HOUR)

        assert await handle.result(10) == "done"

    assert waiting.locked_by is None
    assert len(service.asked) == 2


async def test_pauses_use_up_the_recovery_one_attempt_at_a_time(app: App, store: Store):
    service = Service(busy(PAUSE))
    one_step(app, service, Recovery(attempts=2, then="error"))

    async with running(app, store) as client:
        with pytest.raises(TaskFailed, match="busy"):
            await (await client.submit("order")).result(10)

    asked, again = service.asked
    assert again - asked >= PAUSE.total_seconds()


async def test_a_pause_that_leads_past_the_hard_end_is_not_waited_for(app: App, store: Store):
    service = Service(busy(HOUR))
    one_step(app, service, Recovery(attempts=3, then="error"))

    async with running(app, store) as client:
        with pytest.raises(TaskFailed, match="busy"):
            await (await client.submit("order", complete_by="30m")).result(10)

    assert len(service.asked) == 1


async def test_an_undo_waits_as_well(app: App, store: Store):
    cashier = Service(busy(PAUSE), None)
    bank = app.agent("bank", complete_by="200ms", retry=Retry(attempts=1))

    @bank.step
    async def charge() -> None: ...

    @charge.undo(retry=Retry(attempts=1), complete_by="200ms")
    async def refund() -> None:
        cashier.ask()

    @bank.step
    async def ship() -> None:
        raise Permanent("no")

    @app.workflow
    async def order() -> None:
        await charge()
        await ship()

    async with running(app, store) as client:
        with pytest.raises(TaskFailed, match="undone"):
            await (await client.submit("order")).result(10)

    asked, again = cashier.asked
    assert again - asked >= PAUSE.total_seconds()


async def test_a_step_that_was_surely_not_done_is_not_undone_though_the_breaker_put_it_off(
    app: App, store: Store
):
    """Every try was refused before it began; then the breaker opened, and the last answer is no."""
    outcomes: list[str | None] = []
    service = Service(busy(timedelta(0), unsure=False), Permanent("never"))
    agent = app.agent(
        "bank",
        complete_by="5s",
        retry=Retry(attempts=4, first="1ms", jitter=False),
        breaker=Breaker(failures=1, within="10s", open_for="100ms"),
    )

    @agent.step
    async def charge() -> str:
        return service.ask()

    @charge.undo
    async def refund() -> None:
        outcomes.append(current_step().outcome)

    @app.workflow
    async def order() -> str:
        return await charge()

    async with running(app, store) as client:
        handle = await client.submit("order", id="t")
        with pytest.raises(TaskFailed, match="never"):
            await handle.result(10)
        await eventually(lambda: client.task("t"), lambda task: task.state == "undone")

    assert len(service.asked) == 2
    assert outcomes == []
