"""Messages through Celery: a task that does nothing is sent, and a worker with its default pool runs it."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Celery is not installed where the types are checked.

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

from celery import Celery
from redis.asyncio import Redis

from bench.letters import BACKLOG_PER_SECOND, BODY, IDLE_MESSAGES_PER_SECOND, QUEUE
from bench.peers.programs.measuring import Given, given, with_threads
from bench.peers.programs.passing import emptied, note_arrival, one_by_one, sent, show
from bench.peers.programs.valkey import valkey

_MANY = 100
#: Every write is in the file before it is answered.
_SYNCED = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
#: Where Celery keeps what a worker has taken and not yet acknowledged.
_UNACKNOWLEDGED = "unacked"

#: Set for the worker that acknowledges a message once it was done, and not before.
_AFTERWARDS = "BENCH_ACKNOWLEDGE_AFTERWARDS"

app = Celery("bench")
app.conf.update(task_default_queue=QUEUE, task_ignore_result=True, task_acks_late=_AFTERWARDS in os.environ)


@app.task(name="take")
def take(body: dict[str, Any]) -> None:
    note_arrival(body)


def send() -> None:
    take.apply_async((BODY,))


async def main() -> None:
    options = given()
    (port,) = options.ports
    url = await valkey(port, *(_SYNCED if options.synced else ()))
    app.conf.update(broker_url=url)
    for senders in (1, _MANY):
        show(sent(with_threads(send, senders, seconds=options.seconds)), options)
    async with Redis.from_url(url) as broker:
        await measure_worker(broker, url, options)
    app.control.purge()
    number = round(options.seconds * IDLE_MESSAGES_PER_SECOND)
    show(await one_by_one(send_stamped, number=number), options)


async def send_stamped(body: dict[str, Any]) -> None:
    take.apply_async((body,))


async def measure_worker(broker: Any, url: str, options: Given) -> None:
    """A worker with a queue that is as full as everybody's."""

    async def left() -> int:
        return int(await broker.llen(QUEUE)) + int(await broker.hlen(_UNACKNOWLEDGED))

    backlog = round(options.seconds * BACKLOG_PER_SECOND)
    await broker.ltrim(QUEUE, 0, backlog - 1)
    for _ in range(backlog - await left()):
        send()
    start_worker(url, afterwards=options.synced)
    show(await emptied(left, at_a_time=os.cpu_count() or 1, seconds=options.seconds), options)


def start_worker(url: str, *, afterwards: bool) -> None:
    celery = [sys.executable, "-P", "-m", "celery", "--app", "bench.peers.programs.celery_queue"]
    environment = os.environ | ({_AFTERWARDS: "1"} if afterwards else {})
    subprocess.Popen([*celery, "--broker", url, "worker"], env=environment)


if __name__ == "__main__":
    asyncio.run(main())
