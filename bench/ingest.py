"""One event per request over HTTP, durable before it is acknowledged, beside plain ASGI and other systems."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from bench.databases import sqlite
from bench.openloop.outcome import Outcome, Tally
from bench.openloop.plan import CONNECTIONS, Load, Phase
from bench.openloop.process import generate_apart
from bench.options import Options
from bench.points import median
from bench.progress import say
from bench.streaming import wrk
from bench.streaming.events import one_event
from bench.streaming.reconcile import Reconciled, reconcile
from bench.streaming.servers import LANES, OURS, PLAIN, serving

#: What is measured of each: all that its connections can ask for, and latencies at rates that do not wait.
RATES: Final = (5_000, 10_000, 20_000)
SECONDS: Final = 10.0
REPEATS: Final = 3
PEER_SECONDS: Final = 10.0

SHORT_RATES: Final = (100,)
SHORT_SECONDS: Final = 0.5
SHORT_REPEATS: Final = 1
SHORT_CONNECTIONS: Final = 8

WARM_UP: Final = "warm-up"
WARM_UP_SECONDS: Final = 1.0

_OURS: Final = "durable: every commit is synced"


class System(NamedTuple):
    """A way of taking events in, and whether they have ids, which are looked for among the ones before."""

    lane: str
    ids: bool

    @property
    def name(self) -> str:
        return f"{self.lane}, with ids" if self.ids else self.lane


class Ingest(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the repeats; ``max_ms`` is the longest of all, and what went wrong is summed up.

    ``lost`` and ``doubled``: of all that this system acknowledged, under whatever load. The ratio is that to
    the throughput of plain ASGI under the same load.
    """

    system: str
    load: str
    requests: int | None = None
    requests_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    not_accepted: int | None = None
    lost: int | None = None
    doubled: int | None = None
    times_plain_asgi: float | None = None
    durability: str | None = None
    packages: str | None = None
    error: str | None = None


class Run(NamedTuple):
    outcome: Outcome
    found: Reconciled


def measure(_stores: Sequence[str], options: Options) -> Iterator[Ingest]:
    """Systems by turns, each time on a fresh log; then the others, each in an environment of its own."""
    systems = [System(lane, ids) for lane in LANES for ids in (False, True) if lane in OURS or not ids]
    runs: dict[System, list[Run]] = {system: [] for system in systems}
    repeats = SHORT_REPEATS if options.short else REPEATS
    for repeat in range(repeats):
        for system in systems:
            say(f"    {system.name}, {repeat + 1} of {repeats}")
            runs[system].append(_run(system, short=options.short))
    plain = runs[System(PLAIN, ids=False)]
    for system in systems:
        yield from _rows(system.name, runs[system], plain)
    if not options.short:
        yield from _by_wrk()
        yield from _peers()


def phases(*, short: bool) -> list[Phase]:
    connections = SHORT_CONNECTIONS if short else CONNECTIONS
    seconds = SHORT_SECONDS if short else SECONDS
    return [
        Phase(WARM_UP, SHORT_SECONDS if short else WARM_UP_SECONDS),
        Phase(f"{connections} at a time", seconds),
        *(Phase(f"{rate:,}/s", seconds, rate=rate) for rate in (SHORT_RATES if short else RATES)),
    ]


def _run(system: System, *, short: bool) -> Run:
    with sqlite() as database, serving(database.folder, system.lane) as server:
        outcome = generate_apart(
            Load(
                host=server.host,
                port=server.port,
                request=one_event(server.address, ids=system.ids),
                phases=phases(short=short),
                connections=SHORT_CONNECTIONS if short else CONNECTIONS,
            )
        )
        return Run(outcome, reconcile(server.streams, outcome.fates))


def _rows(name: str, runs: Sequence[Run], plain: Sequence[Run]) -> Iterator[Ingest]:
    for place, phase in enumerate(runs[0].outcome.phases):
        if phase.name == WARM_UP:
            continue
        tallies = [run.outcome.phases[place] for run in runs]
        speed = _speed(tallies)
        yield Ingest(
            system=name,
            load=phase.name,
            requests=sum(tally.due for tally in tallies),
            requests_per_second=round(speed, 1),
            p50_ms=median(tally.latencies.percentile_ms(50) for tally in tallies),
            p99_ms=median(tally.latencies.percentile_ms(99) for tally in tallies),
            max_ms=max(tally.latencies.max_ms for tally in tallies),
            not_accepted=sum(tally.not_accepted for tally in tallies),
            lost=sum(run.found.lost for run in runs),
            doubled=sum(run.found.doubled for run in runs),
            times_plain_asgi=round(speed / _speed(run.outcome.phases[place] for run in plain), 2),
            durability=_OURS,
        )


def _speed(tallies: Iterable[Tally]) -> float:
    return statistics.median(tally.accepted_per_second for tally in tallies)


def _by_wrk() -> Iterator[Ingest]:
    """The lanes by turns once more, asked by another client, where that is installed."""
    if not wrk.is_installed():
        return
    told: dict[str, list[wrk.Told]] = {lane: [] for lane in LANES}
    for repeat in range(REPEATS):
        for lane in LANES:
            say(f"    {lane}, by wrk, {repeat + 1} of {REPEATS}")
            told[lane].append(_asked_by_wrk(lane))
    plain = _speed_by_wrk(told[PLAIN])
    for lane, runs in told.items():
        speed = _speed_by_wrk(runs)
        yield Ingest(
            system=f"{lane}, by wrk",
            load=f"{CONNECTIONS} at a time",
            requests=sum(run.requests for run in runs),
            requests_per_second=round(speed, 1),
            p50_ms=median(run.p50_ms for run in runs),
            p99_ms=median(run.p99_ms for run in runs),
            not_accepted=sum(run.failed for run in runs),
            times_plain_asgi=round(speed / plain, 2),
            durability=_OURS,
        )


def _asked_by_wrk(lane: str) -> wrk.Told:
    with sqlite() as database, serving(database.folder, lane) as server:
        return wrk.asked_by_wrk(
            server, one_event(server.address), connections=CONNECTIONS, seconds=round(SECONDS)
        )


def _speed_by_wrk(runs: Iterable[wrk.Told]) -> float:
    return statistics.median(run.requests / run.seconds for run in runs)


def _peers() -> Iterator[Ingest]:
    # Imported here: the other benches need none of what it needs.
    from bench.peers.catalogue import INGRESS_PEERS  # noqa: PLC0415
    from bench.peers.run import measure_peers  # noqa: PLC0415

    for peer in INGRESS_PEERS.values():
        say(f"    {peer.name}")
        for row in measure_peers([peer], seconds=PEER_SECONDS):
            yield _peer_row(row)


def _peer_row(row: dict[str, object]) -> Ingest:
    """What a peer's program measured: one event at a time, a hundred, and as many as it is fastest with."""
    found = {
        "system": row["peer"],
        "load": f"{row['in_flight']} at a time" if "in_flight" in row else "",
        "requests": row.get("tasks"),
        "requests_per_second": row.get("tasks_per_second"),
    }
    same = ("p50_ms", "p99_ms", "durability", "packages", "error")
    return msgspec.convert(found | {name: row.get(name) for name in same}, Ingest)
