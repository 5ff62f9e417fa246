"""Five steps whose services take 50 ms each: how much of the waiting is put to use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec

from backstay import App
from bench.databases import Database
from bench.load import Size, in_fresh_loop, on_app
from bench.options import Options
from bench.points import Point
from bench.progress import say

STEPS: Final = 5
SERVICE_SECONDS: Final = 0.05

SIZES: Final = (Size(4_000, 100), Size(20_000, 4_000))
SHORT_SIZES: Final = (Size(20, 10),)


class BackEnds(msgspec.Struct, frozen=True, kw_only=True):
    """``possible_per_second``: if nothing but the services took time."""

    store: str
    in_flight: int
    tasks: int
    tasks_per_second: float
    possible_per_second: float
    share_percent: float
    p50_ms: float
    p99_ms: float


def measure(database: Database, options: Options) -> Iterator[BackEnds]:
    for size in SHORT_SIZES if options.short else SIZES:
        say(f"    {size.in_flight:,} in flight")
        point = in_fresh_loop(
            on_app(_waiting_app(), "five", gives=STEPS, store=database.new_store(), size=size)
        )
        yield _row(database.name, point)


def _row(store: str, point: Point) -> BackEnds:
    possible = point.in_flight / (STEPS * SERVICE_SECONDS)
    return BackEnds(
        store=store,
        in_flight=point.in_flight,
        tasks=point.tasks,
        tasks_per_second=round(point.per_second, 1),
        possible_per_second=round(possible, 1),
        share_percent=round(point.per_second / possible * 100, 1),
        p50_ms=point.p50_ms,
        p99_ms=point.p99_ms,
    )


def _waiting_app() -> App:
    app = App("bench")
    agent = app.agent("service")

    @agent.step
    async def work(number: int) -> int:
        await asyncio.sleep(SERVICE_SECONDS)
        return number + 1

    @app.workflow
    async def five(number: int) -> int:
        for _ in range(STEPS):
            number = await work(number)
        return number

    return app
