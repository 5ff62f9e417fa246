"""Messages through a queue: sent by many at once, received and completed in batches, or one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from backstay.client import Client
from bench.databases import Database
from bench.idle_queue import idle_latencies, queue_app
from bench.letters import BODY, IDLE, QUEUE, RECEIVE, SEND
from bench.load import Size, crowd, in_fresh_loop
from bench.options import Options
from bench.points import Point, milliseconds, percentile
from bench.progress import say

#: Senders at a time, each of whom awaits its own message.
SENDS: Final = (Size(1_000, 1), Size(20_000, 100), Size(50_000, 1_000))
SHORT_SENDS: Final = (Size(5, 1), Size(40, 10))

#: How many messages a receive asks for; each of them is completed by itself, all at the same time.
BATCHES: Final = (1, 10, 100, 1_000)
MESSAGES: Final = {1: 1_000, 10: 5_000, 100: 20_000, 1_000: 50_000}
SHORT_BATCHES: Final = (1, 10)
SHORT_MESSAGES: Final = 20

#: One at a time, received by another process.
IDLE_MESSAGES: Final = 200
SHORT_IDLE_MESSAGES: Final = 5


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of one send, or of one receive with the completion of what it gave.

    Those of a message through an idle queue are of its way from a sender to a receiver in another process.
    """

    store: str
    work: str
    at_a_time: int
    messages: int
    messages_per_second: float | None = None
    p50_ms: float
    p99_ms: float


def measure(database: Database, options: Options) -> Iterator[Rate]:
    for size in SHORT_SENDS if options.short else SENDS:
        yield send_rate(database, size)
    for batch in SHORT_BATCHES if options.short else BATCHES:
        yield receive_rate(database, batch, SHORT_MESSAGES if options.short else MESSAGES[batch])
    yield idle_rate(database, SHORT_IDLE_MESSAGES if options.short else IDLE_MESSAGES)


def send_rate(database: Database, size: Size) -> Rate:
    say(f"    {size.in_flight:,} senders")
    point = in_fresh_loop(_sends(database.new_store(), size))
    return Rate(
        store=database.name,
        work=SEND,
        at_a_time=size.in_flight,
        messages=point.tasks,
        messages_per_second=round(point.per_second, 1),
        p50_ms=point.p50_ms,
        p99_ms=point.p99_ms,
    )


def receive_rate(database: Database, batch: int, number: int) -> Rate:
    say(f"    receives of {batch:,}")
    taken = sorted(in_fresh_loop(_receives(database.new_store(), number, batch)))
    return Rate(
        store=database.name,
        work=RECEIVE,
        at_a_time=batch,
        messages=number,
        messages_per_second=round(number / sum(taken), 1),
        p50_ms=milliseconds(percentile(taken, 50)),
        p99_ms=milliseconds(percentile(taken, 99)),
    )


def idle_rate(database: Database, number: int) -> Rate:
    say("    one at a time through an idle queue")
    latencies = in_fresh_loop(idle_latencies(database.new_store(), number))
    return Rate(
        store=database.name,
        work=IDLE,
        at_a_time=1,
        messages=number,
        p50_ms=milliseconds(percentile(latencies, 50)),
        p99_ms=milliseconds(percentile(latencies, 99)),
    )


async def _sends(store: str, size: Size) -> Point:
    async with queue_app().client(store=store) as client:

        async def one() -> None:
            await client.queue(QUEUE).send(BODY)

        return await crowd(one, size)


async def _receives(store: str, number: int, batch: int) -> list[float]:
    """The seconds of each receive, with the completion of what it gave, until nothing is left."""
    async with queue_app().client(store=store) as client:
        await _fill(client, number)
        seconds = []
        left = number
        while left:
            begun = time.perf_counter()
            messages = await client.queue(QUEUE).receive(max=batch)
            await asyncio.gather(*(message.complete() for message in messages))
            seconds.append(time.perf_counter() - begun)
            if not messages:
                raise RuntimeError(f"{left:,} of {number:,} messages were never received")
            left -= len(messages)
        return seconds


async def _fill(client: Client, number: int) -> None:
    for begin in range(0, number, 1_000):
        await asyncio.gather(
            *(client.queue(QUEUE).send(BODY) for _ in range(begin, min(begin + 1_000, number)))
        )
