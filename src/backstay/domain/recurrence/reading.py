"""From a job's document to its timing; an error names the member, the limit and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from backstay.domain.recurrence.definition import (
    WEEK_DAYS,
    Frequency,
    MonthlyOccurrence,
    Recurrence,
    Schedule,
    Timing,
)
from backstay.domain.recurrence.members import Members, name_of, several, whole
from backstay.domain.recurrence.moments import read_moment
from backstay.errors import InvalidJob

INTERVAL_MAX: Final = 1_000
COUNT_MAX: Final = 2**31 - 1

_ALL: Final = tuple(Frequency)
#: Which element goes with which frequencies.
FITTING: Final[Mapping[str, tuple[Frequency, ...]]] = {
    "minutes": _ALL,
    "hours": _ALL,
    "weekDays": (Frequency.WEEK,),
    "monthDays": (Frequency.MONTH,),
    "monthlyOccurrences": (Frequency.MONTH,),
    "months": (Frequency.MONTH, Frequency.YEAR),
}

#: What is known of how Azure Scheduler said that an element does not go with the frequency.
_RECORDED: Final = {"monthDays": "Cannot set days of month with recurrence unit '{}'."}

_frequency: Final = name_of({str(one): one for one in Frequency})
_week_day: Final = name_of({name: number for number, name in enumerate(WEEK_DAYS)})


def read_job(document: object) -> Timing:
    """The timing of a job's whole document, ``{"properties": {"startTime": …, "recurrence": …}}``."""
    properties = Members(document, "the job").get("properties")
    if properties is None:
        raise InvalidJob("properties", 'is missing; a job is written {"properties": {"recurrence": …}}')
    return read_timing(properties)


def read_timing(properties: object) -> Timing:
    """The timing in a job's ``properties``. Members that say nothing about time are not looked at."""
    members = Members(properties, "properties")
    return Timing(
        start=members.read("startTime", read_moment),
        recurrence=members.read("recurrence", _recurrence),
    )


def _recurrence(value: object, field: str) -> Recurrence:
    members = Members(value, field)
    frequency = members.read("frequency", _frequency)
    if frequency is None:
        raise InvalidJob(members.path("frequency"), f"is missing; write one of {', '.join(_ALL)}")
    return Recurrence(
        frequency=frequency,
        interval=members.read("interval", whole(1, INTERVAL_MAX)) or 1,
        count=members.read("count", whole(1, COUNT_MAX)),
        end=members.read("endTime", read_moment),
        schedule=members.read("schedule", lambda value, field: _schedule(value, field, frequency)),
    )


def _schedule(value: object, field: str, frequency: Frequency) -> Schedule | None:
    """None for a schedule without an element: it says no more than no schedule."""
    members = Members(value, field)
    _check_fit(members, frequency)
    schedule = Schedule(
        minutes=_numbers(members, "minutes", whole(0, 59)),
        hours=_numbers(members, "hours", _hour),
        week_days=_numbers(members, "weekDays", _week_day),
        month_days=_numbers(members, "monthDays", whole(-31, 31)),
        monthly_occurrences=_monthly_occurrences(members),
        months=_numbers(members, "months", whole(1, 12)),
    )
    return None if schedule == Schedule() else schedule


def _check_fit(members: Members, frequency: Frequency) -> None:
    for name, frequencies in FITTING.items():
        if frequency not in frequencies and members.get(name) is not None:
            raise InvalidJob(
                members.path(name),
                f"does not go with frequency {frequency}; leave it out,"
                f" or write frequency {' or '.join(frequencies)}",
                recorded=_RECORDED.get(name, "").format(frequency.capitalize()) or None,
            )
    if members.get("monthDays") is not None and members.get("monthlyOccurrences") is not None:
        raise InvalidJob(
            members.path("monthlyOccurrences"), "does not go with monthDays; write one of the two"
        )


def _numbers(members: Members, name: str, reader: Callable[[object, str], int]) -> tuple[int, ...] | None:
    numbers = members.read(name, several(reader))
    return None if numbers is None else tuple(sorted(set(numbers)))


def _hour(value: object, field: str) -> int:
    """Hour 24 is hour 0 of the same day."""
    return whole(0, 24)(value, field) % 24


def _monthly_occurrences(members: Members) -> tuple[MonthlyOccurrence, ...] | None:
    found = members.read("monthlyOccurrences", several(_monthly_occurrence))
    return None if found is None else tuple(dict.fromkeys(found))


def _monthly_occurrence(value: object, field: str) -> MonthlyOccurrence:
    members = Members(value, field)
    week_day = members.read("day", _week_day)
    if week_day is None:
        raise InvalidJob(members.path("day"), f"is missing; write one of {', '.join(WEEK_DAYS)}")
    return MonthlyOccurrence(week_day, members.read("occurrence", whole(-5, 5)))
