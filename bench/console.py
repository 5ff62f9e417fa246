"""What the console costs on a store with a million tasks: how long each page takes, and an open overview.

On SQLite, with 100,000 jobs, streams and queues beside the tasks. The server has the role api alone, so that
what is pending stays so, and nobody reads the streams.
"""

from __future__ import annotations

import asyncio
import http.client
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from backstay import App, Event
from bench.bulk import bulk, finished, pending, stopped
from bench.databases import SQLITE, sqlite
from bench.load import in_fresh_loop
from bench.many_jobs import COLLECTION, JOB, fill_with_jobs
from bench.options import Options
from bench.progress import say
from bench.usage import cpu_seconds
from tests.support.running import eventually

TASKS: Final = 1_000_000
SHORT_TASKS: Final = 1_000
JOBS: Final = 100_000
SHORT_JOBS: Final = 2_000
CALLS: Final = 20
SHORT_CALLS: Final = 2
SECONDS: Final = 30.0
SHORT_SECONDS: Final = 1.0

#: A task has so many steps on the page that shows one.
STEPS: Final = 100
RARE: Final = "rare"

#: A stream is so wide, and so much of it is yet to be read; a queue is so full, with topics beside it.
PARTITIONS: Final = 1_024
LOT: Final = 10_000
STREAM: Final = "wide"
QUEUE: Final = "full"
BESIDE: Final = 20

#: Each filter that is met rarely, or never, as well as what is usual.
PAGES: Final = (
    "/",
    "/tasks",
    "/tasks?state=error",
    "/tasks?state=pending",
    "/tasks?workflow=rare",
    "/tasks?attribute=customer:nobody",
    "/tasks?state=error&attribute=customer:nobody",
    "/tasks?error=nothing+says+this",
    "/tasks?before=1h",
    "/agents",
    "/supervisor",
    "/streams",
    f"/streams/{STREAM}",
    "/queues",
    f"/queues/{QUEUE}",
    "/jobs",
    f"/jobs/{COLLECTION}",
    f"/jobs/{COLLECTION}/{JOB}",
    f"/jobs/{COLLECTION}/{JOB}/history",
    f"/jobs/{COLLECTION}/{JOB}/history?status=postponed",
    f"/jobs/{COLLECTION}/{JOB}/edit",
    "/audit",
)


class ConsoleCost(msgspec.Struct, frozen=True, kw_only=True):
    """The median of the calls, and the worst of them; of an overview how much of a core it takes."""

    store: str
    tasks: int
    what: str
    unit: str
    median: float
    most: float


def measure(_stores: Sequence[str], options: Options) -> Iterator[ConsoleCost]:
    tasks = SHORT_TASKS if options.short else TASKS
    calls = SHORT_CALLS if options.short else CALLS
    with sqlite() as database:
        url = database.new_store()
        say(f"    {tasks:,} tasks")
        _fill(url, tasks)
        in_fresh_loop(_fill_streams_and_queues(url, tasks // 10))
        fill_with_jobs(url, SHORT_JOBS if options.short else JOBS)
        with _server(url) as (process, address):
            task = _a_task_with_steps(address)
            for page in (*PAGES, task):
                times = [_milliseconds(address, page) for _ in range(calls)]
                shown = "/tasks/{id}" if page == task else page
                yield _cost(tasks, f"GET {shown}", "ms", statistics.median(times), max(times))
            seconds = SHORT_SECONDS if options.short else SECONDS
            say(f"    {2 * seconds:g} s of watching")
            closed = _share_of_a_core(process, seconds)
            with _open_overview(address):
                opened = _share_of_a_core(process, seconds)
            yield _cost(tasks, "an open overview", "% of a core", opened - closed, opened - closed)
            yield _cost(tasks, "no open page", "% of a core", closed, closed)


def _cost(tasks: int, what: str, unit: str, median: float, most: float) -> ConsoleCost:
    return ConsoleCost(
        store=SQLITE, tasks=tasks, what=what, unit=unit, median=round(median, 2), most=round(most, 2)
    )


def _fill(url: str, tasks: int) -> None:
    with bulk(url) as tables:
        tables.put(finished(RARE, steps=0), 10)
        tables.put(finished(steps=0), tasks * 7 // 10)
        tables.put(stopped(), tasks * 2 // 10)
        tables.put(pending("five"), tasks // 10)
        tables.put(finished("long", steps=STEPS), 1)
        tables.settle()


async def _fill_streams_and_queues(url: str, number: int) -> None:
    """So many events that a group has yet to pass, and so many messages that nobody receives."""
    app = App("console")
    wide = app.stream(STREAM, partitions=PARTITIONS)
    wide.source(group="behind").filter(lambda _event: False).send(app.queue(QUEUE))
    for beside in range(BESIDE):
        app.stream(f"{STREAM}-{beside}", partitions=2)
        app.topic(f"topic-{beside}").subscription("all")
    async with app.run(store=url):
        # From then on it is known how far the group has got, also when nobody reads for it.
        await eventually(
            lambda: app.streamroom.stream(STREAM),
            lambda view: sum(one.owner is not None for one in view.groups) == PARTITIONS,
        )
    async with app.client(store=url) as client:
        for begin in range(0, number, LOT):
            lot = range(begin, min(begin + LOT, number))
            await client.stream(STREAM).append_all([Event(body=n, key=f"k{n}") for n in lot])
            await asyncio.gather(*(client.queue(QUEUE).send(n) for n in lot))


@contextmanager
def _server(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "backstay", "serve", "--roles", "api", "--store", url, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        drained = threading.Thread(target=process.stderr.read, daemon=True)
        drained.start()
        try:
            yield process, urlsplit(said.split(" on ")[1].split(" as ")[0]).netloc
        finally:
            process.terminate()
            process.wait()


def _a_task_with_steps(address: str) -> str:
    body = _get(address, "/tasks?workflow=long").decode()
    return "/tasks/" + body.partition('<td><a class="id" href="/tasks/')[2].partition('"')[0]


def _milliseconds(address: str, page: str) -> float:
    begun = time.perf_counter()
    _get(address, page)
    return (time.perf_counter() - begun) * 1_000


def _get(address: str, page: str) -> bytes:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", page)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{page} answers {answer.status}")
    return body


@contextmanager
def _open_overview(address: str) -> Iterator[None]:
    """Somebody who looks at the overview, and reads what comes."""
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/", headers={"Accept": "text/event-stream"})
    answer = connection.getresponse()
    reader = threading.Thread(target=_read_on, args=(answer,), daemon=True)
    reader.start()
    yield  # The server ends it when it stops.


def _read_on(answer: http.client.HTTPResponse) -> None:
    while answer.readline():
        pass


def _share_of_a_core(process: subprocess.Popen[str], seconds: float) -> float:
    begun, cpu = time.monotonic(), cpu_seconds(process.pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(process.pid) - cpu) / (time.monotonic() - begun)
