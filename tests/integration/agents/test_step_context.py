"""What a step knows about itself, and that it is a plain function elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, TaskFailed, current_step
from backstay.errors import NotInWorkflow
from tests.support.running import FAST, SOON


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
