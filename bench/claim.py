"""Claims only: what is pending, in the scheduler's usual size, until nothing is left."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec

from backstay.runtime import StoreClock, open_store
from backstay.scheduler.loop import CLAIM_MAX
from backstay.settings import Settings
from backstay.store.base import NewInstance, Runnable
from bench.bulk import bulk, pending
from bench.databases import Database
from bench.load import in_fresh_loop
from bench.options import Options
from bench.points import milliseconds, percentile
from bench.progress import say

#: A workflow that no app of a bench runs: nobody else takes its tasks.
WORKFLOW: Final = "claimed"

TASKS: Final = 100_000
SHORT_TASKS: Final = 1_200


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of a claim of ``limit`` tasks."""

    store: str
    tasks: int
    limit: int
    claims: int
    tasks_per_second: float
    p50_ms: float
    p99_ms: float


def measure(database: Database, options: Options) -> Iterator[Claim]:
    tasks = SHORT_TASKS if options.short else TASKS
    url = database.new_store()
    say(f"    {tasks:,} pending")
    with bulk(url) as tables:
        tables.put(pending(WORKFLOW), tasks)
        tables.settle()
    taken = in_fresh_loop(claim_all(url, tasks))
    ordered = sorted(taken)
    yield Claim(
        store=database.name,
        tasks=tasks,
        limit=CLAIM_MAX,
        claims=len(taken),
        tasks_per_second=round(tasks / sum(taken), 1),
        p50_ms=milliseconds(percentile(ordered, 50)),
        p99_ms=milliseconds(percentile(ordered, 99)),
    )


async def claim_all(url: str, tasks: int) -> list[float]:
    """The seconds of each claim until all ``tasks`` of them are claimed. They are given back afterwards."""
    store = open_store(Settings(store=url))
    await store.open()
    try:
        clock = StoreClock(store)
        run = Runnable(WORKFLOW, 1, timedelta(hours=1))
        instance = NewInstance(
            id=f"claimer-{uuid.uuid4()}", host=socket.gethostname(), pid=os.getpid(), runs=(run,)
        )
        owner = await store.register(instance, now=clock.now())
        seconds = []
        left = tasks
        while left > 0:
            begun = time.perf_counter()
            claimed = await store.claim(owner, [run], limit=CLAIM_MAX, now=clock.now())
            seconds.append(time.perf_counter() - begun)
            if not claimed:
                raise RuntimeError(f"{left:,} of {tasks:,} pending tasks were never claimed")
            left -= len(claimed)
        await store.retire(owner, now=clock.now())
        return seconds
    finally:
        await store.close()
