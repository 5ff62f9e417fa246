"""What happened when: from the instants at which events came, and at which they were done."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.openloop.outcome import Tally
from bench.points import milliseconds, percentile

#: What a row is called that tells of the whole time.
WHOLE: Final = "all of it"

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
    p95_ms: float
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
    p95_ms: float
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
        p95_ms=_percentile_ms(latencies.values(), 95),
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
                p95_ms=_percentile_ms(ends[place], 95),
                p99_ms=_percentile_ms(ends[place], 99),
            )
        )
    return buckets


def _percentile_ms(latencies: Iterable[float], percent: int) -> float:
    ordered = sorted(latencies)
    return milliseconds(percentile(ordered, percent)) if ordered else 0.0


# As a row of a table


def part_of(bucket: Bucket) -> dict[str, Any]:
    """What happened in a part of the time."""
    return {
        "seconds": f"{bucket.begin:g} to {bucket.end:g}",
        "incoming_per_second": round(bucket.came / bucket.seconds, 1),
        "completed_per_second": round(bucket.done / bucket.seconds, 1),
        "backlog": bucket.backlog,
        **_latencies(bucket),
    }


def whole_of(course: Course, phase: Tally) -> dict[str, Any]:
    """The same of all of it, with what became of the requests: there the backlog is the greatest."""
    return {
        "seconds": WHOLE,
        "incoming_per_second": round(phase.accepted_per_second, 1),
        "completed_per_second": round(course.done / course.seconds, 1),
        "backlog": max(bucket.backlog for bucket in course.buckets),
        **_latencies(course),
        "accept_p99_ms": phase.latencies.percentile_ms(99),
        "not_accepted": phase.not_accepted,
        "drain_seconds": round(course.drain_seconds, 2),
    }


def _latencies(of: Bucket | Course) -> dict[str, float]:
    return {"p50_ms": of.p50_ms, "p95_ms": of.p95_ms, "p99_ms": of.p99_ms}
