"""Five durable steps per task, in-process agents that do nothing, fsync on."""

from __future__ import annotations

import asyncio
import time

from backstay import App

STEPS = 5


def five_step_app() -> App:
    app = App("bench")
    agent = app.agent("nothing")

    @agent.step
    async def work(number: int) -> int:
        return number + 1

    @app.workflow
    async def five(number: int) -> int:
        for _ in range(STEPS):
            number = await work(number)
        return number

    return app


async def measure(store: str, tasks: int, in_flight: int) -> dict[str, float]:
    """Tasks per second and latency percentiles, with ``in_flight`` tasks submitted at a time."""
    app = five_step_app()
    latencies: list[float] = []

    async def one() -> None:
        begun = time.perf_counter()
        handle = await app.submit("five", 0)
        assert await handle.result() == STEPS
        latencies.append(time.perf_counter() - begun)

    async def client(count: int) -> None:
        for _ in range(count):
            await one()

    async with app.run(store=store):
        begun = time.perf_counter()
        await asyncio.gather(*(client(tasks // in_flight) for _ in range(in_flight)))
        seconds = time.perf_counter() - begun
    latencies.sort()
    return {
        "in_flight": in_flight,
        "tasks": len(latencies),
        "tasks_per_second": round(len(latencies) / seconds, 1),
        "p50_ms": round(latencies[len(latencies) // 2] * 1000, 2),
        "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1000, 2),
    }
