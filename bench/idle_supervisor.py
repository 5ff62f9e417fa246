"""What a supervisor costs that finds nothing to do, on a store with a million finished tasks."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from bench.bulk import bulk, finished
from bench.databases import Database
from bench.options import Options
from bench.progress import say
from bench.usage import cpu_seconds

FINISHED: Final = 1_000_000
WARM_UP_SECONDS: Final = 5.0
SECONDS: Final = 20.0

SHORT_FINISHED: Final = 1_000
SHORT_WARM_UP_SECONDS: Final = 1.0
SHORT_SECONDS: Final = 1.0

# Of one that is told to stop.
_STOP_SECONDS: Final = 30.0


class IdleSupervisor(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU time of the process; that of a database server is not counted."""

    store: str
    finished_tasks: int
    seconds: float
    percent_of_a_core: float


def measure(database: Database, options: Options) -> Iterator[IdleSupervisor]:
    number = SHORT_FINISHED if options.short else FINISHED
    warm_up = SHORT_WARM_UP_SECONDS if options.short else WARM_UP_SECONDS
    seconds = SHORT_SECONDS if options.short else SECONDS
    url = database.new_store()
    say(f"    {number:,} finished tasks")
    with bulk(url) as tables:
        tables.put(finished(steps=0), number)
        tables.settle()
    say(f"    {warm_up + seconds:g} s of watching")
    share = _share_of_a_core(url, warm_up=warm_up, seconds=seconds)
    yield IdleSupervisor(
        store=database.name,
        finished_tasks=number,
        seconds=seconds,
        percent_of_a_core=round(share * 100, 2),
    )


def _share_of_a_core(url: str, *, warm_up: float, seconds: float) -> float:
    """What ``backstay serve --roles supervisor`` uses while nothing happens."""
    command = [sys.executable, "-m", "backstay", "serve", "--roles", "supervisor", "--store", url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as supervisor:
        try:
            time.sleep(warm_up)
            begun, cpu = time.monotonic(), cpu_seconds(supervisor.pid)
            time.sleep(seconds)
            used = cpu_seconds(supervisor.pid) - cpu
            elapsed = time.monotonic() - begun
            if supervisor.poll() is not None:
                raise RuntimeError(f"the supervisor ended with {supervisor.returncode}")
        finally:
            _stop(supervisor)
    return used / elapsed


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
