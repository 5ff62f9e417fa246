"""Five durable steps per task: agents beside the scheduler, and the same in a process of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from backstay.runtime import Running
from backstay.runtime.roles import Role
from backstay.settings import Settings
from bench.databases import Database
from bench.five_steps import STEPS, five_step_app, five_steps
from bench.load import Size, crowd, in_fresh_loop
from bench.options import Options
from bench.points import Point, Summary, summary_of
from bench.progress import say

SIZES: Final = (Size(100, 1), Size(1_500, 100), Size(5_000, 1_000))
REPEATS: Final = 3
SHORT_SIZES: Final = (Size(3, 1), Size(20, 10))
SHORT_REPEATS: Final = 1

_SCHEDULER: Final = frozenset({Role.SCHEDULER, Role.SUPERVISOR})
_HOST: Final = frozenset({Role.AGENTS})


class RemoteAgents(msgspec.Struct, frozen=True, kw_only=True):
    """``ratio``: of the throughput with agents elsewhere to that with agents beside the scheduler."""

    store: str
    in_flight: int
    tasks: int
    tasks_per_second: float
    p50_ms: float
    p99_ms: float
    spread_percent: float
    beside_tasks_per_second: float
    beside_p50_ms: float
    ratio: float


def measure(database: Database, options: Options) -> Iterator[RemoteAgents]:
    """Each point in a fresh store and event loop, both ways by turns."""
    repeats = SHORT_REPEATS if options.short else REPEATS
    for size in SHORT_SIZES if options.short else SIZES:
        elsewhere, beside = [], []
        for repeat in range(repeats):
            say(f"    {size.in_flight:,} in flight, {repeat + 1} of {repeats}")
            beside.append(in_fresh_loop(five_steps(database.new_store(), size)))
            elsewhere.append(_elsewhere(database.new_store(), size))
        yield _row(database.name, size, summary_of(elsewhere), summary_of(beside))


def _elsewhere(store: str, size: Size) -> Point:
    with _agent_host(store):
        return in_fresh_loop(_scheduled(store, size))


async def _scheduled(store: str, size: Size) -> Point:
    """Tasks submitted to a scheduler with no agents beside it."""
    settings = Settings.load({"store": store}, environment={})
    async with Running(five_step_app().registry, settings, roles=_SCHEDULER) as live:
        client = live.client
        assert client is not None

        async def one() -> None:
            result = await (await client.submit("five", 0)).result()
            if result != STEPS:
                raise RuntimeError(f"five gave {result!r} instead of {STEPS}")

        return await crowd(one, size)


@contextmanager
def _agent_host(store: str) -> Iterator[None]:
    """A process that does nothing but the work of agents. It leaves when its input ends."""
    process = subprocess.Popen([sys.executable, "-m", __name__, store], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _row(store: str, size: Size, elsewhere: Summary, beside: Summary) -> RemoteAgents:
    return RemoteAgents(
        store=store,
        in_flight=size.in_flight,
        tasks=elsewhere.tasks,
        tasks_per_second=elsewhere.per_second,
        p50_ms=elsewhere.p50_ms,
        p99_ms=elsewhere.p99_ms,
        spread_percent=elsewhere.spread_percent,
        beside_tasks_per_second=beside.per_second,
        beside_p50_ms=beside.p50_ms,
        ratio=round(elsewhere.per_second / beside.per_second, 3),
    )


# Inside the other process


async def _work(store: str) -> None:
    settings = Settings.load({"store": store}, environment={})
    async with Running(five_step_app().registry, settings, roles=_HOST):
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    in_fresh_loop(_work(sys.argv[1]))
