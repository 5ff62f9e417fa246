"""What happened when: from the instants at which events came, and at which they were done."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.points import milliseconds, percentile

#: By the number of an event: an instant, in seconds.
Times = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A part of the time, in seconds since the first event. The backlog is that at its end."""

    begin: float
    end: float
    came: int
    done: int
    backlog: int
    p50_ms: float
    p99_ms: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Course:
    """The whole and its parts. ``drain_seconds``: from the last event that came to the last that was done."""

    buckets: Sequence[Bucket]
    came: int
    done: int
    seconds: float
    drain_seconds: float
    p50_ms: float
    p99_ms: float


def course_of(came: Times, done: Times, *, width: float) -> Course:
    """What was done has come: an event that is in ``done`` alone is a mistake, and raises KeyError."""
    first, last = min(came.values()), max(came.values())
    latencies = {number: at - came[number] for number, at in done.items()}
    end = max(last, *done.values()) if done else last
    return Course(
        buckets=_buckets(came, done, latencies, first=first, seconds=end - first, width=width),
        came=len(came),
        done=len(done),
        seconds=end - first,
        drain_seconds=end - last,
        p50_ms=_percentile_ms(latencies.values(), 50),
        p99_ms=_percentile_ms(latencies.values(), 99),
    )


def _buckets(
    came: Times, done: Times, latencies: Times, *, first: float, seconds: float, width: float
) -> list[Bucket]:
    arrivals: dict[int, int] = defaultdict(int)
    ends: dict[int, list[float]] = defaultdict(list)
    for at in came.values():
        arrivals[int((at - first) / width)] += 1
    for number, at in done.items():
        ends[int((at - first) / width)].append(latencies[number])
    buckets, backlog = [], 0
    for place in range(math.floor(seconds / width) + 1):
        backlog += arrivals[place] - len(ends[place])
        buckets.append(
            Bucket(
                begin=place * width,
                end=(place + 1) * width,
                came=arrivals[place],
                done=len(ends[place]),
                backlog=backlog,
                p50_ms=_percentile_ms(ends[place], 50),
                p99_ms=_percentile_ms(ends[place], 99),
            )
        )
    return buckets


def _percentile_ms(latencies: Iterable[float], percent: int) -> float:
    ordered = sorted(latencies)
    return milliseconds(percentile(ordered, percent)) if ordered else 0.0
