"""Messages through other libraries, then here: the ratios come from one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from bench.beside_peers import OURS
from bench.databases import DATABASES, Database
from bench.letters import BACKLOG_PER_SECOND, IDLE_MESSAGES_PER_SECOND
from bench.load import Size
from bench.options import Options
from bench.progress import say
from bench.queues import Rate, idle_rate, receive_rate, send_rate

#: Those that ours is compared with are as durable; the first runs on one of our stores.
PROCRASTINATE: Final = "procrastinate"
CELERY: Final = "celery-synced"

SECONDS: Final = 10.0
SHORT_SECONDS: Final = 0.5

#: Senders, and messages that a receive asks for. Others are measured with one and with a hundred at a time.
AT_A_TIME: Final = (1, 100, 1_000)
SENDS_PER_SECOND: Final = {1: 100, 100: 2_000, 1_000: 5_000}


class QueuePeer(msgspec.Struct, frozen=True, kw_only=True):
    """A system at a point.

    The ratios are those of our rate to another's or, where there is no rate, of its p50 to ours: above 1 ours
    is the faster one.
    """

    peer: str
    store: str
    work: str = ""
    at_a_time: int | None = None
    messages: int | None = None
    messages_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    #: With as many at a time, and at its best.
    times_procrastinate: float | None = None
    times_procrastinate_best: float | None = None
    times_celery: float | None = None
    times_celery_best: float | None = None
    durability: str | None = None
    packages: str | None = None
    error: str | None = None


def measure(stores: Sequence[str], options: Options) -> Iterator[QueuePeer]:
    seconds = SHORT_SECONDS if options.short else SECONDS
    others = []
    for other in _peers(stores, seconds):
        others.append(other)
        yield other
    for store in stores:
        with DATABASES[store]() as database:
            say(f"  {OURS} on {database.name}")
            for rate in _ours(database, seconds):
                yield compared(rate, others)


def _peers(stores: Sequence[str], seconds: float) -> Iterator[QueuePeer]:
    # Imported here: the other benches need none of what it needs.
    from bench.peers.catalogue import QUEUE_PEERS  # noqa: PLC0415
    from bench.peers.run import measure_peers, on_stores  # noqa: PLC0415

    for peer in on_stores(QUEUE_PEERS, stores):
        say(f"  {peer.name}")
        for row in measure_peers([peer], seconds=seconds):
            yield msgspec.convert(row | {"store": peer.store.lower()}, QueuePeer)


def _ours(database: Database, seconds: float) -> Iterator[Rate]:
    for senders in AT_A_TIME:
        yield send_rate(database, Size(max(senders, round(seconds * SENDS_PER_SECOND[senders])), senders))
    for batch in AT_A_TIME:
        yield receive_rate(database, batch, round(seconds * BACKLOG_PER_SECOND))
    yield idle_rate(database, round(seconds * IDLE_MESSAGES_PER_SECOND))


def compared(ours: Rate, others: Sequence[QueuePeer]) -> QueuePeer:
    """Our figures beside those of the others that are as durable."""
    return QueuePeer(
        peer=OURS,
        **msgspec.structs.asdict(ours),
        times_procrastinate=_times(ours, others, PROCRASTINATE, at_a_time=ours.at_a_time),
        times_procrastinate_best=_times(ours, others, PROCRASTINATE),
        times_celery=_times(ours, others, CELERY, at_a_time=ours.at_a_time),
        times_celery_best=_times(ours, others, CELERY),
        durability="durable: every commit is synced",
    )


def _times(
    ours: Rate, others: Sequence[QueuePeer], peer: str, *, at_a_time: int | None = None
) -> float | None:
    """How many times as fast as ``peer`` ours is at this work: at its best, or with as many ``at_a_time``."""
    theirs = [
        other
        for other in others
        # Several messages in one call are a way of sending, too.
        if other.peer == peer and other.work.startswith(ours.work) and at_a_time in (None, other.at_a_time)
    ]
    if ours.messages_per_second is None:
        waits = [other.p50_ms for other in theirs if other.p50_ms]
        return round(min(waits) / ours.p50_ms, 2) if waits else None
    rates = [other.messages_per_second for other in theirs if other.messages_per_second]
    return round(ours.messages_per_second / max(rates), 2) if rates else None
