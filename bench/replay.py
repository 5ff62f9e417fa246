"""A task with a long journal, resumed by a fresh app: everything before its last step is replayed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from backstay import App
from bench.databases import Database
from bench.load import in_fresh_loop
from bench.options import Options
from bench.progress import say

STEPS: Final = 1_000
REPEATS: Final = 3
SHORT_STEPS: Final = 20
SHORT_REPEATS: Final = 1

TASK: Final = "long"
# On a slow machine nothing is to be late: that would be another bench.
COMPLETE_BY: Final = "1h"
PATIENCE_SECONDS: Final = 600.0


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """``seconds``: from starting the app to the task's end, the median of the repeats."""

    store: str
    steps: int
    steps_replayed: int
    steps_run_again: int
    seconds: float
    steps_replayed_per_second: float


class _Resumed(msgspec.Struct, frozen=True):
    seconds: float
    steps_run: int


def measure(database: Database, options: Options) -> Iterator[Replay]:
    steps = SHORT_STEPS if options.short else STEPS
    resumed = []
    for repeat in range(SHORT_REPEATS if options.short else REPEATS):
        say(f"    {steps:,} steps, {repeat + 1}")
        url = database.new_store()
        in_fresh_loop(_interrupt_before_the_last(url, steps))
        resumed.append(in_fresh_loop(_resume(url, steps)))
    seconds = statistics.median(one.seconds for one in resumed)
    run_again = max(one.steps_run for one in resumed)
    yield Replay(
        store=database.name,
        steps=steps,
        steps_replayed=steps - run_again,
        steps_run_again=run_again,
        seconds=round(seconds, 4),
        steps_replayed_per_second=round((steps - run_again) / seconds, 1),
    )


async def _interrupt_before_the_last(url: str, steps: int) -> None:
    """Leave a store behind in which all steps but the last are completed, and that one is under way."""
    reached = asyncio.Event()

    async def last() -> None:
        reached.set()
        await asyncio.Event().wait()

    app, _ = _long_app(last, steps=steps)
    async with app.run(store=url):
        await app.submit("long", id=TASK)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reached.wait()


async def _resume(url: str, steps: int) -> _Resumed:
    async def last() -> None: ...

    app, run = _long_app(last, steps=steps)
    begun = time.perf_counter()
    async with app.run(store=url):
        result = await app.handle(TASK).result(PATIENCE_SECONDS)
        seconds = time.perf_counter() - begun
    if result != steps:
        raise RuntimeError(f"the resumed task gave {result} instead of {steps}")
    return _Resumed(seconds, run.total())


def _long_app(last: Callable[[], Awaitable[None]], *, steps: int) -> tuple[App, Counter[int]]:
    """An app with one workflow, and how often each step was run in it; the final one awaits ``last``."""
    app = App("bench")
    agent = app.agent("nothing", complete_by=COMPLETE_BY)
    run: Counter[int] = Counter()

    @agent.step
    async def work(number: int) -> int:
        run[number] += 1
        if number == steps - 1:
            await last()
        return number + 1

    @app.workflow(complete_by=COMPLETE_BY)
    async def long() -> int:
        number = 0
        for _ in range(steps):
            number = await work(number)
        return number

    return app, run
