"""The arithmetic of measurements: percentiles, medians, spreads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Point:
    """One run: so many tasks in so many seconds, and how long each of them took."""

    in_flight: int
    seconds: float
    #: In seconds, in rising order.
    latencies: Sequence[float]

    @property
    def tasks(self) -> int:
        return len(self.latencies)

    @property
    def per_second(self) -> float:
        return self.tasks / self.seconds

    @property
    def p50_ms(self) -> float:
        return milliseconds(percentile(self.latencies, 50))

    @property
    def p99_ms(self) -> float:
        return milliseconds(percentile(self.latencies, 99))


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """A point as a row of a table."""

    store: str
    in_flight: int
    tasks: int
    tasks_per_second: float
    p50_ms: float
    p99_ms: float


def throughput(store: str, point: Point) -> Throughput:
    return Throughput(
        store=store,
        in_flight=point.in_flight,
        tasks=point.tasks,
        tasks_per_second=round(point.per_second, 1),
        p50_ms=point.p50_ms,
        p99_ms=point.p99_ms,
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """Several runs of one point: the median of each figure, and how far the throughput varied."""

    tasks: int
    per_second: float
    p50_ms: float
    p99_ms: float
    #: From the slowest run to the fastest, as a share of the median.
    spread_percent: float


def summary_of(points: Sequence[Point]) -> Summary:
    speeds = [point.per_second for point in points]
    middle = statistics.median(speeds)
    return Summary(
        tasks=sum(point.tasks for point in points),
        per_second=round(middle, 1),
        p50_ms=median(point.p50_ms for point in points),
        p99_ms=median(point.p99_ms for point in points),
        spread_percent=round((max(speeds) - min(speeds)) / middle * 100, 1),
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest of ``ordered`` that at least ``percent`` of a hundred do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
