"""A start and whole intervals from there: when a job runs that has no schedule.

Instants are microseconds since 1970 here, as in ``domain.instants``: numbers do not overflow.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import MAXYEAR, datetime
from typing import Final

from backstay.domain.instants import instant, micros
from backstay.domain.recurrence.definition import Frequency

MINUTE: Final = 60_000_000
DAY: Final = 1_440 * MINUTE

#: Units that always have the same length.
_STEPS: Final = {
    Frequency.MINUTE: MINUTE,
    Frequency.HOUR: 60 * MINUTE,
    Frequency.DAY: DAY,
    Frequency.WEEK: 7 * DAY,
}
_MONTHS: Final = {Frequency.MONTH: 1, Frequency.YEAR: 12}


@dataclass(frozen=True, slots=True)
class Grid:
    """``start + n * step``."""

    start: int
    step: int

    def after(self, since: int) -> int | None:
        """The first instant of the grid after this one."""
        return self.start + self._through(since) * self.step

    def count(self, since: int, until: int) -> int:
        """How many instants of the grid there are after ``since`` and not after ``until``."""
        return self._through(until) - self._through(since)

    def _through(self, moment: int) -> int:
        """How many there are up to this instant."""
        return max(0, (moment - self.start) // self.step + 1)


@dataclass(frozen=True, slots=True)
class MonthGrid:
    """``start + n * months``, on the last day of a month that is too short for the start's.

    Always counted from the start: the 31st comes back after a short month.
    """

    start: datetime
    months: int

    def after(self, since: int) -> int | None:
        """The first instant of the grid after this one; None past the last year of the calendar."""
        return self._due(self._through(since))

    def count(self, since: int, until: int) -> int:
        """How many instants of the grid there are after ``since`` and not after ``until``."""
        return self._through(until) - self._through(since)

    def _through(self, moment: int) -> int:
        """How many there are up to this instant."""
        if moment < micros(self.start):
            return 0
        now = instant(moment)
        number = ((now.year - self.start.year) * 12 + now.month - self.start.month) // self.months
        # The last one that lies in this month or before it may have passed; the one after has not.
        due = self._due(number)
        return number if due is None or due > moment else number + 1

    def _due(self, number: int) -> int | None:
        year, month = divmod(self.start.year * 12 + self.start.month - 1 + number * self.months, 12)
        if year > MAXYEAR:
            return None
        day = min(self.start.day, monthrange(year, month + 1)[1])
        return micros(self.start.replace(year=year, month=month + 1, day=day))


@dataclass(frozen=True, slots=True)
class Drift:
    """An interval after each start, whenever that was: how a job runs that was given no start."""

    frequency: Frequency
    interval: int

    def after(self, since: int) -> int | None:
        return grid(self.frequency, self.interval, start=since).after(since)

    def count(self, since: int, until: int) -> int:
        """Of those that have not started it is not known when they would have been due: one at most is."""
        due = self.after(since)
        return int(due is not None and due <= until)


def grid(frequency: Frequency, interval: int, *, start: int) -> Grid | MonthGrid:
    """All instants at whole intervals from ``start``."""
    step = _STEPS.get(frequency)
    if step is not None:
        return Grid(start, interval * step)
    return MonthGrid(instant(start), interval * _MONTHS[frequency])
