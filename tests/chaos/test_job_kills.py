"""Processes that start jobs are killed and stopped whenever chance wants it: each instant starts one task."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from backstay import App
from backstay.clock import SystemClock
from backstay.domain.jobs.records import EntryStatus, JobState
from backstay.domain.lease import Owner
from backstay.domain.recurrence import Moment
from backstay.jobs.ticker import Ticker
from backstay.runtime.stores import StoreClock, open_store
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store
from backstay.store.jobs import Firing
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.workload import Effects, started
from tests.support.databases import Database
from tests.support.jobs import Calendar
from tests.support.service import http_service, says

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

JOBS = 900 if FULL else 250
#: From the first instant to the last, in seconds.
SPREAD = 20 if FULL else 5
PROCESSES = 3
#: Seconds from one kill, or stop, to the next; and how long one that is stopped stands still.
LIFE = (0.2, 0.7)
STILL = 2.0
PATIENCE_SECONDS = 90


def run_jobs(url: str, options: dict[str, str]) -> None:
    async def work() -> None:
        async with App("jobs").run(store=url, outbound_allow="loopback", **options):
            await asyncio.Event().wait()

    asyncio.run(work())


class Crew:
    """The processes; one that is stopped goes on a while later, as if nothing had happened."""

    def __init__(self, database: Database, chance: Random) -> None:
        self._arguments = (database.url, database.heir())
        self._chance = chance
        self._running = [self._started() for _ in range(PROCESSES)]
        self._stopped: list[tuple[float, BaseProcess]] = []
        self.kills = 0
        self.stops = 0

    def _started(self) -> BaseProcess:
        return started(run_jobs, *self._arguments)

    def disturb(self) -> None:
        victim = self._running.pop(self._chance.randrange(PROCESSES))
        self._running.append(self._started())
        if self._chance.random() < 0.7:
            _kill(victim)
            self.kills += 1
        else:
            _signal(victim, signal.SIGSTOP)
            self._stopped.append((time.monotonic() + STILL, victim))
            self.stops += 1
        self.let_go(until=time.monotonic())

    def let_go(self, *, until: float) -> None:
        """Those that have stood still long enough go on, and are killed at the end with all others."""
        for due, process in [*self._stopped]:
            if due <= until:
                _signal(process, signal.SIGCONT)
                self._stopped.remove((due, process))
                self._running.insert(0, process)
                _kill(self._running.pop(1))
                self.kills += 1

    def end(self) -> None:
        for process in [*self._running, *(process for _, process in self._stopped)]:
            _kill(process)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    assert process.pid is not None
    os.kill(process.pid, number)


@failure(
    "a ticker is killed",
    of=Part.DOORS,
    seen="instants that were due meanwhile start late; none is missed",
    heals="any other ticker finds them due: starting the task and moving the job on are one transaction",
    takes="the next look of another ticker; `lease` for what it had begun to send",
    within="90s",
    invariants=(2, 3, 5, 8, 13, 14),
)
async def test_when_a_ticker_is_killed_every_instant_still_starts_one_task(
    database: Database, watch: Watch, healing: Healing
):
    chance = Random(SEED)
    store = database.store()
    await store.open()
    calendar = Calendar(store)
    crew = None
    try:
        async with http_service(says(200)) as sink:
            first = StoreClock(store).now() + timedelta(seconds=3)
            await write_jobs(calendar, f"{sink.url}/run", first, chance)
            crew = Crew(database, chance)
            while StoreClock(store).now() < first + timedelta(seconds=SPREAD):
                await asyncio.sleep(chance.uniform(*LIFE))
                await asyncio.to_thread(crew.disturb)
            await asyncio.to_thread(crew.let_go, until=float("inf"))
            with healing():
                await until_all_are_over(calendar)
        crew.end()
        jobs, keys = sink.headers("x-ms-scheduler-jobid"), sink.headers("Idempotency-Key")
        watch.facts.fired = [(str(job), "once", str(key)) for job, key in zip(jobs, keys, strict=True)]
        await check(calendar, Counter(zip(jobs, keys, strict=True)))
    finally:
        if crew is not None:
            crew.end()
        await store.close()


async def write_jobs(calendar: Calendar, uri: str, first: datetime, chance: Random) -> None:
    now = StoreClock(calendar.store).now()
    await calendar.open(now)
    for number in range(JOBS):
        at = first + timedelta(seconds=chance.uniform(0, SPREAD))
        action = {"type": "Http", "request": {"uri": uri, "method": "POST"}}
        await calendar.put(f"j{number}", {"startTime": Moment(at).text, "action": action}, now=now)


async def until_all_are_over(calendar: Calendar) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        jobs = [await calendar.job(f"j{number}") for number in range(JOBS)]
        states = Counter(job.state for job in jobs)
        tasks = Counter(task.state for task in await calendar.tasks())
        if states == {JobState.COMPLETED: JOBS} and tasks == {"processed": JOBS}:
            return
        assert time.monotonic() < give_up_at, f"{states} {tasks}"
        await asyncio.sleep(0.2)


async def check(calendar: Calendar, sent: Counter[Any]) -> None:
    tasks = await calendar.tasks()
    assert Counter(task.attributes["job"] for task in tasks) == {f"j{number}": 1 for number in range(JOBS)}
    # What is sent again, since its process died before it was told, has the same key.
    assert {*sent} == {(task.attributes["job"], task.id) for task in tasks}
    for number in range(JOBS):
        [entry] = await calendar.history(f"j{number}")
        assert (entry.status, entry.retry) == (EntryStatus.COMPLETED, 0)


# Between the look and the writing


class Halting:
    """The jobs of a store, of a process that stops itself when it is about to fire."""

    def __init__(self, jobs: Any, trail: Effects) -> None:
        self._jobs = jobs
        self._trail = trail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def fire(self, firings: Sequence[Firing], **options: Any) -> list[bool]:
        os.kill(os.getpid(), signal.SIGSTOP)
        written: list[bool] = await self._jobs.fire(firings, **options)
        self._trail.add(f"fired {written}")
        return written


class StoreOf:
    """A store with such jobs."""

    def __init__(self, store: Store, jobs: Any) -> None:
        self._store = store
        self.jobs = jobs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def look_and_halt(url: str, folder: Path) -> None:
    async def work() -> None:
        store = open_store(Settings(store=url))
        await store.open()
        owner = await registered(store, "halting")
        halting = StoreOf(store, Halting(store.jobs, Effects(folder / "trail")))
        ticker = Ticker(halting, owner, settings=Settings(), clock=SystemClock())
        await ticker.run_once()
        await store.close()

    asyncio.run(work())


async def registered(store: Store, name: str) -> Owner:
    return await store.register(NewInstance(id=name, host="h", pid=os.getpid()), now=SystemClock().now())


@pytest.mark.parametrize("ends", ["killed", "goes on"])
async def test_what_a_ticker_has_seen_and_not_written_another_starts_and_nobody_twice(
    database: Database, tmp_path: Path, ends: str
):
    store = database.store()
    await store.open()
    calendar = Calendar(store)
    now = SystemClock().now()
    await calendar.open(now)
    action = {"type": "Http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}}
    await calendar.put("j", {"startTime": Moment(now).text, "action": action}, now=now)
    stopped = started(look_and_halt, database.url, tmp_path)
    await asyncio.to_thread(until_it_halts, stopped)
    assert await calendar.tasks() == []

    ticker = Ticker(store, await registered(store, "other"), settings=Settings(), clock=SystemClock())
    assert await ticker.run_once() == 1
    if ends == "goes on":
        _signal(stopped, signal.SIGCONT)
        await asyncio.to_thread(stopped.join)
        assert Effects(tmp_path / "trail").count() == {"fired [False]": 1}
    else:
        _kill(stopped)

    assert await ticker.run_once() == 0
    assert len(await calendar.tasks()) == 1
    await store.close()


def until_it_halts(process: BaseProcess) -> None:
    """It is a child of the server that forks, so that nobody here may wait for it: look at its state."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] != "T":
        assert process.is_alive()
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
