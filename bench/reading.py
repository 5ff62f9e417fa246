"""Events read over HTTP, page by page, by several at a time, with and without others coming in meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from backstay.clock import SystemClock
from backstay.domain.stream import PARTITIONS_USUAL, NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from bench.append import BODY, KEYS
from bench.databases import sqlite
from bench.load import in_fresh_loop
from bench.openloop.outcome import Tally
from bench.openloop.plan import Load, Phase
from bench.openloop.process import generate_apart
from bench.options import Options
from bench.points import milliseconds, percentile
from bench.progress import say
from bench.streaming.apps import STREAM
from bench.streaming.events import one_event
from bench.streaming.servers import FAST, Server, serving

EVENTS: Final = 200_000
SECONDS: Final = 10.0
#: Events a second that come in while others read.
RATE: Final = 2_000

SHORT_EVENTS: Final = 500
SHORT_SECONDS: Final = 0.5
SHORT_RATE: Final = 50

_APPENDED_AT_ONCE: Final = 1_000


class Reads(NamedTuple):
    """So many readers, each with partitions of its own, that ask for so many events at a time."""

    readers: int
    limit: int
    #: Whether events come in meanwhile.
    meanwhile: bool = False


READS: Final = (
    Reads(1, 100),
    Reads(1, 1_000),
    Reads(8, 100),
    Reads(8, 1_000),
    Reads(8, 1_000, meanwhile=True),
)
SHORT_READS: Final = (Reads(1, 100), Reads(2, 10, meanwhile=True))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of a page, and of an append where events came in beside the reading."""

    readers: int
    page_events: int
    events: int
    events_per_second: float
    p50_ms: float
    p99_ms: float
    appends_per_second: float | None = None
    append_p50_ms: float | None = None
    append_p99_ms: float | None = None


class Read(NamedTuple):
    """What readers found: the events of each page, and the seconds that it took."""

    events: int
    seconds: float
    pages: list[float]


class Page(msgspec.Struct):
    """An answer; what is in its items is nobody's business here."""

    items: list[msgspec.Raw]
    next: int | None


_decode: Final = msgspec.json.Decoder(Page).decode


def measure(_stores: Sequence[str], options: Options) -> Iterator[Reading]:
    with sqlite() as database:
        streams = f"sqlite:///{database.folder.resolve()}/streams.db"
        in_fresh_loop(_fill(streams, SHORT_EVENTS if options.short else EVENTS))
        with serving(database.folder, FAST) as server:
            for reads in SHORT_READS if options.short else READS:
                beside = ", events coming in" if reads.meanwhile else ""
                say(f"    {reads.readers} at a time, pages of {reads.limit:,}{beside}")
                yield in_fresh_loop(_measured(server, reads, short=options.short))


async def _measured(server: Server, reads: Reads, *, short: bool) -> Reading:
    seconds = SHORT_SECONDS if short else SECONDS
    appends: Tally | None = None
    if reads.meanwhile:
        load = _load(server, seconds, SHORT_RATE if short else RATE)
        read, outcome = await asyncio.gather(
            _read(server, reads, seconds), asyncio.to_thread(generate_apart, load)
        )
        [appends] = outcome.phases
        if appends.not_accepted:
            raise RuntimeError(f"{appends.not_accepted:,} of {appends.due:,} events were not accepted")
    else:
        read = await _read(server, reads, seconds)
    pages = sorted(read.pages)
    return Reading(
        readers=reads.readers,
        page_events=reads.limit,
        events=read.events,
        events_per_second=round(read.events / read.seconds, 1),
        p50_ms=milliseconds(percentile(pages, 50)),
        p99_ms=milliseconds(percentile(pages, 99)),
        **({} if appends is None else _beside(appends)),
    )


def _beside(appends: Tally) -> dict[str, float]:
    return {
        "appends_per_second": round(appends.accepted_per_second, 1),
        "append_p50_ms": appends.latencies.percentile_ms(50),
        "append_p99_ms": appends.latencies.percentile_ms(99),
    }


def _load(server: Server, seconds: float, rate: float) -> Load:
    return Load(
        host=server.host,
        port=server.port,
        request=one_event(server.address),
        phases=[Phase("beside", seconds, rate=rate)],
        connections=32,
    )


async def _read(server: Server, reads: Reads, seconds: float) -> Read:
    """Read all there is, again and again, for so long."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        begun = time.perf_counter()
        pages: list[float] = []
        events = 0

        async def reader(number: int) -> None:
            nonlocal events
            partition, start = number, 0
            while (asked := time.perf_counter()) < begun + seconds:
                page = await _page(session, server, partition, start=start, limit=reads.limit)
                events += len(page.items)
                pages.append(time.perf_counter() - asked)
                if page.next is None or not page.items:
                    partition, start = (partition + reads.readers) % PARTITIONS_USUAL, 0
                else:
                    start = page.next

        await asyncio.gather(*(reader(number) for number in range(reads.readers)))
        return Read(events, time.perf_counter() - begun, pages)


async def _page(session: aiohttp.ClientSession, server: Server, partition: int, **query: Any) -> Page:
    url = f"{server.stream_url}/partitions/{partition}/events"
    params = {"from": query["start"], "limit": query["limit"]}
    async with session.get(url, params=params, raise_for_status=True) as answer:
        return _decode(await answer.read())


async def _fill(streams: str, number: int) -> None:
    log, clock = EmbeddedLog(streams), SystemClock()
    await log.open()
    await log.declare(Stream(name=STREAM), now=clock.now())
    for begin in range(0, number, _APPENDED_AT_ONCE):
        lot = range(begin, min(begin + _APPENDED_AT_ONCE, number))
        events = [NewEvent(body=BODY, key=f"c{one % KEYS}") for one in lot]
        await log.append(STREAM, events, now=clock.now())
    await log.close()
