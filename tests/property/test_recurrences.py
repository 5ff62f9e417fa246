"""Whatever the recurrence: occurrences rise, keep to start, count and end, and agree with a simple model."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from backstay.domain.recurrence import IMMEDIATELY, Frequency, Timetable, read_job
from backstay.errors import InvalidJob
from tests.property.minutes import NAMES, Job, matches

MANY = settings(max_examples=500, deadline=None)
THOUSANDS = settings(max_examples=2_000, deadline=None)
#: How many days the model looks at, and how many matches are compared.
DAYS = {"minute": 1, "hour": 2, "day": 12, "week": 60, "month": 400, "year": 1100}
SEEN = 6


class Created(NamedTuple):
    """A job, and when it was created."""

    job: Job
    at: datetime

    def timetable(self) -> Timetable:
        return Timetable(read_job({"properties": self.job}), created=self.at)

    @property
    def start(self) -> datetime | None:
        return datetime.fromisoformat(self.job["startTime"]) if "startTime" in self.job else None

    @property
    def drifts(self) -> bool:
        """Whether an occurrence depends on when the one before really started."""
        return self.start is None and not self.job["recurrence"].get("schedule")


def some(elements: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[list[Any]]:
    return st.lists(elements, min_size=1, max_size=most)


def maybe(chance: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | chance


def given_members(**members: Any) -> Job:
    return {name: value for name, value in members.items() if value is not None}


occurrences = st.builds(
    given_members,
    day=st.sampled_from(NAMES),
    occurrence=maybe(st.integers(-5, 5).filter(bool)),
)
times = {"minutes": maybe(some(st.integers(0, 59))), "hours": maybe(some(st.integers(0, 24)))}
months = maybe(some(st.integers(1, 12)))
month_days = some(st.integers(-31, 31).filter(bool))
schedules = {
    "minute": st.builds(given_members, **times),
    "hour": st.builds(given_members, **times),
    "day": st.builds(given_members, **times),
    "week": st.builds(given_members, **times, weekDays=maybe(some(st.sampled_from(NAMES)))),
    "month": st.builds(given_members, **times, months=months, monthDays=maybe(month_days))
    | st.builds(given_members, **times, months=months, monthlyOccurrences=some(occurrences)),
    "year": st.builds(given_members, **times, months=months),
}
intervals = st.just(1) | st.integers(1, 7) | st.integers(1, 100)
EARLIEST = datetime(2019, 12, 25, tzinfo=UTC)
instants = st.timedeltas(timedelta(0), timedelta(days=3000)).map(EARLIEST.__add__)
near = st.timedeltas(timedelta(days=-800), timedelta(days=40))


@st.composite
def jobs(draw: st.DrawFn, *, scheduled: bool | None = None) -> Created:
    created = draw(instants)
    start = draw(maybe(near))
    frequency = draw(st.sampled_from(list(Frequency)))
    has_schedule = draw(st.booleans()) if scheduled is None else scheduled
    recurrence = given_members(
        frequency=str(frequency),
        interval=draw(intervals),
        schedule=draw(schedules[frequency]) if has_schedule else None,
        count=draw(maybe(st.integers(1, 20))),
        endTime=draw(maybe(near.map(lambda apart: (created - apart).isoformat()))),
    )
    start_time = None if start is None else (created + start).isoformat()
    return Created(given_members(startTime=start_time, recurrence=recurrence), created)


def made(created: Created) -> Timetable:
    """Its timetable; some schedules are refused, since they never match."""
    try:
        return created.timetable()
    except InvalidJob:
        event("never matches")
        assume(False)
        raise


@MANY
@given(jobs())
def test_occurrences_rise_and_keep_to_start_count_and_end(created: Created):
    found = list(islice(made(created).occurrences(), 25))

    assert all(one < other for one, other in pairwise(found))
    recurrence = created.job["recurrence"]
    assert all(due >= max(created.at, created.start or created.at) for due in found)
    assert len(found) <= recurrence.get("count", 25)
    if "endTime" in recurrence:
        assert all(due <= datetime.fromisoformat(recurrence["endTime"]) for due in found)


@MANY
@given(jobs(), st.timedeltas(timedelta(0), timedelta(days=4000)))
def test_nothing_is_passed_over_between_an_instant_and_the_next_occurrence(
    created: Created, later: timedelta
):
    table = made(created)
    moment = created.at + later
    due = table.next_after(moment)
    assume(due is not None and not created.drifts)

    assert due is not None
    assert due > moment
    assert table.next_after(due - timedelta(microseconds=1)) == due
    assert table.next_after(moment + (due - moment) / 2) == due


@THOUSANDS
@given(jobs(scheduled=True))
def test_a_schedule_matches_what_the_model_says(created: Created):
    recurrence, anchor = created.job["recurrence"], created.start or created.at
    assume(recurrence["schedule"])
    since = max(created.at, anchor)
    until = since + timedelta(days=DAYS[recurrence["frequency"]])
    expected = list(islice(matches(recurrence, anchor, since=since, until=until), SEEN))

    try:
        table = created.timetable()
    except InvalidJob:
        assert expected == []
        return

    found = [due for due in islice(table.occurrences(), SEEN) if due < until]
    assert found == ended(recurrence, expected if created.start else at_once_and(expected, created.at))


def at_once_and(matches: list[datetime], created: datetime) -> list[datetime]:
    at_once = created + IMMEDIATELY
    return [at_once, *(due for due in matches if due > at_once)]


def ended(recurrence: Job, due: list[datetime]) -> list[datetime]:
    end = datetime.fromisoformat(recurrence.get("endTime", "9999-01-01T00:00Z"))
    return [one for one in due if one <= end][: recurrence.get("count", SEEN)][:SEEN]


@MANY
@given(jobs(scheduled=False))
def test_without_a_schedule_occurrences_are_whole_intervals_after_the_start(created: Created):
    recurrence, start = created.job["recurrence"], created.start
    assume(start is not None and recurrence["frequency"] in ("minute", "hour", "day", "week"))
    assert start is not None
    step = timedelta(**{f"{recurrence['frequency']}s": recurrence["interval"]})

    found = list(islice(created.timetable().occurrences(), 5))

    assert all((due - start) % step == timedelta(0) for due in found)
    assert all(other - one == step for one, other in pairwise(found))
    assert not found or found[0] - max(created.at, start) < step


@MANY
@given(start=instants, later=st.integers(0, 5000), months=st.integers(1, 40), yearly=st.booleans())
def test_months_and_years_are_counted_from_the_start(start: datetime, later: int, months: int, yearly: bool):
    recurrence = {"frequency": "year" if yearly else "month", "interval": months}
    job = {"startTime": start.isoformat(), "recurrence": recurrence}
    created = Created(job, start + timedelta(days=later))
    step = 12 * months if yearly else months

    grid = (months_after(start, number * step) for number in range(200))
    expected = list(islice((due for due in grid if due >= created.at), 5))

    assert list(islice(created.timetable().occurrences(), 5)) == expected


def months_after(start: datetime, months: int) -> datetime:
    """So many months later; on the last day before it where there is no such day."""
    year, month = divmod(start.month - 1 + months, 12)
    for back in range(4):
        with suppress(ValueError):
            return start.replace(year=start.year + year, month=month + 1, day=start.day - back)
    raise AssertionError("every month has a 28th")


@given(jobs())
def test_every_job_can_be_told_in_a_sentence(created: Created):
    sentence = made(created).describe()

    assert sentence
    assert "None" not in sentence
    assert sentence.isprintable()


@MANY
@given(jobs(), st.timedeltas(timedelta(0), timedelta(days=900)), st.data())
def test_occurrences_are_counted_without_being_enumerated(
    created: Created, after: timedelta, data: st.DataObject
):
    table = made(created)
    assume(not table.drifts)
    since = created.at + after
    found: list[datetime] = []
    last = since
    while len(found) < 30 and (due := table.next_after(last)) is not None:
        found.append(due)
        last = due

    until = data.draw(st.sampled_from(found)) if found else since + timedelta(days=365)

    assert table.count(since, until) == sum(due <= until for due in found)
    assert table.count(since, until - timedelta(microseconds=1)) == sum(due < until for due in found)
