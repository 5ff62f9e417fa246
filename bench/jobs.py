"""Jobs: how fast they are written, what they cost while none is due, and how late many are at one instant.

Those that are due at once ask a local server, in a process of its own, which notes when it was asked: an
occurrence is as late as its request comes after its instant.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.jobs.records import CollectionId
from backstay.domain.recurrence import Moment
from backstay.runtime import open_store
from backstay.settings import Settings
from bench.beside_peers import OURS
from bench.databases import DATABASES, Database
from bench.load import in_fresh_loop
from bench.options import Options
from bench.points import milliseconds, percentile
from bench.progress import say
from bench.sink import arrivals, sinking
from bench.usage import cpu_seconds
from tests.support.jobs import Calendar
from tests.support.ports import free_ports

PUT: Final = "put"
IDLE: Final = "idle"
DUE: Final = "due at once"

#: For each second that a peer is measured: so many jobs are due at once, and so many idle.
DUE_PER_SECOND: Final = 1_000
IDLE_PER_SECOND: Final = 10_000
SECONDS: Final = 10.0
SHORT_SECONDS: Final = 0.05

#: At a time, each with a connection of its own.
WRITERS: Final = 32
#: As many as a collection of the largest SKU holds.
COLLECTION_JOBS: Final = 1_000
WARM_UP_SECONDS: Final = 5.0
SHORT_WARM_UP_SECONDS: Final = 1.0

#: From the last job that is written to the instant: the process that starts them has to come up.
_LEAD_SECONDS: Final = 10.0
_SHORT_LEAD_SECONDS: Final = 4.0
_DONE_SECONDS_MAX: Final = 300.0
_STOP_SECONDS: Final = 60.0

Properties = dict[str, Any]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A system at one kind of work. ``seconds``: until the last was started, or of watching."""

    peer: str
    store: str
    work: str = ""
    jobs: int | None = None
    seconds: float | None = None
    jobs_per_second: float | None = None
    lateness_p50_ms: float | None = None
    lateness_p99_ms: float | None = None
    percent_of_a_core: float | None = None
    durability: str | None = None
    packages: str | None = None
    error: str | None = None


def measure(stores: Sequence[str], options: Options) -> Iterator[JobRow]:
    seconds = SHORT_SECONDS if options.short else SECONDS
    yield from _peers(stores, seconds)
    for store in stores:
        with DATABASES[store]() as database:
            say(f"  {OURS} on {database.name}")
            yield from ours(database, seconds, short=options.short)


def _peers(stores: Sequence[str], seconds: float) -> Iterator[JobRow]:
    # Imported here: the other benches need none of what it needs.
    from bench.peers.catalogue import JOB_PEERS  # noqa: PLC0415
    from bench.peers.run import measure_peers, on_stores  # noqa: PLC0415

    for peer in on_stores(JOB_PEERS, stores):
        say(f"  {peer.name}")
        for row in measure_peers([peer], seconds=seconds):
            yield msgspec.convert(row | {"store": peer.store.lower()}, JobRow)


def ours(database: Database, seconds: float, *, short: bool) -> Iterator[JobRow]:
    """How fast they are written, what they cost while idle, how late they are when many are due."""
    idle, due = round(seconds * IDLE_PER_SECOND), round(seconds * DUE_PER_SECOND)
    url = database.new_store()
    say(f"    {idle:,} jobs are written")
    spent = in_fresh_loop(_written(url, idle, _monthly()))
    yield _row(database, PUT, idle, seconds=round(spent, 2), jobs_per_second=round(idle / spent, 1))
    warm_up = SHORT_WARM_UP_SECONDS if short else WARM_UP_SECONDS
    watched = max(2 * seconds, 1.0)
    say(f"    {warm_up + watched:g} s of watching")
    share = _idle_share(url, warm_up=warm_up, seconds=watched)
    yield _row(database, IDLE, idle, seconds=watched, percent_of_a_core=round(share * 100, 2))
    lead = (_SHORT_LEAD_SECONDS if short else _LEAD_SECONDS) + 2 * due * spent / idle
    yield _due(database, due, timedelta(seconds=lead))


def _row(database: Database, work: str, jobs: int, **figures: Any) -> JobRow:
    return JobRow(
        peer=OURS,
        store=database.name,
        work=work,
        jobs=jobs,
        durability="durable: every commit is synced",
        **figures,
    )


# Writing


def _monthly() -> Properties:
    """A job that is not due while anybody watches."""
    start = Moment(datetime.now(UTC) + timedelta(days=20)).text
    return _asking("http://127.0.0.1:9/") | {"startTime": start, "recurrence": {"frequency": "month"}}


def _asking(uri: str) -> Properties:
    return {"action": {"type": "Http", "request": {"uri": uri, "method": "GET"}}}


async def _written(url: str, number: int, properties: Properties) -> float:
    """Write so many of these jobs, some at a time; the seconds that it took."""
    store = open_store(Settings(store=url, store_connections=WRITERS))
    await store.open()
    places = [CollectionId("bench", "bench", f"c{n}") for n in range(-(-number // COLLECTION_JOBS))]
    calendars = [Calendar(store, place) for place in places]
    for calendar in calendars:
        await calendar.open(datetime.now(UTC))
    jobs = ((calendars[n % len(calendars)], f"j{n}") for n in range(number))
    begun = time.perf_counter()

    async def writer() -> None:
        for calendar, name in jobs:  # Shared: who is done takes the next.
            await calendar.put(name, properties, now=datetime.now(UTC))

    await asyncio.gather(*(writer() for _ in range(WRITERS)))
    spent = time.perf_counter() - begun
    await store.close()
    return spent


# Running


@contextmanager
def _serving(url: str, roles: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "backstay", "serve", "--roles", roles, "--store", url]
    # Whom they ask is on this machine.
    environment = os.environ | {"BACKSTAY_OUTBOUND_ALLOW": "loopback"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
            if process.poll() is not None:
                raise RuntimeError(f"the process ended with {process.returncode}")
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _idle_share(url: str, *, warm_up: float, seconds: float) -> float:
    with _serving(url, "jobs") as process:
        time.sleep(warm_up)
        begun, cpu = time.monotonic(), cpu_seconds(process.pid)
        time.sleep(seconds)
        return (cpu_seconds(process.pid) - cpu) / (time.monotonic() - begun)


def _due(database: Database, number: int, lead: timedelta) -> JobRow:
    """So many at one instant, in one process that is everything but the HTTP interface."""
    url = database.new_store()
    [port] = free_ports(1)
    with sinking(port) as sink:
        instant = datetime.now(UTC) + lead
        say(f"    {number:,} jobs that are due in {lead.total_seconds():.0f} s")
        in_fresh_loop(_written(url, number, _asking(f"{sink}/") | {"startTime": Moment(instant).text}))
        with _serving(url, "jobs,scheduler,agents,supervisor"):
            if datetime.now(UTC) > instant:
                raise RuntimeError("the jobs were not written in time; the lead is too short")
            came = _all_of(sink, number, until=instant + timedelta(seconds=_DONE_SECONDS_MAX))
    late = sorted(at - instant.timestamp() for at in came)
    return _row(
        database,
        DUE,
        number,
        seconds=round(late[-1], 2),
        jobs_per_second=round(number / late[-1], 1),
        lateness_p50_ms=milliseconds(percentile(late, 50)),
        lateness_p99_ms=milliseconds(percentile(late, 99)),
    )


def _all_of(sink: str, number: int, *, until: datetime) -> list[float]:
    while len(came := arrivals(sink)) < number:
        if datetime.now(UTC) > until:
            raise RuntimeError(f"{len(came):,} of {number:,} jobs were started")
        time.sleep(0.5)
    return came
