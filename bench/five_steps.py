"""Five durable steps per task with agents that do nothing, in turn with the floor on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import msgspec

from backstay import App
from bench.databases import POSTGRESQL, SQLITE, Database
from bench.floor import postgres, sqlite
from bench.load import Size, in_fresh_loop, on_app
from bench.options import Options
from bench.points import Point, Summary, summary_of
from bench.progress import say

STEPS: Final = 5

SIZES: Final = (Size(300, 1), Size(5_000, 100), Size(24_000, 4_000))
REPEATS: Final = 3
SHORT_SIZES: Final = (Size(5, 1), Size(40, 10), Size(100, 50))
SHORT_REPEATS: Final = 1

_FLOORS: Final[dict[str, Callable[[str, Size], Coroutine[Any, Any, Point]]]] = {
    SQLITE: sqlite.measure,
    POSTGRESQL: postgres.measure,
}


class FiveSteps(msgspec.Struct, frozen=True, kw_only=True):
    """``ratio``: of our throughput to that of the floor. Spreads are those of the repeats' throughput."""

    store: str
    in_flight: int
    tasks: int
    tasks_per_second: float
    p50_ms: float
    p99_ms: float
    spread_percent: float
    floor_tasks_per_second: float
    floor_p50_ms: float
    floor_spread_percent: float
    ratio: float


def measure(database: Database, options: Options) -> Iterator[FiveSteps]:
    """Each point in a fresh store and event loop, ours and the floor by turns."""
    repeats = SHORT_REPEATS if options.short else REPEATS
    floor = _FLOORS[database.name]
    for size in SHORT_SIZES if options.short else SIZES:
        ours, floors = [], []
        for repeat in range(repeats):
            say(f"    {size.in_flight:,} in flight, {repeat + 1} of {repeats}")
            ours.append(in_fresh_loop(five_steps(database.new_store(), size)))
            floors.append(in_fresh_loop(floor(database.new_store(), size)))
        yield _row(database.name, size, summary_of(ours), summary_of(floors))


def five_steps(store: str, size: Size) -> Coroutine[Any, Any, Point]:
    """Our own: tasks submitted to an app that runs all roles in this process."""
    return on_app(five_step_app(), "five", gives=STEPS, store=store, size=size)


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


def _row(store: str, size: Size, ours: Summary, floor: Summary) -> FiveSteps:
    return FiveSteps(
        store=store,
        in_flight=size.in_flight,
        tasks=ours.tasks,
        tasks_per_second=ours.per_second,
        p50_ms=ours.p50_ms,
        p99_ms=ours.p99_ms,
        spread_percent=ours.spread_percent,
        floor_tasks_per_second=floor.per_second,
        floor_p50_ms=floor.p50_ms,
        floor_spread_percent=floor.spread_percent,
        ratio=round(ours.per_second / floor.per_second, 3),
    )
