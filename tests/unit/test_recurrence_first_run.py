"""When a job runs first, and how it goes on from there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from backstay.domain.recurrence import IMMEDIATELY, Timetable, read_job

A_MONDAY = "2015-07-13T00:00:00Z"
IN_HOURS = {"hours": [5, 10, 15, 20], "minutes": [0, 10, 20, 30, 40, 50]}
ON_MONDAYS = {**IN_HOURS, "weekDays": ["Monday"]}
ON_TWO_DAYS = {**IN_HOURS, "monthDays": [15, 30]}
FIRST_MONDAY_AND_FRIDAY = {
    **IN_HOURS,
    "monthlyOccurrences": [{"day": "Monday", "Occurrence": 1}, {"day": "Friday", "Occurrence": 1}],
}


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def timetable(now: str, *, start: str | None, **recurrence: Any) -> Timetable:
    properties = {"startTime": start, "recurrence": recurrence or None}
    return Timetable(read_job({"properties": properties}), created=instant(now))


def first_few(table: Timetable, number: int) -> list[str]:
    return [table.text(due) for due in islice(table.occurrences(), number)]


@pytest.mark.parametrize(
    ("now", "start", "recurrence", "first"),
    [
        ("2016-03-30 19:35:33", A_MONDAY, {"frequency": "Week"}, "2016-04-04T00:00:00Z"),
        ("2016-01-04 18:36:46", A_MONDAY, {"frequency": "Week"}, "2016-01-11T00:00:00Z"),
        ("2016-03-30 19:36:23", "2015-07-14T00:00:00Z", {"frequency": "Day"}, "2016-03-31T00:00:00Z"),
        (
            "2017-02-08 23:55:29",
            "2017-02-09T23:55:25.5648511Z",
            {"frequency": "Minute"},
            "2017-02-09T23:55:25.5648511Z",
        ),
        (
            "2015-07-01 00:02:00",
            "2015-07-01T00:01:54.344507Z",
            {"frequency": "Minute", "interval": 30},
            "2015-07-01T00:31:54.344507Z",
        ),
        (
            "2016-03-30 19:36:08",
            A_MONDAY,
            {"frequency": "Day", "schedule": IN_HOURS},
            "2016-03-30T20:00:00Z",
        ),
        (
            "2015-11-13 23:33:21",
            A_MONDAY,
            {"frequency": "Day", "schedule": IN_HOURS},
            "2015-11-14T05:00:00Z",
        ),
        (
            "2016-03-30 19:37:32",
            A_MONDAY,
            {"frequency": "Week", "schedule": ON_MONDAYS},
            "2016-04-04T05:00:00Z",
        ),
        (
            "2016-01-04 18:36:34",
            A_MONDAY,
            {"frequency": "Week", "schedule": ON_MONDAYS},
            "2016-01-04T20:00:00Z",
        ),
        (
            "2016-03-30 19:37:03",
            A_MONDAY,
            {"frequency": "Month", "schedule": ON_TWO_DAYS},
            "2016-03-30T20:00:00Z",
        ),
        (
            "2015-07-17 19:08:30",
            A_MONDAY,
            {"frequency": "Month", "schedule": ON_TWO_DAYS},
            "2015-07-30T05:00:00Z",
        ),
        (
            "2016-03-30 19:35:16",
            A_MONDAY,
            {"frequency": "Month", "schedule": FIRST_MONDAY_AND_FRIDAY},
            "2016-04-01T05:00:00Z",
        ),
        (
            "2015-12-09 21:20:10",
            A_MONDAY,
            {"frequency": "Month", "schedule": FIRST_MONDAY_AND_FRIDAY},
            "2016-01-01T05:00:00Z",
        ),
        (
            "2016-01-04 18:38:59",
            A_MONDAY,
            {"frequency": "Month", "schedule": FIRST_MONDAY_AND_FRIDAY},
            "2016-01-04T20:00:00Z",
        ),
    ],
)
def test_the_first_run_is_the_one_that_the_original_service_answered(now, start, recurrence, first):
    assert first_few(timetable(now, start=start, **recurrence), 1) == [first]


@pytest.mark.parametrize(
    ("now", "start", "first"),
    [
        ("2016-03-30 20:40:35", A_MONDAY, "2016-03-30T20:40:55.469507"),
        ("2017-02-08 23:55:21", None, "2017-02-08T23:55:41.364716"),
    ],
)
def test_immediately_is_as_soon_as_on_the_original_service(now, start, first):
    table = timetable(now, start=start)

    assert table.first is not None
    assert abs(table.first - instant(first)) < timedelta(seconds=2)
    assert list(table.occurrences()) == [table.first]


@pytest.mark.parametrize("start", ["2015-04-07T14:00", "2015-04-05T14:00", "2015-04-01T14:00"])
def test_a_start_in_the_past_gives_the_grid_and_no_more(start):
    table = timetable("2015-04-08 13:00", start=start, frequency="day", interval=2)

    assert first_few(table, 4) == [f"2015-04-{day:02}T14:00:00Z" for day in (9, 11, 13, 15)]


@pytest.mark.parametrize(
    "start", ["2024-01-10T12:25:00Z", "2024-01-10T12:25:00.000001Z", "2030-05-06T07:08:09Z"]
)
def test_a_start_that_is_now_or_later_is_the_first_run(start):
    once = timetable("2024-01-10 12:25", start=start)
    often = timetable("2024-01-10 12:25", start=start, frequency="month")

    assert first_few(once, 5) == [start]
    assert first_few(often, 1) == [start]


def test_without_a_start_the_next_run_is_an_interval_after_the_start_before():
    table = timetable("2024-01-10 12:25", start=None, frequency="minute", interval=5)
    started = instant("2024-01-10T12:25:23.5")

    assert table.first == instant("2024-01-10 12:25") + IMMEDIATELY
    assert table.next_after(started, ran=1) == started + timedelta(minutes=5)


def test_without_a_start_months_are_counted_from_the_start_before():
    table = timetable("2024-01-31 12:00", start=None, frequency="month")

    assert first_few(table, 3) == ["2024-01-31T12:00:20Z", "2024-02-29T12:00:20Z", "2024-03-29T12:00:20Z"]


def test_without_a_start_a_schedule_follows_one_run_at_once():
    schedule = {"hours": [5], "weekDays": ["Wednesday"]}
    table = timetable("2024-01-10 12:25:40", start=None, frequency="week", schedule=schedule)

    assert first_few(table, 3) == ["2024-01-10T12:26:00Z", "2024-01-17T05:25:00Z", "2024-01-24T05:25:00Z"]


def test_a_match_that_comes_before_the_run_at_once_is_no_second_one():
    table = timetable("2024-01-10 12:25:50", start=None, frequency="day", schedule={"minutes": [26]})

    assert first_few(table, 2) == ["2024-01-10T12:26:10Z", "2024-01-10T13:26:00Z"]


def test_how_soon_immediately_is_can_be_chosen():
    table = Timetable(
        read_job({"properties": {}}), created=instant("2024-01-10 12:25"), delay=timedelta(seconds=1)
    )

    assert first_few(table, 2) == ["2024-01-10T12:25:01Z"]


def test_before_the_first_run_the_next_one_is_the_first():
    table = timetable("2024-01-10 12:25", start="2024-02-01T00:00Z", frequency="hour")

    assert table.next_after(instant("2024-01-01 00:00")) == instant("2024-02-01 00:00")
    assert table.next_after(instant("2024-02-01 00:00"), ran=1) == instant("2024-02-01 01:00")
