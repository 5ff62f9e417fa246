"""An agent works on so many steps at once and no more; the rest stands in line."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from backstay import App, current_step
from tests.support.running import FAST, SOON, eventually


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
