"""What the programs share: clients that submit and wait, the points to measure, and the lines to print."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Final, TextIO

STEPS: Final = 5

#: How long a server may take to come up, and the first task after it.
START_SECONDS_MAX: Final = 60.0
_LOOK_EVERY_SECONDS: Final = 0.05

_ONE: Final = 1
_MANY: Final = 100
#: Where the peak is looked for: upwards first; downwards if it does not rise that way.
_LADDERS: Final = ((300, 1000), (30, 10))
#: A trial that is not better by this much is no peak, but chance.
_GAIN_MIN: Final = 1.05
_TRIAL_SHARE: Final = 0.3
_WARM_UP_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Given:
    """The command line, see ``bench.peers.run``, and where the points go."""

    seconds: float
    ports: Sequence[int]
    postgres: str | None
    #: Whether a server that need not sync what it is given is told to.
    synced: bool
    output: TextIO


@dataclass(frozen=True, slots=True)
class Point:
    in_flight: int
    tasks: int
    tasks_per_second: float
    p50_ms: float
    p99_ms: float


#: Keeps so many tasks in flight for so many seconds.
Measure = Callable[[int, float], Awaitable[Point]]


def given() -> Given:
    """To be called before a server is started: from then on only points go to standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--port", type=int, action="append", default=[], dest="ports")
    parser.add_argument("--postgres")
    parser.add_argument("--synced", action="store_true")
    options = vars(parser.parse_args())
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")  # no server inherits it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return Given(**options, output=output)


async def print_points(measure: Measure, options: Given) -> None:
    """Measure with 1 and with 100 tasks in flight, and at the peak if it is elsewhere; a line for each."""

    async def show(in_flight: int) -> Point:
        point = await measure(in_flight, options.seconds)
        print(json.dumps(asdict(point)), file=options.output, flush=True)
        return point

    await measure(_ONE, options.seconds * _WARM_UP_SHARE)
    await show(_ONE)
    many = await show(_MANY)
    peak = await _peak(measure, many, seconds=options.seconds)
    if peak.in_flight != many.in_flight:
        await show(peak.in_flight)


async def _peak(measure: Measure, start: Point, *, seconds: float) -> Point:
    """Where most tasks end per second, as far as short trials tell, among what makes a load for ``seconds``.

    With more in flight than end in that time each client would submit but once: a burst, not a load.
    """
    best = start
    for ladder in _LADDERS:
        for in_flight in ladder:
            if in_flight > best.tasks_per_second * seconds:
                break
            trial = await measure(in_flight, seconds * _TRIAL_SHARE)
            if trial.tasks_per_second < best.tasks_per_second * _GAIN_MIN:
                break
            best = trial
        if best is not start:
            break
    return best


async def with_coroutines(one: Callable[[], Awaitable[object]], in_flight: int, *, seconds: float) -> Point:
    """``one`` submits a task and waits for its result; each of the clients does so again and again."""
    latencies: list[float] = []
    begun = time.perf_counter()

    async def client() -> None:
        while (submitted := time.perf_counter()) < begun + seconds:
            await one()
            latencies.append(time.perf_counter() - submitted)

    await asyncio.gather(*(client() for _ in range(in_flight)))
    return point(in_flight, latencies, seconds=time.perf_counter() - begun)


def with_threads(one: Callable[[], object], in_flight: int, *, seconds: float) -> Point:
    """As ``with_coroutines``, for a client that blocks."""
    latencies: list[float] = []
    begun = time.perf_counter()

    def client() -> None:
        while (submitted := time.perf_counter()) < begun + seconds:
            one()
            latencies.append(time.perf_counter() - submitted)

    with ThreadPoolExecutor(in_flight) as threads:
        for ended in [threads.submit(client) for _ in range(in_flight)]:
            ended.result()
    return point(in_flight, latencies, seconds=time.perf_counter() - begun)


def point(in_flight: int, latencies: Sequence[float], *, seconds: float) -> Point:
    ordered = sorted(latencies)
    return Point(
        in_flight=in_flight,
        tasks=len(ordered),
        tasks_per_second=round(len(ordered) / seconds, 1),
        p50_ms=round(ordered[len(ordered) // 2] * 1000, 2),
        p99_ms=round(ordered[len(ordered) * 99 // 100] * 1000, 2),
    )


async def until(answers: Callable[[], Awaitable[bool]], *, what: str) -> None:
    """Look until it answers; an error when it does not in time."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not await answers():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not answer within {START_SECONDS_MAX:.0f} s")
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
