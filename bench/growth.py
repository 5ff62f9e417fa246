"""Whether a store slows down as it fills: with ten million finished tasks, and with next to none, by turns.

On SQLite the full store is kept for the next run; PostgreSQL's goes with its server.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from backstay.domain.states import TaskState
from backstay.runtime import StoreClock, open_store
from backstay.settings import Settings
from backstay.store.base import Store, TaskFilter
from backstay.supervisor.loop import Supervisor
from bench.bulk import bulk, finished, pending, stopped
from bench.claim import WORKFLOW as CLAIMED
from bench.claim import claim_all
from bench.databases import FOLDER, POSTGRESQL, SQLITE, Database
from bench.five_steps import STEPS, five_steps
from bench.load import Size, in_fresh_loop
from bench.options import Options
from bench.progress import say

# Measured on full stores, and rounded up; PostgreSQL's log comes on top.
BYTES_PER_TASK: Final = {SQLITE: 800, POSTGRESQL: 1_600}
BYTES_BESIDE: Final = 2 * 1024**3

#: In every store: so many in error, so many of a workflow that is rare, so many finished ones.
LISTED: Final = 100
RARE: Final = "rare"

# How often a call that takes milliseconds is made for one figure, of which the median counts.
CALLS: Final = 20


@dataclass(frozen=True, slots=True)
class Scale:
    repeats: int
    five_steps: tuple[Size, ...]
    claimed: int


FULL: Final = Scale(repeats=3, five_steps=(Size(16_000, 4_000), Size(5_000, 100)), claimed=10_000)
SHORT: Final = Scale(repeats=1, five_steps=(Size(40, 10),), claimed=600)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the repeats; ``ratio`` is that of the full store to the empty one."""

    store: str
    what: str
    unit: str
    finished_tasks: int
    empty: float
    full: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Figure:
    """Something to measure on the store at a URL."""

    what: str
    unit: str
    of: Callable[[str], float]


def measure(database: Database, options: Options) -> Iterator[Growth]:
    scale = SHORT if options.short else FULL
    full = _full_store(database, tasks=options.tasks, fresh=options.fresh)
    for figure in _figures(scale):
        empties, fulls = [], []
        for repeat in range(scale.repeats):
            say(f"    {figure.what}, {repeat + 1} of {scale.repeats}")
            empties.append(figure.of(_filled(database.new_store(), 0)))
            fulls.append(figure.of(full))
        empty, grown = statistics.median(empties), statistics.median(fulls)
        yield Growth(
            store=database.name,
            what=figure.what,
            unit=figure.unit,
            finished_tasks=options.tasks,
            empty=round(empty, 3),
            full=round(grown, 3),
            ratio=round(grown / empty, 3),
        )


def _figures(scale: Scale) -> list[Figure]:
    return [
        *(
            Figure(f"five steps, {size.in_flight:,} in flight", "tasks/s", _five_steps_at(size))
            for size in scale.five_steps
        ),
        Figure("claim", "ms", lambda url: _claim_ms(url, scale.claimed)),
        Figure("round of the supervisor", "ms", lambda url: in_fresh_loop(_round_ms(url))),
        Figure("list the newest", "ms", _listing(TaskFilter(limit=LISTED))),
        Figure("list by state error", "ms", _listing(TaskFilter(states=(TaskState.ERROR,), limit=LISTED))),
        Figure("list by workflow", "ms", _listing(TaskFilter(workflow="five", limit=LISTED))),
        Figure("list by rare workflow", "ms", _listing(TaskFilter(workflow=RARE, limit=LISTED))),
        Figure("open", "ms", lambda url: in_fresh_loop(_open_ms(url))),
    ]


# The full store


def _full_store(database: Database, *, tasks: int, fresh: bool) -> str:
    if database.name != SQLITE:
        _check_room(database.name, database.folder, tasks)
        return _filled(database.new_store(), tasks)
    kept = FOLDER / f"grown-{tasks}.db"
    if fresh or not kept.exists():
        _remove(kept)
        _check_room(database.name, FOLDER, tasks)
        unfinished = kept.with_name(f"unfinished-{kept.name}")
        _remove(unfinished)
        _filled(f"sqlite:///{unfinished}", tasks)
        unfinished.rename(kept)
    else:
        say(f"    {kept} is there from an earlier run; --fresh fills it anew")
    return f"sqlite:///{kept}"


def _check_room(store: str, folder: Path, tasks: int) -> None:
    """Raises SystemExit where the full store would not fit."""
    needed = tasks * BYTES_PER_TASK[store] + BYTES_BESIDE
    free = shutil.disk_usage(folder).free
    say(f"    {tasks:,} tasks need about {_gib(needed)} on disk; {_gib(free)} are free")
    if needed > free:
        raise SystemExit(
            f"growth on {store} needs about {_gib(needed)} for {tasks:,} tasks and {_gib(free)} are free:"
            " make room, or ask for fewer with --tasks"
        )


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.rmtree(path.with_name(f"{path.name}-instances"), ignore_errors=True)


def _filled(url: str, tasks: int) -> str:
    """The rare ones first: whoever looks for them from the newest on has to pass all others."""
    with bulk(url) as tables:
        tables.put(stopped(), LISTED)
        tables.put(finished(RARE, steps=STEPS), LISTED)
        tables.put(finished(steps=STEPS), tasks, progress=_progress(tasks))
        tables.put(finished(steps=STEPS), LISTED)
        tables.settle()
    return url


def _progress(tasks: int) -> Callable[[int], None]:
    return lambda done: say(f"    {done:,} of {tasks:,} finished tasks are there")


# What is measured


def _five_steps_at(size: Size) -> Callable[[str], float]:
    return lambda url: in_fresh_loop(five_steps(url, size)).per_second


def _claim_ms(url: str, tasks: int) -> float:
    """Of one claim in the scheduler's usual size."""
    with bulk(url) as tables:
        before = tables.newest_key()
        tables.put(pending(CLAIMED), tasks)
        try:
            return statistics.median(in_fresh_loop(claim_all(url, tasks))) * 1000
        finally:
            tables.remove_newer_than(before)


async def _round_ms(url: str) -> float:
    """A round that finds nothing expired and nobody dead."""
    async with _opened(url) as store:
        settings = Settings(store=url)
        supervisor = Supervisor(store.supervision, "bench", settings=settings, clock=StoreClock(store))

        async def one_round() -> None:
            if await supervisor.run_once() is None:
                raise RuntimeError("another supervisor leads on this store")

        await one_round()  # Takes the lead.
        try:
            return await _median_ms(one_round)
        finally:
            await supervisor.step_down()


def _listing(wanted: TaskFilter) -> Callable[[str], float]:
    async def listing_ms(url: str) -> float:
        async with _opened(url) as store:

            async def one_page() -> None:
                found = len(await store.tasks(wanted))
                if found != wanted.limit:
                    raise RuntimeError(f"{found} tasks were listed instead of {wanted.limit}: {wanted}")

            return await _median_ms(one_page)

    return lambda url: in_fresh_loop(listing_ms(url))


async def _open_ms(url: str) -> float:
    taken = []
    for _ in range(CALLS):
        store = open_store(Settings(store=url))
        begun = time.perf_counter()
        await store.open(must_exist=True)
        taken.append(time.perf_counter() - begun)
        await store.close()
    return statistics.median(taken) * 1000


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = open_store(Settings(store=url))
    await store.open(must_exist=True)
    try:
        yield store
    finally:
        await store.close()


async def _median_ms(call: Callable[[], Awaitable[None]]) -> float:
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000
