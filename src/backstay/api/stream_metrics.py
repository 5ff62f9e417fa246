"""How streams stand, as Prometheus reads it: what went in and out here, and how far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from backstay.api.exposition import family
from backstay.streamroom import StreamView

#: So many lines of one name; how many are left out is told.
SERIES_MAX: Final = 2_000


class Metric(NamedTuple):
    """Lines of one name."""

    name: str
    kind: str
    described: str
    lines: Sequence[tuple[str, float]]


def stream_exposition(
    streams: Sequence[StreamView],
    *,
    appended: Mapping[str, int],
    processed: Mapping[tuple[str, str], int],
    now: datetime,
) -> Iterator[str]:
    """The lines of the page that are about streams."""
    for metric in (*_flow(appended, processed), *_lag(streams, now), _quarantine(streams)):
        yield from _shown(metric)


def _flow(appended: Mapping[str, int], processed: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    lines = [(_labels(stream=stream), number) for stream, number in sorted(appended.items())]
    yield Metric("appended_total", "counter", "Events that this process appended.", lines)
    lines = [(_labels(stream=stream, group=group), n) for (stream, group), n in sorted(processed.items())]
    yield Metric("processed_total", "counter", "Events that this process finished for a group.", lines)


def _lag(streams: Sequence[StreamView], now: datetime) -> Iterator[Metric]:
    # Of readers that share a partition the one that is furthest behind.
    slowest = {
        _labels(stream=view.name, group=one.group, partition=one.partition): one
        for view in streams
        for one in sorted(view.groups, key=lambda one: (one.group, one.partition, one.lag))
    }
    found = [*slowest.items()]
    yield Metric(
        "lag_events",
        "gauge",
        "Events that a group has yet to pass.",
        [(labels, one.lag) for labels, one in found],
    )
    yield Metric(
        "lag_seconds",
        "gauge",
        "How long the first event that a group has yet to pass has been there.",
        [(labels, one.lag_seconds) for labels, one in found],
    )
    yield Metric(
        "checkpoint_age_seconds",
        "gauge",
        "How long ago a group's checkpoint was written.",
        [(labels, max(0.0, (now - one.checkpoint_at).total_seconds())) for labels, one in found],
    )


def _quarantine(streams: Sequence[StreamView]) -> Metric:
    lines = [
        (_labels(stream=view.name, group=group), number)
        for view in streams
        for group, number in sorted(view.quarantined.items())
    ]
    return Metric("quarantined", "gauge", "Events that a group set aside.", lines)


def _shown(metric: Metric) -> Iterator[str]:
    if not metric.lines:
        return
    name = f"backstay_stream_{metric.name}"
    left_out = len(metric.lines) - SERIES_MAX
    more = f" {left_out} more are left out." if left_out > 0 else ""
    yield from family(name, metric.kind, f"{metric.described}{more}")
    for labels, number in metric.lines[:SERIES_MAX]:
        yield f"{name}{labels} {number:.15g}"


def _labels(**labels: object) -> str:
    # Names of streams and groups hold nothing that would have to be escaped.
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
