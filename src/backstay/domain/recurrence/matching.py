"""The instants that a schedule matches.

A schedule matches whole minutes. The frequency divides time into periods, of which every interval-th counts,
beginning with the one that holds the *anchor*: the start, or the creation where there is none. Within such a
period the elements choose; an element that is larger than the period leaves some of the periods out, and what
is missing below the given ones comes from the anchor.

    minute, hour       a cycle of minutes
    day, week          a cycle of days, times of day
    month, year        a cycle of months, days of such a month, times of day

Minutes and days are numbered from the beginning of 1970, months from that of year 0.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import date
from math import lcm
from typing import Final, Protocol

from backstay.domain.instants import instant
from backstay.domain.recurrence.cycle import Cycle
from backstay.domain.recurrence.definition import Frequency, Schedule
from backstay.domain.recurrence.grid import MINUTE
from backstay.domain.recurrence.months import Choice, DaysOfMonths, day_number

DAY_MINUTES: Final = 1_440


class Numbers(Protocol):
    """Some of all numbers: minutes, days or months."""

    def at_or_after(self, number: int) -> int | None: ...

    def count(self, low: int, high: int) -> int:
        """How many of them are not below ``low``, and below ``high``."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Every one of ``minutes``, as an instant in microseconds."""

    minutes: Numbers

    def after(self, since: int) -> int | None:
        """The first match after this instant; None if there is none any more."""
        minute = self.minutes.at_or_after(since // MINUTE + 1)
        return None if minute is None else minute * MINUTE

    def count(self, since: int, until: int) -> int:
        """How many matches there are after ``since`` and not after ``until``."""
        return self.minutes.count(since // MINUTE + 1, until // MINUTE + 1)


@dataclass(frozen=True, slots=True)
class DaysAndTimes:
    """On each of ``days``, each of ``times`` (minutes of the day, rising)."""

    days: Numbers
    times: tuple[int, ...]

    def at_or_after(self, minute: int) -> int | None:
        today, time = divmod(minute, DAY_MINUTES)
        place = bisect_left(self.times, time)
        # Nothing is left of a day whose last time has passed.
        wanted = today if place < len(self.times) else today + 1
        day = self.days.at_or_after(wanted)
        if day is None:
            return None
        return day * DAY_MINUTES + self.times[place if day == today else 0]

    def count(self, low: int, high: int) -> int:
        whole = self.days.count(low // DAY_MINUTES, high // DAY_MINUTES) * len(self.times)
        return whole - self._before(low) + self._before(high)

    def _before(self, minute: int) -> int:
        """How many there are of the day of this minute that lie before it."""
        day, time = divmod(minute, DAY_MINUTES)
        return bisect_left(self.times, time) if self.days.count(day, day + 1) else 0


def matching(frequency: Frequency, interval: int, schedule: Schedule, *, anchor: int) -> Matching:
    """What ``schedule`` matches, in the past of ``anchor`` (in microseconds) too: begin to look at it."""
    minute = anchor // MINUTE
    match frequency:
        case Frequency.MINUTE:
            return Matching(_minutes(interval, schedule, minute))
        case Frequency.HOUR:
            return Matching(_hours(interval, schedule, minute))
        case _:
            days = _days(frequency, interval, schedule, instant(anchor).date())
            return Matching(DaysAndTimes(days, times_of_day(schedule, minute)))


def times_of_day(schedule: Schedule, minute: int) -> tuple[int, ...]:
    """Hours x minutes; without minutes that of ``minute``, with minutes alone every hour."""
    hour_now, minute_now = divmod(minute % DAY_MINUTES, 60)
    minutes = schedule.minutes or (minute_now,)
    hours = schedule.hours or ((hour_now,) if schedule.minutes is None else tuple(range(24)))
    return tuple(hour * 60 + minute for hour in hours for minute in minutes)


def _minutes(interval: int, schedule: Schedule, minute: int) -> Cycle:
    hours = frozenset(schedule.hours or range(24))
    minutes = frozenset(schedule.minutes or range(60))
    length = lcm(interval, DAY_MINUTES)
    times = ((offset, divmod((minute + offset) % DAY_MINUTES, 60)) for offset in range(0, length, interval))
    return Cycle(
        minute, length, tuple(at for at, (hour, of_hour) in times if hour in hours and of_hour in minutes)
    )


def _hours(interval: int, schedule: Schedule, minute: int) -> Cycle:
    hour = minute // 60
    hours = frozenset(schedule.hours or range(24))
    length = lcm(interval, 24)
    visited = [offset for offset in range(0, length, interval) if (hour + offset) % 24 in hours]
    minutes = schedule.minutes or (minute % 60,)
    return Cycle(hour * 60, length * 60, tuple(offset * 60 + at for offset in visited for at in minutes))


def _days(frequency: Frequency, interval: int, schedule: Schedule, day: date) -> Numbers:
    match frequency:
        case Frequency.MONTH:
            return DaysOfMonths(_months(interval, schedule, day), _choice(schedule, day))
        case Frequency.YEAR:
            return DaysOfMonths(_years(interval, schedule, day), _choice(schedule, day))
        case Frequency.WEEK:
            monday = day_number(day) - day.weekday()
            return Cycle(monday, 7 * interval, schedule.week_days or (day.weekday(),))
        case _:
            return Cycle(day_number(day), interval, (0,))


def _months(interval: int, schedule: Schedule, day: date) -> Cycle:
    origin = day.year * 12 + day.month - 1
    if schedule.months is None:
        return Cycle(origin, interval, (0,))
    length = lcm(interval, 12)
    visited = (
        offset for offset in range(0, length, interval) if (origin + offset) % 12 + 1 in schedule.months
    )
    return Cycle(origin, length, tuple(visited))


def _years(interval: int, schedule: Schedule, day: date) -> Cycle:
    months = schedule.months or (day.month,)
    return Cycle(day.year * 12, 12 * interval, tuple(month - 1 for month in months))


def _choice(schedule: Schedule, day: date) -> Choice:
    if schedule.monthly_occurrences is not None:
        return Choice(week_days=schedule.monthly_occurrences)
    return Choice(month_days=schedule.month_days or (day.day,))
