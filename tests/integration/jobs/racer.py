"""Processes that race for the same jobs: all are ready before any begins, and each says what it won."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

from backstay.domain.jobs.records import Collection, JobRecord, Sku
from backstay.errors import Conflict
from backstay.runtime.stores import open_store
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.jobs import CollectionSeen, JobSeen
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import ANN, Calendar, an_id
from backstay.testing.promises.holder import SECOND, Holder

#: So many jobs may be in the collection, and so many does each racer put.
QUOTA = 50
PUTS = 25

Race = Callable[[Store, Calendar, str], Awaitable[int]]


async def run(url: str, race: str, racers: int) -> list[int]:
    """What each of so many processes won."""
    command = [sys.executable, "-m", __name__, url, race]
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, f"racer-{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for number in range(racers)
        ]
        for one in running:
            stack.callback(one.kill)
        return await asyncio.to_thread(_race, running)


def _race(running: Sequence[subprocess.Popen[str]]) -> list[int]:
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [int(one.stdout.readline()) for one in running if one.stdout is not None]


# Inside the process


async def put_jobs(_store: Store, calendar: Calendar, name: str) -> int:
    """How many of the jobs that it put were taken."""

    def decide(seen: JobSeen) -> JobRecord:
        if seen.jobs >= QUOTA:
            raise Conflict("full")
        now = ManualClock().now()
        return JobRecord(
            uid=name, collection=seen.collection.id, name="any", definition={}, created_at=now, updated_at=now
        )

    puts = [calendar.decide(decide, f"{name}-{number}") for number in range(PUTS)]
    return _won(await asyncio.gather(*puts, return_exceptions=True))


async def put_free_collections(store: Store, _calendar: Calendar, name: str) -> int:
    """How many free collections it created."""
    clock = ManualClock()

    def decide(seen: CollectionSeen) -> Collection:
        if seen.others.get(Sku.FREE):
            raise Conflict("there is one already")
        return Collection(id=an_id(), location="West US", sku=Sku.FREE)

    puts = [
        store.jobs.put_collection(an_id(f"{name}-{number}"), decide, act=ANN, now=clock.now())
        for number in range(PUTS)
    ]
    return _won(await asyncio.gather(*puts, return_exceptions=True))


async def fire(_store: Store, calendar: Calendar, _name: str) -> int:
    """How many instants it fired, until none was due any more."""
    fired = 0
    while due := await calendar.due(limit=30):
        fired += sum(await calendar.fire(*[calendar.firing(one.job, next_at=None) for one in due]))
    return fired


def _won(answers: Sequence[object]) -> int:
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Conflict):
            raise answer
    return sum(not isinstance(answer, Conflict) for answer in answers)


RACES: dict[str, Race] = {one.__name__: one for one in (put_jobs, put_free_collections, fire)}


async def _main(url: str, race: str, name: str) -> None:
    store = open_store(Settings(store=url))
    await store.open()
    clock = ManualClock()
    clock.pass_time(SECOND)
    calendar = Calendar(store, clock, (await Holder.joined(store, clock, name)).owner)
    print("ready", flush=True)
    sys.stdin.readline()
    print(await RACES[race](store, calendar, name), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
