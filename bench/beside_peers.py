"""Five steps in other libraries, then here on the same stores: the ratios come from one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from bench.databases import DATABASES, Database
from bench.five_steps import five_steps
from bench.load import Size, in_fresh_loop
from bench.options import Options
from bench.points import Summary, summary_of
from bench.progress import say

#: The peer that ours is compared with: it runs on the same stores and is as durable.
YARDSTICK: Final = "dbos"
OURS: Final = "backstay"

SECONDS: Final = 10.0
REPEATS: Final = 3
#: Beside the numbers in flight at which the peers were measured.
IN_FLIGHT_MOST: Final = 4_000

SHORT_SECONDS: Final = 1.0
SHORT_REPEATS: Final = 1
SHORT_IN_FLIGHT_MOST: Final = 100


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A system at a point. Both ratios are those of our throughput to DBOS on the same store."""

    peer: str
    store: str
    in_flight: int | None = None
    tasks_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    #: With as many tasks in flight, and at its best.
    times_dbos: float | None = None
    times_dbos_best: float | None = None
    durability: str | None = None
    packages: str | None = None
    error: str | None = None


def measure(stores: Sequence[str], options: Options) -> Iterator[Peer]:
    others = []
    for other in _peers(stores, short=options.short):
        others.append(other)
        yield other
    for store in stores:
        with DATABASES[store]() as database:
            yield from _ours(database, others, short=options.short)


def _peers(stores: Sequence[str], *, short: bool) -> Iterator[Peer]:
    # Imported here: the other benches need none of what it needs.
    from bench.peers.catalogue import PEERS  # noqa: PLC0415
    from bench.peers.run import measure_peers, on_stores  # noqa: PLC0415

    for peer in on_stores(PEERS, stores):
        if short and not peer.name.startswith(YARDSTICK):
            continue
        say(f"  {peer.name}")
        for row in measure_peers([peer], seconds=SHORT_SECONDS if short else SECONDS):
            yield msgspec.convert(row | {"store": peer.store.lower()}, Peer)


def _ours(database: Database, others: Sequence[Peer], *, short: bool) -> Iterator[Peer]:
    repeats = SHORT_REPEATS if short else REPEATS
    most = SHORT_IN_FLIGHT_MOST if short else IN_FLIGHT_MOST
    for in_flight in sorted({other.in_flight for other in others if other.in_flight} | {most}):
        say(f"  {OURS} on {database.name}, {in_flight:,} in flight")
        size = _size(in_flight, short=short)
        summary = summary_of([in_fresh_loop(five_steps(database.new_store(), size)) for _ in range(repeats)])
        yield _compared(database.name, in_flight, summary, others)


def _size(in_flight: int, *, short: bool) -> Size:
    """Enough tasks for some seconds, and each client has a few."""
    return Size(2 * in_flight if short else max(300, min(50 * in_flight, 16_000)), in_flight)


def _compared(store: str, in_flight: int, ours: Summary, others: Iterable[Peer]) -> Peer:
    speeds = {
        other.in_flight: other.tasks_per_second
        for other in others
        if other.peer.startswith(YARDSTICK) and other.store == store and other.tasks_per_second
    }
    return Peer(
        peer=OURS,
        store=store,
        in_flight=in_flight,
        tasks_per_second=ours.per_second,
        p50_ms=ours.p50_ms,
        p99_ms=ours.p99_ms,
        times_dbos=_ratio(ours.per_second, speeds.get(in_flight)),
        times_dbos_best=_ratio(ours.per_second, max(speeds.values(), default=None)),
        durability="durable: every commit is synced",
    )


def _ratio(ours: float, theirs: float | None) -> float | None:
    return None if theirs is None else round(ours / theirs, 2)
