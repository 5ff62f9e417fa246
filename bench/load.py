"""Clients that submit and wait, as many at a time as are to be in flight."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

import uvloop

from backstay import App
from bench.points import Point

Result = TypeVar("Result")

#: Done before the clock starts: what a connection or a codec does once belongs to no task.
WARM_UP: Final = 10


class Size(NamedTuple):
    """How many tasks one point runs, and how many of them at a time."""

    tasks: int
    in_flight: int


def in_fresh_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """What ``work`` gives, on an event loop of its own and without garbage of what ran before."""
    gc.collect()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def crowd(one: Callable[[], Awaitable[None]], size: Size) -> Point:
    """Do ``one`` so often, so many at a time, after a few that do not count."""
    latencies: list[float] = []
    waiting = iter(range(size.tasks))  # Shared: who is done takes the next.

    async def client() -> None:
        for _ in waiting:
            begun = time.perf_counter()
            await one()
            latencies.append(time.perf_counter() - begun)

    for _ in range(WARM_UP):
        await one()
    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(size.in_flight)))
    seconds = time.perf_counter() - begun
    return Point(size.in_flight, seconds, sorted(latencies))


async def on_app(app: App, workflow: str, *, gives: object, store: str, size: Size) -> Point:
    """Submit tasks of ``workflow`` and await their results, each of which has to be ``gives``."""

    async def one() -> None:
        task = await app.submit(workflow, 0)
        result = await task.result()
        if result != gives:
            raise RuntimeError(f"{workflow} gave {result!r} instead of {gives!r}")

    async with app.run(store=store):
        return await crowd(one, size)
