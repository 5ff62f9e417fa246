"""A job's timing as a sentence that an operator would say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from backstay.domain.instants import micros
from backstay.domain.recurrence.definition import (
    WEEK_DAYS,
    Frequency,
    MonthlyOccurrence,
    Recurrence,
    Schedule,
    Timing,
)
from backstay.domain.recurrence.grid import MINUTE
from backstay.domain.recurrence.matching import times_of_day
from backstay.domain.recurrence.moments import Moment

#: More times of day than these are told by their hours and minutes.
TIMES_LISTED_MAX: Final = 6
#: So many numbers in a row are told by the first and the last.
_RUN: Final = 3

_PLACES: Final = ("first", "second", "third", "fourth", "fifth")
# Those of ``calendar`` are in the language of the process.
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def describe(timing: Timing, *, created: datetime) -> str:
    """When a job runs that was created at ``created``."""
    start, recurrence = timing.start, timing.recurrence
    if recurrence is None:
        return _once(start, created)
    anchor = created if start is None else start.at
    told = _repeated(recurrence, anchor)
    if start is None:
        again = " after each start" if recurrence.schedule is None else ""
        told = f"immediately, then {told}{again}"
    return ", ".join([told, *_limits(start, recurrence)])


def _once(start: Moment | None, created: datetime) -> str:
    if start is None:
        return "once, immediately"
    if start.at < created:
        return f"once, immediately, since its start {_moment(start)} has passed"
    return f"once, at {_moment(start)}"


def _limits(start: Moment | None, recurrence: Recurrence) -> Iterable[str]:
    if start is not None:
        yield f"from {_moment(start)}"
    if recurrence.end is not None:
        yield f"until {_moment(recurrence.end)}"
    if recurrence.count is not None:
        yield "at most once" if recurrence.count == 1 else f"at most {recurrence.count:,} times"


def _repeated(recurrence: Recurrence, anchor: datetime) -> str:
    schedule, frequency, interval = recurrence.schedule, recurrence.frequency, recurrence.interval
    if schedule is None:
        return _every(frequency, interval)
    match frequency:
        case Frequency.MINUTE:
            return f"{_every(frequency, interval)}{_only(schedule, minutes=True)}"
        case Frequency.HOUR:
            minutes = _minutes(schedule.minutes or (anchor.minute,))
            return f"{minutes} of {_each(frequency, interval)}{_only(schedule, minutes=False)}"
        case Frequency.DAY if interval == 1 and schedule.hours is None and schedule.minutes is not None:
            return _times(schedule, anchor)
        case _:
            return f"{_times(schedule, anchor)} {_days(frequency, interval, schedule, anchor)}"


# Times of day


def _only(schedule: Schedule, *, minutes: bool) -> str:
    hours = f", only in {_hours(schedule.hours)}" if schedule.hours else ""
    return f"{hours}, only {_minutes(schedule.minutes)}" if minutes and schedule.minutes else hours


def _times(schedule: Schedule, anchor: datetime) -> str:
    times = times_of_day(schedule, micros(anchor) // MINUTE)
    if schedule.hours is None and schedule.minutes is not None:
        return f"{_minutes(schedule.minutes)} of every hour"
    if len(times) <= TIMES_LISTED_MAX:
        return f"at {listed([f'{time // 60:02}:{time % 60:02}' for time in times])}"
    return f"{_minutes(schedule.minutes or (anchor.minute,))} of {_hours(schedule.hours or ())}"


def _minutes(minutes: Sequence[int]) -> str:
    return f"at {'minute' if len(minutes) == 1 else 'minutes'} {_numbers(minutes)}"


def _hours(hours: Sequence[int]) -> str:
    return f"{'hour' if len(hours) == 1 else 'hours'} {_numbers(hours)}"


# Days


def _days(frequency: Frequency, interval: int, schedule: Schedule, anchor: datetime) -> str:
    match frequency:
        case Frequency.WEEK:
            names = listed([_week_day(day) for day in schedule.week_days or (anchor.weekday(),)])
            return f"every {names}" if interval == 1 else f"on {names} of {_each(frequency, interval)}"
        case Frequency.MONTH:
            return f"on {_days_of_month(schedule, anchor)} of {_in_months(interval, schedule)}"
        case Frequency.YEAR:
            months = listed([_MONTHS[month - 1] for month in schedule.months or (anchor.month,)])
            of_year = f"every {months}" if interval == 1 else f"{months} of {_each(frequency, interval)}"
            return f"on {_days_of_month(schedule, anchor)} of {of_year}"
        case _:
            return _each(frequency, interval)


def _in_months(interval: int, schedule: Schedule) -> str:
    if schedule.months is None:
        return _each(Frequency.MONTH, interval)
    names = [_MONTHS[month - 1] for month in schedule.months]
    if interval == 1:
        return f"every {listed(names)}"
    return f"{_each(Frequency.MONTH, interval)} that is {listed(names, last='or')}"


def _days_of_month(schedule: Schedule, anchor: datetime) -> str:
    if schedule.monthly_occurrences is not None:
        return listed([_monthly_occurrence(one) for one in schedule.monthly_occurrences])
    days = schedule.month_days or (anchor.day,)
    from_start = [f"the {ordinal(day)}" for day in days if day > 0]
    from_end = [_from_end(day) for day in days if day < 0]
    return listed([*from_start, *from_end])


def _from_end(day: int) -> str:
    return "the last day" if day == -1 else f"the {ordinal(-day)} to last day"


def _monthly_occurrence(one: MonthlyOccurrence) -> str:
    name = _week_day(one.week_day)
    match one.occurrence:
        case None:
            return f"every {name}"
        case -1:
            return f"the last {name}"
        case place if place > 0:
            return f"the {_PLACES[place - 1]} {name}"
        case place:
            return f"the {_PLACES[-place - 1]} to last {name}"


# Words


def _every(frequency: Frequency, interval: int) -> str:
    return f"every {frequency}" if interval == 1 else f"every {interval:,} {frequency}s"


def _each(frequency: Frequency, interval: int) -> str:
    return f"every {frequency}" if interval == 1 else f"every {ordinal(interval)} {frequency}"


def _week_day(number: int) -> str:
    return WEEK_DAYS[number].capitalize()


def _moment(moment: Moment) -> str:
    day, _, time = moment.text.removesuffix("Z").partition("T")
    return f"{day} {time.removesuffix(':00') if time.count(':') > 1 else time} UTC"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    tens, ones = divmod(number % 100, 10)
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number:,}{ending}"


def listed(words: Sequence[str], *, last: str = "and") -> str:
    """One, two and three."""
    *before, end = words
    return f"{', '.join(before)} {last} {end}" if before else end


def _numbers(numbers: Sequence[int]) -> str:
    """Rising numbers; those in a row by the first and the last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [[f"{run[0]} to {run[-1]}"] if len(run) >= _RUN else map(str, run) for run in runs]
    return listed([one for some in told for one in some])
