"""Five steps on Celery: a chain of tasks, one worker with its default pool, Valkey as broker and backend."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Celery is not installed where the types are checked.

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import deque
from typing import Any

from celery import Celery, chain

from bench.peers.programs.measuring import (
    START_SECONDS_MAX,
    STEPS,
    Point,
    given,
    point,
    print_points,
)
from bench.peers.programs.valkey import valkey

_TASK_SECONDS_MAX = 120.0

app = Celery("bench")


@app.task(name="work")
def work(number: int) -> int:
    return number + 1


def submit() -> Any:
    return chain(work.s(0), *(work.s() for _ in range(STEPS - 1))).apply_async()


async def measure(in_flight: int, seconds: float) -> Point:
    """A window over the tasks in their order; a hundred threads would take the worker's cores from it.

    Waiting for the oldest task takes in the results of all others as well; each counts from its own arrival.
    Blocks the loop: nothing else runs on it.
    """
    latencies: list[float] = []
    waiting: deque[Any] = deque()
    begun = time.perf_counter()

    def submit_one() -> None:
        submitted = time.perf_counter()
        result = submit()
        result.then(lambda _: latencies.append(time.perf_counter() - submitted))
        waiting.append(result)

    for _ in range(in_flight):
        submit_one()
    while waiting:
        assert waiting.popleft().get(timeout=_TASK_SECONDS_MAX) == STEPS
        if time.perf_counter() < begun + seconds:
            submit_one()
    return point(in_flight, latencies, seconds=time.perf_counter() - begun)


async def main() -> None:
    options = given()
    (port,) = options.ports
    url = await valkey(port)
    app.conf.update(broker_url=url, result_backend=url)
    start_worker(url)
    assert submit().get(timeout=START_SECONDS_MAX) == STEPS
    await print_points(measure, options)


def start_worker(url: str) -> None:
    where = ["--broker", url, "--result-backend", url]
    celery = [sys.executable, "-P", "-m", "celery", "--app", "bench.peers.programs.celery", *where]
    subprocess.Popen([*celery, "worker"])


if __name__ == "__main__":
    asyncio.run(main())
