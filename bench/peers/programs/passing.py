"""What the programs that pass messages share: points of sending, a queue that is emptied, single messages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.letters import IDLE, IDLE_PAUSE_SECONDS, RECEIVE, SEND, age_seconds, stamped
from bench.peers.programs.measuring import START_SECONDS_MAX, Given, Point, point

_LOOK_EVERY_SECONDS: Final = 0.002

#: In the folder of the program, which all of its processes work in.
_ARRIVALS: Final = Path("arrivals")


@dataclass(frozen=True, slots=True)
class Rate:
    work: str
    at_a_time: int
    messages: int
    messages_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


def show(rate: Rate, options: Given) -> None:
    print(json.dumps(asdict(rate)), file=options.output, flush=True)


def sent(found: Point, *, work: str = SEND, together: int = 1) -> Rate:
    """A point of so many senders, each call of whom sent so many messages."""
    return Rate(
        work=work,
        at_a_time=found.in_flight * together,
        messages=found.tasks * together,
        messages_per_second=round(found.tasks_per_second * together, 1),
        p50_ms=found.p50_ms,
        p99_ms=found.p99_ms,
    )


async def emptied(left: Callable[[], Awaitable[int]], *, at_a_time: int, seconds: float) -> Rate:
    """How fast a worker empties a queue, from when it is seen to have begun: its own start is not counted."""
    full = await left()
    first = await _looked(left, lambda now: now < full, seconds=START_SECONDS_MAX)
    if first == full:
        raise TimeoutError(f"no worker began within {START_SECONDS_MAX:.0f} s")
    begun = time.perf_counter()
    last = await _looked(left, lambda now: now == 0, seconds=seconds)
    done, taken = first - last, time.perf_counter() - begun
    return Rate(RECEIVE, at_a_time, messages=done, messages_per_second=round(done / taken, 1))


async def _looked(left: Callable[[], Awaitable[int]], holds: Callable[[int], bool], *, seconds: float) -> int:
    """How many are left once that ``holds``, or when time is up."""
    deadline = time.perf_counter() + seconds
    while True:
        now = await left()
        if holds(now) or time.perf_counter() > deadline:
            return now
        await asyncio.sleep(_LOOK_EVERY_SECONDS)


async def one_by_one(send: Callable[[dict[str, Any]], Awaitable[object]], *, number: int) -> Rate:
    """Messages through an idle queue, each once the one before it has arrived; the first does not count."""
    for count in range(1, number + 2):
        await asyncio.sleep(IDLE_PAUSE_SECONDS)
        await send(stamped())
        await _arrived(count)
    found = point(1, _arrivals()[1:], seconds=1.0)
    return Rate(IDLE, 1, messages=number, p50_ms=found.p50_ms, p99_ms=found.p99_ms)


def note_arrival(body: dict[str, Any]) -> None:
    """What a worker does with a message that was stamped; with any other it does nothing."""
    if "sent_at" in body:
        with _ARRIVALS.open("a") as file:
            file.write(f"{age_seconds(body)}\n")


async def _arrived(count: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while len(_arrivals()) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"message {count} was not received within {START_SECONDS_MAX:.0f} s")
        await asyncio.sleep(_LOOK_EVERY_SECONDS)


def _arrivals() -> list[float]:
    if not _ARRIVALS.exists():
        return []
    # A line that is still being written has no end yet.
    return [float(line) for line in _ARRIVALS.read_text().splitlines(keepends=True) if line.endswith("\n")]
