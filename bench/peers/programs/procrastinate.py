"""Messages through Procrastinate: a task is deferred, and a worker runs it, which does nothing."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Procrastinate is not installed where the types are checked.

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
from procrastinate import App, PsycopgConnector

from bench.letters import (
    BACKLOG_PER_SECOND,
    BODY,
    IDLE_MESSAGES_PER_SECOND,
    QUEUE,
    SEND_IN_ONE_CALL,
)
from bench.peers.programs.measuring import Given, given, with_coroutines
from bench.peers.programs.passing import emptied, note_arrival, one_by_one, sent, show

_MANY = 100
_FILL = 1_000

app = App(connector=PsycopgConnector())
done = 0


@app.task(name="take", queue=QUEUE)
async def take(body: dict[str, Any]) -> None:
    global done  # noqa: PLW0603
    done += 1
    note_arrival(body)


async def main() -> None:
    options = given()
    assert options.postgres is not None
    create_database(options.postgres)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await measure_sends(options)
        for at_a_time in (1, _MANY):
            await measure_worker(at_a_time, options)
        await fill(0)
        start_worker()
        number = round(options.seconds * IDLE_MESSAGES_PER_SECOND)
        show(await one_by_one(lambda body: take.defer_async(body=body), number=number), options)


async def measure_sends(options: Given) -> None:
    async def one() -> None:
        await take.defer_async(body=BODY)

    async def many() -> None:
        await take.batch_defer_async(*({"body": BODY} for _ in range(_MANY)))

    for senders in (1, _MANY):
        show(sent(await with_coroutines(one, senders, seconds=options.seconds)), options)
    found = await with_coroutines(many, 1, seconds=options.seconds)
    show(sent(found, work=SEND_IN_ONE_CALL, together=_MANY), options)


async def measure_worker(at_a_time: int, options: Given) -> None:
    """A worker with a queue that is as full as everybody's."""
    backlog = round(options.seconds * BACKLOG_PER_SECOND)
    await fill(backlog)
    full = done + backlog

    async def left() -> int:
        return full - done

    worker = asyncio.create_task(app.run_worker_async(concurrency=at_a_time, install_signal_handlers=False))
    show(await emptied(left, at_a_time=at_a_time, seconds=options.seconds), options)
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker


async def fill(number: int) -> None:
    """So many wait afterwards, whatever waited before."""
    await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
    for begin in range(0, number, _FILL):
        await take.batch_defer_async(*({"body": BODY} for _ in range(begin, min(begin + _FILL, number))))
    await app.connector.execute_query_async("ANALYZE")


def start_worker() -> None:
    """In a process of its own, with its own defaults."""
    module = "bench.peers.programs.procrastinate"
    subprocess.Popen([sys.executable, "-P", "-m", "procrastinate", f"--app={module}.app", "worker"])


def create_database(url: str) -> None:
    """Make the database, and have every connection of ours, and of the worker, go there."""
    address = urlsplit(url)
    with psycopg.connect(address._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE " + address.path[1:])
    os.environ |= {
        "PGHOST": str(address.hostname),
        "PGPORT": str(address.port),
        "PGUSER": str(address.username),
        "PGDATABASE": address.path[1:],
    }


if __name__ == "__main__":
    asyncio.run(main())
