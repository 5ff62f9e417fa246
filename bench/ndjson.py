"""Events over HTTP as lines of JSON, many in one request, each durable before the request is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from bench.databases import sqlite
from bench.openloop.plan import Load, Phase
from bench.openloop.process import generate_apart
from bench.options import Options
from bench.progress import say
from bench.streaming.events import many_events
from bench.streaming.reconcile import reconcile
from bench.streaming.servers import OURS, serving

LINES: Final = (100, 1_000, 10_000)
CONNECTIONS: Final = 4
SECONDS: Final = 5.0
WARM_UP_SECONDS: Final = 1.0

SHORT_LINES: Final = (10,)
SHORT_SECONDS: Final = 0.3


class Sends(NamedTuple):
    lane: str
    lines: int
    ids: bool


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of a request; each connection sends the next one when it has its answer."""

    lane: str
    lines_each: int
    ids: bool
    connections: int
    events: int
    events_per_second: float
    p50_ms: float
    p99_ms: float
    not_accepted: int
    lost: int
    doubled: int


def measure(_stores: Sequence[str], options: Options) -> Iterator[Lines]:
    for lane in OURS:
        for lines in SHORT_LINES if options.short else LINES:
            for ids in (False, True):
                say(f"    {lane}: {lines:,} lines each, {'with' if ids else 'without'} ids")
                yield _measured(Sends(lane, lines, ids), short=options.short)


def _measured(sends: Sends, *, short: bool) -> Lines:
    warm_up, seconds = (SHORT_SECONDS, SHORT_SECONDS) if short else (WARM_UP_SECONDS, SECONDS)
    with sqlite() as database, serving(database.folder, sends.lane) as server:
        outcome = generate_apart(
            Load(
                host=server.host,
                port=server.port,
                request=many_events(server.address, sends.lines, ids=sends.ids),
                phases=[Phase("warm-up", warm_up), Phase("measured", seconds)],
                connections=CONNECTIONS,
            )
        )
        found = reconcile(server.streams, outcome.fates, lines=sends.lines)
    measured = outcome.phase("measured")
    return Lines(
        lane=sends.lane,
        lines_each=sends.lines,
        ids=sends.ids,
        connections=CONNECTIONS,
        events=measured.accepted * sends.lines,
        events_per_second=round(measured.accepted_per_second * sends.lines, 1),
        p50_ms=measured.latencies.percentile_ms(50),
        p99_ms=measured.latencies.percentile_ms(99),
        not_accepted=outcome.not_accepted,
        lost=found.lost,
        doubled=found.doubled,
    )
