"""Submissions only: a client whose tasks nobody runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.databases import Database
from bench.five_steps import five_step_app
from bench.load import Size, crowd, in_fresh_loop
from bench.options import Options
from bench.points import Point, Throughput, throughput
from bench.progress import say

SIZES: Final = (Size(1_000, 1), Size(20_000, 100), Size(60_000, 4_000))
SHORT_SIZES: Final = (Size(5, 1), Size(40, 10))


def measure(database: Database, options: Options) -> Iterator[Throughput]:
    for size in SHORT_SIZES if options.short else SIZES:
        say(f"    {size.in_flight:,} in flight")
        point = in_fresh_loop(_submissions(database.new_store(), size))
        yield throughput(database.name, point)


async def _submissions(store: str, size: Size) -> Point:
    async with five_step_app().client(store=store) as client:

        async def one() -> None:
            await client.submit("five", 0)

        return await crowd(one, size)
