"""Three parallel branches of a step each, joined by one more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from backstay import App
from bench.databases import Database
from bench.load import Size, in_fresh_loop, on_app
from bench.options import Options
from bench.points import Throughput, throughput
from bench.progress import say

BRANCHES: Final = 3

SIZES: Final = (Size(5_000, 100), Size(24_000, 4_000))
SHORT_SIZES: Final = (Size(40, 10),)


def measure(database: Database, options: Options) -> Iterator[Throughput]:
    for size in SHORT_SIZES if options.short else SIZES:
        say(f"    {size.in_flight:,} in flight")
        point = in_fresh_loop(
            on_app(_branching_app(), "branch_out", gives=BRANCHES, store=database.new_store(), size=size)
        )
        yield throughput(database.name, point)


def _branching_app() -> App:
    app = App("bench")
    agent = app.agent("nothing")

    @agent.step
    async def work(number: int) -> int:
        return number + 1

    @agent.step
    async def join(numbers: list[int]) -> int:
        return sum(numbers)

    @app.workflow
    async def branch_out(number: int) -> int:
        return await join(list(await asyncio.gather(*(work(number) for _ in range(BRANCHES)))))

    return app
