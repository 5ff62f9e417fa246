"""Days of months: which days a schedule chooses, in which months it looks."""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap
from dataclasses import dataclass, field
from datetime import MAXYEAR, date
from math import gcd
from typing import Final

from backstay.domain.recurrence.cycle import Cycle
from backstay.domain.recurrence.definition import MonthlyOccurrence

#: After so many months weekdays and leap days repeat: 400 years are whole weeks.
CALENDAR_MONTHS: Final = 4_800

_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - _EPOCH
_LAST_MONTH: Final = MAXYEAR * 12 + 11
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 1


def day_number(day: date) -> int:
    """Days since the beginning of 1970."""
    return day.toordinal() - _EPOCH


@dataclass(frozen=True, slots=True)
class Choice:
    """Days of a month: by number, from the end if negative, or by weekday."""

    month_days: tuple[int, ...] = ()
    week_days: tuple[MonthlyOccurrence, ...] = ()
    _known: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def days(self, month: int, first: int) -> tuple[int, ...]:
        """Those of ``month``, rising; ``first`` is the number of its first day."""
        # Months differ in their length and their first weekday: 28 kinds. 1970 began with a Thursday.
        kind = (_length(month), (first + 3) % 7)
        days = self._known.get(kind)
        if days is None:
            days = self._known[kind] = tuple(sorted(self._numbered(kind[0]) | self._named(*kind)))
        return days

    def _numbered(self, length: int) -> set[int]:
        counted = {day if day > 0 else length + 1 + day for day in self.month_days}
        return {day for day in counted if 1 <= day <= length}

    def _named(self, length: int, first_week_day: int) -> set[int]:
        found: set[int] = set()
        for one in self.week_days:
            days = range((one.week_day - first_week_day) % 7 + 1, length + 1, 7)
            if one.occurrence is None:
                found.update(days)
            elif abs(one.occurrence) <= len(days):
                found.add(days[one.occurrence - 1 if one.occurrence > 0 else one.occurrence])
        return found


@dataclass(frozen=True, slots=True)
class DaysOfMonths:
    """In each of ``months``, the days that ``choice`` finds there."""

    months: Cycle
    choice: Choice

    def at_or_after(self, day: int) -> int | None:
        """The first such day; None if the calendar ends, or has repeated itself, before there is one."""
        if day > _LAST_DAY:
            return None
        month = self._month_from(day)
        for _ in range(self._visits_max()):
            if month is None or month > _LAST_MONTH:
                return None
            first = _first_day(month)
            days = self.choice.days(month, first)
            place = bisect_left(days, day - first + 1)
            if place < len(days):
                return first + days[place] - 1
            month = self.months.at_or_after(month + 1)
        return None

    def count(self, low: int, high: int) -> int:
        """How many such days are not before ``low``, and before ``high``. Takes a moment for each month."""
        if low >= high:
            return 0
        last = date.fromordinal(min(high, _LAST_DAY) + _EPOCH)
        beyond = last.year * 12 + last.month
        found, month = 0, self._month_from(low)
        while month is not None and month < beyond:
            first = _first_day(month)
            days = self.choice.days(month, first)
            found += bisect_left(days, high - first + 1) - bisect_left(days, low - first + 1)
            month = self.months.at_or_after(month + 1)
        return found

    def _month_from(self, day: int) -> int | None:
        wanted = date.fromordinal(day + _EPOCH)
        return self.months.at_or_after(wanted.year * 12 + wanted.month - 1)

    def _visits_max(self) -> int:
        """Visits until the same months come again, and the one in which the search begins."""
        rounds = CALENDAR_MONTHS // gcd(self.months.length, CALENDAR_MONTHS)
        return rounds * len(self.months.offsets) + 1


def _first_day(month: int) -> int:
    return day_number(date(month // 12, month % 12 + 1, 1))


def _length(month: int) -> int:
    year, place = divmod(month, 12)
    return _LENGTHS[place] + (place == _FEBRUARY and isleap(year))
