"""When one job runs: its first occurrence, and the next one after any instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from backstay.domain.instants import instant, micros, micros_in
from backstay.domain.recurrence.definition import Recurrence, Timing
from backstay.domain.recurrence.grid import Drift, grid
from backstay.domain.recurrence.matching import matching
from backstay.domain.recurrence.moments import Moment
from backstay.domain.recurrence.wording import describe
from backstay.errors import InvalidJob

#: How long after its creation a job runs that is to run immediately, unless told otherwise.
IMMEDIATELY: Final = timedelta(seconds=20)

_LAST: Final = micros(datetime.max.replace(tzinfo=UTC))


class _Rule(Protocol):
    def after(self, since: int) -> int | None: ...

    def count(self, since: int, until: int) -> int: ...


class Timetable:
    """The occurrences of a job that was created, or last replaced, at ``created``.

    | start     | no recurrence      | no schedule                         | schedule                     |
    |-----------|--------------------|-------------------------------------|------------------------------|
    | none      | once, immediately  | immediately, then an interval after | immediately, then each match |
    |           |                    | each start                          |                              |
    | past      | once, immediately  | the grid from the start, from now   | each match from now          |
    | now, later| once, at the start | the grid from the start             | each match from the start    |

    Raises InvalidJob for a schedule that never matches.
    """

    def __init__(self, timing: Timing, *, created: datetime, delay: timedelta = IMMEDIATELY) -> None:
        """``delay`` is how long after ``created`` immediately is."""
        self.timing = timing
        self._created = created
        recurrence, start = timing.recurrence, timing.start
        now = micros(created)
        self._end = _LAST
        self._count: int | None = 1
        self._rule: _Rule | None = None
        if recurrence is not None:
            self._end = micros(recurrence.end.at) if recurrence.end is not None else _LAST
            self._count = recurrence.count
            self._rule = _rule(recurrence, micros(start.at) if start is not None else None, created=now)
        self._first = self._within(self._begin(now, now + micros_in(delay)))

    def _begin(self, now: int, immediately: int) -> int | None:
        if self.timing.start is None:
            return immediately
        start = micros(self.timing.start.at)
        if self._rule is None:
            return start if start >= now else immediately
        # What is not before an instant is after the one a microsecond earlier.
        return self._rule.after(max(now, start) - 1)

    @property
    def first(self) -> datetime | None:
        """The first occurrence; None if the job never runs, its end having come before."""
        return None if self._first is None else instant(self._first)

    def next_after(self, moment: datetime, *, ran: int = 0) -> datetime | None:
        """The first occurrence after ``moment``, when ``ran`` of them have run; None if that was the last.

        For a job without start and schedule ``moment`` is when its last occurrence really started.
        Takes microseconds, however long ago the job began.
        """
        if self._first is None or (self._count is not None and ran >= self._count):
            return None
        since = micros(moment)
        if since < self._first:
            return instant(self._first)
        due = self._within(self._rule.after(since)) if self._rule is not None else None
        return None if due is None else instant(due)

    def count(self, since: datetime, until: datetime) -> int:
        """How many occurrences there are after ``since`` and not after ``until``, whatever ``count`` says.

        Takes microseconds, however many they are.
        """
        begin, end = micros(since), min(micros(until), self._end)
        if self._first is None or end <= begin:
            return 0
        first = int(begin < self._first <= end)
        if self._rule is None or end <= self._first:
            return first
        return first + self._rule.count(max(begin, self._first), end)

    @property
    def drifts(self) -> bool:
        """Whether the next occurrence counts from when the last one really started."""
        recurrence = self.timing.recurrence
        return recurrence is not None and recurrence.schedule is None and self.timing.start is None

    def occurrences(self) -> Iterator[datetime]:
        """All of them, each one supposed to start when it is due. There may be no end to them."""
        due, ran = self.first, 0
        while due is not None:
            yield due
            ran += 1
            due = self.next_after(due, ran=ran)

    def text(self, occurrence: datetime) -> str:
        """An occurrence as documents write it, with all digits that the start has."""
        return occurrence_text(self.timing, occurrence)

    def describe(self) -> str:
        """A sentence such as *at 05:25 on the last Friday of every month, at most 10 times*."""
        return describe(self.timing, created=self._created)

    def _within(self, due: int | None) -> int | None:
        return due if due is not None and due <= self._end else None


def occurrence_text(timing: Timing, occurrence: datetime) -> str:
    """An occurrence as documents write it, with all digits that the start has."""
    start, recurrence = timing.start, timing.recurrence
    if start is None or (recurrence is not None and recurrence.schedule is not None):
        return Moment(occurrence).text
    on_grid = recurrence is not None or occurrence == start.at
    return Moment(occurrence, start.tenths if on_grid else 0).text


def _rule(recurrence: Recurrence, start: int | None, *, created: int) -> _Rule:
    """What comes after what."""
    schedule = recurrence.schedule
    if schedule is None:
        if start is None:
            return Drift(recurrence.frequency, recurrence.interval)
        return grid(recurrence.frequency, recurrence.interval, start=start)
    anchor = created if start is None else start
    matches = matching(recurrence.frequency, recurrence.interval, schedule, anchor=anchor)
    if matches.after(anchor - 1) is None:
        raise InvalidJob(
            "properties.recurrence.schedule",
            f"matches no instant from {Moment(instant(anchor)).text} on, with frequency"
            f" {recurrence.frequency} and interval {recurrence.interval};"
            " change its elements, the interval or startTime",
        )
    return matches
