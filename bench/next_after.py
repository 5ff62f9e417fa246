"""The next occurrence of a job that began ten years ago, by kinds of recurrence. No store is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from backstay.domain.recurrence import Timetable, read_timing
from bench.options import Options
from bench.points import percentile

#: In a year whose leap day is a Monday: no kind still waits for its first occurrence ten years later.
BEGAN: Final = datetime(2016, 1, 31, 12, 25, 30, tzinfo=UTC)
TEN_YEARS: Final = timedelta(days=3_653)
#: Every call asks for another instant, a prime number of seconds later.
APART: Final = timedelta(seconds=7_919)

CALLS: Final = 20_000
READS: Final = 100
SHORT_CALLS: Final = 100

_LAST_FRIDAY: Final = [{"day": "friday", "occurrence": -1}]
_FIFTH_MONDAY: Final = [{"day": "monday", "occurrence": 5}]

KINDS: Final[dict[str, dict[str, Any]]] = {
    "every minute": {"frequency": "minute"},
    "every month": {"frequency": "month"},
    "every 7th minute at minute 0": {"frequency": "minute", "interval": 7, "schedule": {"minutes": [0]}},
    "twice a day": {"frequency": "day", "schedule": {"hours": [5, 17]}},
    "three weekdays of every 2nd week": {
        "frequency": "week",
        "interval": 2,
        "schedule": {"weekDays": ["monday", "wednesday", "friday"], "minutes": [0, 30]},
    },
    "last day of the month": {"frequency": "month", "schedule": {"monthDays": [-1], "hours": [6]}},
    "last Friday of the month": {"frequency": "month", "schedule": {"monthlyOccurrences": _LAST_FRIDAY}},
    "29 February": {"frequency": "month", "schedule": {"months": [2], "monthDays": [29]}},
    "29 February, if it is a Monday": {
        "frequency": "month",
        "schedule": {"months": [2], "monthlyOccurrences": _FIFTH_MONDAY},
    },
}


class NextAfter(msgspec.Struct, frozen=True, kw_only=True):
    """The percentiles are those of a call; ``read_us`` is the median of reading the document before."""

    recurrence: str
    calls: int
    p50_us: float
    p99_us: float
    read_us: float


def measure(_stores: Sequence[str], options: Options) -> Iterator[NextAfter]:
    calls = SHORT_CALLS if options.short else CALLS
    for kind, recurrence in KINDS.items():
        yield measured(kind, recurrence, calls)


def measured(kind: str, recurrence: dict[str, Any], calls: int) -> NextAfter:
    document = {"startTime": BEGAN.isoformat(), "recurrence": recurrence}
    reads = sorted(_seconds(partial(_read, document)) for _ in range(READS))
    table = _read(document)
    moments = [BEGAN + TEN_YEARS + number * APART for number in range(calls)]
    ordered = sorted(_seconds(partial(table.next_after, moment)) for moment in moments)
    return NextAfter(
        recurrence=kind,
        calls=calls,
        p50_us=_micros(percentile(ordered, 50)),
        p99_us=_micros(percentile(ordered, 99)),
        read_us=_micros(percentile(reads, 50)),
    )


def _read(document: dict[str, Any]) -> Timetable:
    return Timetable(read_timing(document), created=BEGAN)


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _micros(seconds: float) -> float:
    return round(seconds * 1_000_000, 1)
