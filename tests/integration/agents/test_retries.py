"""An attempt retries what may pass, within its bounds; the workflow sees only the failure that is final."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta

import pytest

from backstay import App, Permanent, Recovery, Retry, StepFailed, TaskFailed, current_step
from backstay.observe import STEP_RETRIED, counters
from tests.support.running import FAST, ONCE, SHORT, SHORT_SECONDS, SOON, Down


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
    agent = app.agent("drone", complete_by=SHORT, retry=endless)

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
    assert 2 <= len(remaining) <= 40
    assert all(timedelta(0) <= left <= timedelta(seconds=SHORT_SECONDS) for left in remaining)
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
