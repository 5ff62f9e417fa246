"""A steady load over HTTP, then five seconds of five times as much: what is dropped, late or lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bench.databases import sqlite
from bench.openloop.outcome import Outcome, Tally
from bench.openloop.plan import CONNECTIONS, Load, Phase
from bench.openloop.process import generate_apart
from bench.options import Options
from bench.progress import say
from bench.streaming.events import one_event
from bench.streaming.reconcile import Reconciled, reconcile
from bench.streaming.servers import FAST, serving
from bench.usage import memory_mib_max

STEADY_RATE: Final = 10_000
SPIKE_RATE: Final = 50_000
SPIKE_SECONDS: Final = 5.0

SHORT_STEADY_RATE: Final = 100
SHORT_SPIKE_RATE: Final = 500
SHORT_SPIKE_SECONDS: Final = 0.5

WHOLE: Final = "all of it"


class Spike(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies count from the instant at which a request was due.

    ``sent_late_p99_ms``: the part of it before the sending, when no connection was free. ``drain_seconds``:
    from the end of the phase to the last answer to a request of it. The last row says what is in the stream.
    """

    lane: str
    phase: str
    seconds: float
    requests: int
    accepted: int
    refused: int
    failed: int
    timed_out: int
    accepted_per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    sent_late_p99_ms: float | None = None
    drain_seconds: float | None = None
    lost: int | None = None
    doubled: int | None = None
    unsaid: int | None = None
    server_mib_max: float | None = None


def measure(_stores: Sequence[str], options: Options) -> Iterator[Spike]:
    phases = _phases(options)
    say(f"    {', then '.join(f'{phase.name} for {phase.seconds:g} s' for phase in phases)}: {FAST}")
    with sqlite() as database, serving(database.folder, FAST) as server:
        outcome = generate_apart(
            Load(
                host=server.host,
                port=server.port,
                request=one_event(server.address, ids=True),
                phases=phases,
                connections=CONNECTIONS,
            )
        )
        memory = memory_mib_max(server.pid)
        say("    reading the stream again")
        found = reconcile(server.streams, outcome.fates)
    for phase in outcome.phases:
        yield _row(FAST, phase)
    yield _whole(FAST, outcome, found, memory)


def _phases(options: Options) -> list[Phase]:
    steady = SHORT_STEADY_RATE if options.short else STEADY_RATE
    spike = SHORT_SPIKE_RATE if options.short else SPIKE_RATE
    return [
        Phase(f"{steady:,}/s", options.seconds, rate=steady),
        Phase(f"{spike:,}/s", SHORT_SPIKE_SECONDS if options.short else SPIKE_SECONDS, rate=spike),
    ]


def _row(lane: str, phase: Tally) -> Spike:
    return Spike(
        lane=lane,
        phase=phase.name,
        seconds=phase.seconds,
        requests=phase.due,
        accepted=phase.accepted,
        refused=phase.refused.total(),
        failed=phase.failed.total(),
        timed_out=phase.timed_out,
        accepted_per_second=round(phase.accepted_per_second, 1),
        p50_ms=phase.latencies.percentile_ms(50),
        p99_ms=phase.latencies.percentile_ms(99),
        max_ms=phase.latencies.max_ms,
        sent_late_p99_ms=phase.lateness.percentile_ms(99),
        drain_seconds=round(phase.drain_seconds, 2),
    )


def _whole(lane: str, outcome: Outcome, found: Reconciled, memory: float | None) -> Spike:
    seconds = max(phase.begins_at + phase.seconds + phase.drain_seconds for phase in outcome.phases)
    return Spike(
        lane=lane,
        phase=WHOLE,
        seconds=round(seconds, 1),
        requests=len(outcome.fates),
        accepted=outcome.accepted,
        refused=sum(phase.refused.total() for phase in outcome.phases),
        failed=sum(phase.failed.total() for phase in outcome.phases),
        timed_out=sum(phase.timed_out for phase in outcome.phases),
        accepted_per_second=round(outcome.accepted / seconds, 1),
        lost=found.lost,
        doubled=found.doubled,
        unsaid=found.unsaid,
        server_mib_max=memory,
    )
