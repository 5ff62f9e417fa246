"""What a job's document says about when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from backstay.domain.recurrence.moments import Moment

#: The place of a name is its number: Monday is 0, as in ``datetime``, and weeks begin with it.
WEEK_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Frequency(StrEnum):
    """The unit of an interval."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class MonthlyOccurrence:
    """A weekday of a month: the ``occurrence``-th, counted from the end if negative; None: all of them."""

    week_day: int
    occurrence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Elements in rising order without repetitions; None where the document has none."""

    minutes: tuple[int, ...] | None = None
    hours: tuple[int, ...] | None = None
    week_days: tuple[int, ...] | None = None
    month_days: tuple[int, ...] | None = None
    monthly_occurrences: tuple[MonthlyOccurrence, ...] | None = None
    months: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """``end`` is the last instant at which the job may run. It or ``count`` ends it, whichever is first."""

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    end: Moment | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All that decides when a job runs, but for the instant at which it was created."""

    start: Moment | None = None
    recurrence: Recurrence | None = None
