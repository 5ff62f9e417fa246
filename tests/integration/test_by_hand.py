"""An application whose time is turned by hand: what is due happens at its moment, and nothing else does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import (
    App,
    Breaker,
    Recovery,
    Retry,
    TaskFailed,
    current_step,
    now,
    race,
    sleep,
    start,
    wait_for,
)
from backstay.testing import ManualClock, stepped


@pytest.fixture
def app() -> App:
    return App("by-hand")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Service:
    """One step of an agent; when it was called, by the clock."""

    def __init__(self, app: App, clock: ManualClock, name: str, **agent: Any) -> None:
        self.answers = True
        self.called: list[str] = []

        @app.agent(name, **agent).step(name=name)
        async def call() -> str:
            self.called.append(f"{clock.now():%H:%M:%S}")
            if not self.answers:
                raise ConnectionError("nobody answers")
            return f"{name} is done"

        self.call = call


async def test_days_pass_in_a_moment_and_nothing_happens_before_its_time(app: App):
    @app.workflow
    async def remind() -> list[datetime]:
        moments = [now()]
        for _ in range(3):
            await sleep("1d")
            moments.append(now())
        return moments

    async with stepped(app) as platform:
        task = await app.submit(remind)
        await platform.pass_time("71h")
        assert await task.state() == "waiting"

        await platform.pass_time("1h")
        first, *others = await task.result(timeout=0.5)

    assert [other - first for other in others] == [timedelta(days=days) for days in (1, 2, 3)]


async def test_pauses_and_breakers_take_the_time_that_they_say(app: App, clock: ManualClock):
    retry = Retry(attempts=2, first="1s", jitter=False)
    bank = Service(app, clock, "bank", retry=retry, breaker=Breaker(failures=2, open_for="60s"))

    @app.workflow
    async def order() -> str:
        return await bank.call()

    bank.answers = False
    async with stepped(app, clock) as platform:
        task = await app.submit(order)
        await platform.pass_time("30s")
        assert await task.state() == "waiting"

        bank.answers = True
        await platform.pass_time("31s")
        assert await task.result(timeout=0.5) == "bank is done"

    assert bank.called == ["00:00:00", "00:00:01", "00:01:01"]


async def test_the_same_seed_gives_the_same_trace_and_another_seed_another_one():
    first, again, other = [await trace_of(seed=seed) for seed in (1, 1, 2)]

    assert len(first) > 12
    assert first == again
    assert [what for what, *_ in first] == [what for what, *_ in other], "the seed decides when, not what"
    assert first != other


async def trace_of(*, seed: int) -> list[tuple[Any, ...]]:
    """All that happens to tasks whose steps fail and are tried again after pauses that chance decides."""
    app, clock = App("by-hand"), ManualClock()
    trace: list[tuple[Any, ...]] = []

    @app.agent("bank", retry=Retry(attempts=3, first="1s")).step
    async def charge(account: int) -> None:
        trace.append((f"charge {account}", clock.now(), current_step().attempt))
        if len(trace) % 4:
            raise ConnectionError("nobody answers")

    @app.workflow(recovery=Recovery(attempts=5))
    async def order() -> None:
        for account in range(4):
            await charge(account)

    async with stepped(app, clock, seed=seed) as platform:
        task = await app.submit(order, id="o1")
        await platform.pass_time("1h")
        assert await task.state() == "processed"
        steps = await app.steps("o1")
    return trace + [(step.key, step.started_at, step.ended_at, step.attempt) for step in steps]


async def test_a_service_that_never_answers_is_given_up_at_its_complete_by(app: App):
    @app.agent("bank", complete_by="20s").step
    async def charge() -> None:
        await asyncio.Event().wait()

    @app.workflow(recovery=Recovery(attempts=2))
    async def order() -> None:
        await charge()

    async with stepped(app, patience="50ms") as platform:
        task = await app.submit(order)
        await platform.pass_time("39s")
        assert await task.state() == "processing"

        await platform.pass_time("1s")
        with pytest.raises(TaskFailed, match="undone"):
            await task.result(timeout=0.5)


async def test_signals_and_children_need_no_time(app: App):
    @app.workflow
    async def ask() -> Any:
        return await race(wait_for("answer"), sleep("1h"))

    @app.workflow
    async def parent() -> Any:
        return await start(ask, id="child")

    async with stepped(app) as platform:
        task = await app.submit(parent)
        await platform.settle()
        assert await task.state() == "waiting"

        await app.signal("child", "answer", "yes")
        await platform.settle()
        assert await task.result(timeout=0.5) == "yes"


async def test_each_thing_happens_at_its_own_moment_however_much_time_passes_at_once(app: App):
    clock = ManualClock(datetime(2030, 6, 1, 1, 30, tzinfo=UTC))
    late, soon = Service(app, clock, "late"), Service(app, clock, "soon")

    @app.workflow
    async def wait(minutes: int) -> None:
        await sleep(timedelta(minutes=minutes))
        await (late if minutes > 60 else soon).call()

    async with stepped(app, clock) as platform:
        for minutes in (90, 10):
            await app.submit(wait, minutes)
        await platform.pass_time("1d")

    assert (soon.called, late.called) == (["01:40:00"], ["03:00:00"])
