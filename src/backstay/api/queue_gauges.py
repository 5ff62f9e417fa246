"""How full queues are and how long messages wait in them, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from backstay.api.exposition import family
from backstay.domain.standing import Level, QueueStanding
from backstay.web.standings import COUNTED_MAX, QueueGauges


def queue_lines(gauges: QueueGauges, *, now: datetime) -> Iterator[str]:
    yield from family(
        "backstay_queue_messages", "gauge", f"Messages by state, counted no further than {COUNTED_MAX:,}."
    )
    for one in gauges.standings:
        for state, number in _numbers(one):
            yield f'backstay_queue_messages{{queue="{one.queue.name}",state="{state}"}} {number}'
    yield from family("backstay_queue_ready", "gauge", "Messages that can be received now, by priority.")
    yield from _by_level("backstay_queue_ready", gauges.levels, lambda level: level.ready)
    yield from family(
        "backstay_queue_oldest_ready_seconds", "gauge", "How long the oldest of them has been there."
    )
    yield from _by_level(
        "backstay_queue_oldest_ready_seconds",
        gauges.levels,
        lambda level: max(0.0, round((now - level.oldest).total_seconds(), 3)),
    )


def _numbers(one: QueueStanding) -> Iterable[tuple[str, int]]:
    """By the words that lists of queues use."""
    return (
        ("ready", one.ready + one.behind),
        ("locked", one.locked),
        ("scheduled", one.waiting),
        ("deferred", one.deferred),
        ("dead", one.dead),
    )


def _by_level(name: str, levels: Iterable[Level], value: Callable[[Level], float]) -> Iterator[str]:
    for one in levels:
        yield f'{name}{{queue="{one.queue}",priority="{one.priority}"}} {value(one)}'
