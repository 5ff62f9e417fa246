"""Memory: of a task in flight, of one that is parked, and of a process beside many that are pending.

Each is measured in a process of its own (``bench.resident``), after its garbage is collected.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.bulk import bulk, pending
from bench.databases import Database
from bench.load import in_fresh_loop
from bench.options import Options
from bench.progress import say
from bench.resident import HELD, Resident, held_app

_ROOT: Final = Path(__file__).parents[1]
_PATIENCE_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Numbers:
    in_flight: int
    parked: int
    pending: int


FULL: Final = Numbers(in_flight=4_000, parked=20_000, pending=1_000_000)
SHORT: Final = Numbers(in_flight=50, parked=50, pending=1_000)


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """``bytes_per_task``: what the tasks added to the resident memory of the process, each.

    Small numbers of tasks, or tasks that cost next to nothing, drown in the allocator's noise.
    """

    store: str
    tasks_are: str
    tasks: int
    mib_without: float
    mib_with: float
    bytes_per_task: int


def measure(database: Database, options: Options) -> Iterator[Memory]:
    numbers = SHORT if options.short else FULL
    yield _in_one_process(database, "in_flight", numbers.in_flight)
    yield _in_one_process(database, "parked", numbers.parked)
    yield _beside_pending(database, numbers.pending)


def _in_one_process(database: Database, tasks_are: str, tasks: int) -> Memory:
    say(f"    {tasks:,} {tasks_are.replace('_', ' ')}")
    found = _child(tasks_are, database.new_store(), tasks)
    return _row(database, tasks_are, tasks, found)


def _beside_pending(database: Database, tasks: int) -> Memory:
    """Two processes that do the same, one of them beside tasks that nobody may claim yet."""
    say(f"    {tasks:,} pending")
    alone = _child("beside", _store_with_held(database, 0), 0)
    beside = _child("beside", _store_with_held(database, tasks), tasks)
    return _row(database, "pending", tasks, Resident(alone.after, beside.after))


def _store_with_held(database: Database, tasks: int) -> str:
    url = database.new_store()
    with bulk(url) as tables:
        tables.put(pending(HELD), tasks)
        tables.settle()
    in_fresh_loop(_hold_back(url))
    return url


async def _hold_back(url: str) -> None:
    async with held_app().client(store=url) as client:
        await client.pause_workflow(HELD)


def _row(database: Database, tasks_are: str, tasks: int, found: Resident) -> Memory:
    return Memory(
        store=database.name,
        tasks_are=tasks_are.replace("_", " "),
        tasks=tasks,
        mib_without=_mib(found.before),
        mib_with=_mib(found.after),
        bytes_per_task=round((found.after - found.before) / tasks),
    )


def _mib(size: int) -> float:
    return round(size / 1024**2, 1)


def _child(mode: str, url: str, tasks: int) -> Resident:
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "bench.resident", mode, url, str(tasks)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        timeout=_PATIENCE_SECONDS,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Resident)
