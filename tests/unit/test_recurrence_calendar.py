"""The corners of the calendar: short months, leap days, weeks that begin on Monday, ends."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from backstay.domain.recurrence import Timetable, read_job
from backstay.errors import InvalidJob


def timetable(start: str, **recurrence: Any) -> Timetable:
    """Of a job that is created at its start."""
    job = read_job({"properties": {"startTime": start, "recurrence": recurrence}})
    assert job.start is not None
    return Timetable(job, created=job.start.at)


def dates(start: str, number: int = 4, **recurrence: Any) -> str:
    return ", ".join(
        f"{due:%y-%m-%d}" for due in islice(timetable(start, **recurrence).occurrences(), number)
    )


def times(start: str, number: int = 4, **recurrence: Any) -> str:
    return ", ".join(
        f"{due:%d %H:%M}" for due in islice(timetable(start, **recurrence).occurrences(), number)
    )


# Without a schedule


def test_a_month_that_is_too_short_gives_its_last_day_and_the_31st_comes_back():
    assert dates("2023-01-31", frequency="month") == "23-01-31, 23-02-28, 23-03-31, 23-04-30"
    assert dates("2023-08-31", frequency="month", interval=3) == "23-08-31, 23-11-30, 24-02-29, 24-05-31"


def test_a_leap_day_is_the_28th_in_other_years():
    assert dates("2024-02-29", 5, frequency="year") == "24-02-29, 25-02-28, 26-02-28, 27-02-28, 28-02-29"


def test_a_grid_ends_with_the_calendar():
    for frequency in ("minute", "hour", "day", "week", "month", "year"):
        assert len(list(timetable("9999-12-31T23:59:30Z", frequency=frequency).occurrences())) == 1
    assert dates("2024-01-01", frequency="year", interval=1000, number=99).count(",") == 7


# Months and days of months


def test_days_from_the_end_follow_the_length_of_the_month():
    assert dates("2023-01-01", frequency="month", schedule={"monthDays": [-29]}) == (
        "23-01-03, 23-03-03, 23-04-02, 23-05-03"
    )
    assert dates("2023-01-01", frequency="month", schedule={"monthDays": [-31]}) == (
        "23-01-01, 23-03-01, 23-05-01, 23-07-01"
    )


def test_a_day_that_is_named_twice_comes_once():
    assert dates("2023-02-01", frequency="month", schedule={"monthDays": [28, -1]}) == (
        "23-02-28, 23-03-28, 23-03-31, 23-04-28"
    )


def test_a_schedule_on_the_day_of_the_start_skips_months_without_it():
    assert dates("2024-01-31", frequency="month", schedule={"hours": [6], "minutes": [0]}) == (
        "24-01-31, 24-03-31, 24-05-31, 24-07-31"
    )


def test_an_interval_counts_months_from_that_of_the_start():
    assert dates("2024-01-10", frequency="month", interval=5, schedule={"monthDays": [1, 20]}) == (
        "24-01-20, 24-06-01, 24-06-20, 24-11-01"
    )


def test_months_leave_others_out():
    assert dates("2024-01-10", frequency="month", schedule={"months": [2, 7], "monthDays": [1, -1]}) == (
        "24-02-01, 24-02-29, 24-07-01, 24-07-31"
    )
    assert dates("2024-01-10", frequency="month", interval=5, schedule={"months": [6, 1]}) == (
        "24-01-10, 24-06-10, 29-01-10, 29-06-10"
    )


def test_a_year_has_the_months_of_its_schedule_on_the_day_of_the_start():
    assert dates("2024-05-10", frequency="year", schedule={"months": [1, 6]}) == (
        "24-06-10, 25-01-10, 25-06-10, 26-01-10"
    )
    assert dates("2024-05-10", frequency="year", interval=3, schedule={"hours": 5}) == (
        "24-05-10, 27-05-10, 30-05-10, 33-05-10"
    )


def test_a_leap_day_of_a_schedule_comes_in_leap_years_only():
    schedule = {"months": [2], "monthDays": [29]}
    assert (
        dates("2096-01-01", frequency="month", schedule=schedule) == "96-02-29, 04-02-29, 08-02-29, 12-02-29"
    )


def test_a_weekday_without_a_number_is_each_of_that_name():
    occurrences = {"monthlyOccurrences": [{"day": "friday"}]}
    assert (
        dates("2024-01-10", frequency="month", schedule=occurrences)
        == "24-01-12, 24-01-19, 24-01-26, 24-02-02"
    )


def test_a_fifth_weekday_from_the_end_is_skipped_where_there_are_four():
    occurrences = {"monthlyOccurrences": [{"day": "friday", "occurrence": -5}]}
    assert (
        dates("2024-01-10", frequency="month", schedule=occurrences)
        == "24-03-01, 24-05-03, 24-08-02, 24-11-01"
    )


# Weeks, days, hours and minutes


def test_weeks_begin_on_monday():
    assert dates("2024-01-10", frequency="week", interval=2, schedule={"weekDays": ["sunday", "monday"]}) == (
        "24-01-14, 24-01-22, 24-01-28, 24-02-05"
    )
    assert dates("2024-01-07", frequency="week", interval=2, schedule={"weekDays": ["sunday", "monday"]}) == (
        "24-01-07, 24-01-15, 24-01-21, 24-01-29"
    )


def test_an_interval_counts_days_from_that_of_the_start():
    assert times("2024-01-10T12:25", frequency="day", interval=3, schedule={"hours": [5, 13]}) == (
        "10 13:25, 13 05:25, 13 13:25, 16 05:25"
    )


def test_hour_24_is_the_beginning_of_the_same_day():
    schedule = {"hours": [24, 12], "minutes": [30]}
    assert times("2024-01-10T12:25", frequency="day", schedule=schedule) == (
        "10 12:30, 11 00:30, 11 12:30, 12 00:30"
    )


def test_every_other_hour_has_the_minutes_of_its_schedule():
    assert times("2024-01-10T12:25", frequency="hour", interval=5, schedule={"minutes": [0, 30]}) == (
        "10 12:30, 10 17:00, 10 17:30, 10 22:00"
    )
    assert times("2024-01-10T12:25", frequency="hour", interval=5, schedule={"hours": [3, 8]}) == (
        "11 03:25, 11 08:25, 16 03:25, 16 08:25"
    )


def test_hours_and_minutes_leave_minutes_out():
    assert times("2024-01-10T12:25", frequency="minute", interval=15, schedule={"hours": [9]}) == (
        "11 09:10, 11 09:25, 11 09:40, 11 09:55"
    )
    assert times("2024-01-10T12:25", frequency="minute", interval=7, schedule={"minutes": [0]}) == (
        "10 13:00, 10 20:00, 11 03:00, 11 10:00"
    )


def test_matches_have_no_seconds_and_none_is_before_the_start():
    assert times("2024-01-10T12:25:30", frequency="day", schedule={"hours": [12]}) == (
        "11 12:25, 12 12:25, 13 12:25, 14 12:25"
    )


def test_an_empty_schedule_is_none():
    assert timetable("2024-01-10T12:25:30", frequency="day", schedule={}).first == datetime(
        2024, 1, 10, 12, 25, 30, tzinfo=UTC
    )


# Ends


def test_the_end_is_the_last_instant_at_which_the_job_runs():
    assert times("2024-01-10T12:25", frequency="hour", endTime="2024-01-10T14:25") == (
        "10 12:25, 10 13:25, 10 14:25"
    )
    assert (
        times("2024-01-10T12:25", frequency="hour", endTime="2024-01-10T14:24:59.9") == "10 12:25, 10 13:25"
    )


@pytest.mark.parametrize(("count", "expected"), [(2, "10, 11"), (3, "10, 11, 12"), (4, "10, 11, 12")])
def test_count_or_end_ends_the_job_whichever_is_first(count, expected):
    table = timetable("2024-01-10T12:25", frequency="day", count=count, endTime="2024-01-13")

    assert ", ".join(f"{due:%d}" for due in table.occurrences()) == expected


def test_only_what_ran_is_counted():
    table = timetable("2024-01-10T12:25", frequency="day", count=5)
    later = datetime(2030, 1, 1, tzinfo=UTC)

    assert table.next_after(later, ran=4) == datetime(2030, 1, 1, 12, 25, tzinfo=UTC)
    assert table.next_after(later, ran=5) is None


@pytest.mark.parametrize("start", [None, "2024-01-10", "2034-01-10"])
def test_a_job_whose_end_has_passed_does_not_run(start):
    recurrence = {"frequency": "day", "endTime": "2012-11-04"}
    job = read_job({"properties": {"startTime": start, "recurrence": recurrence}})
    table = Timetable(job, created=datetime(2024, 1, 10, tzinfo=UTC))

    assert table.first is None
    assert table.next_after(datetime(2000, 1, 1, tzinfo=UTC)) is None


# Never


@pytest.mark.parametrize(
    ("start", "recurrence"),
    [
        ("2024-01-10", {"frequency": "month", "schedule": {"months": [2], "monthDays": [30]}}),
        ("2024-01-10", {"frequency": "month", "schedule": {"months": [4, 6, 9, 11], "monthDays": [31, -31]}}),
        ("2024-03-10", {"frequency": "month", "interval": 12, "schedule": {"months": [2]}}),
        ("2024-01-31", {"frequency": "year", "schedule": {"months": [2]}}),
        ("2023-05-29", {"frequency": "year", "interval": 4, "schedule": {"months": [2]}}),
        ("2024-01-10T12:25", {"frequency": "hour", "interval": 2, "schedule": {"hours": [5]}}),
        ("2024-01-10T12:25", {"frequency": "minute", "interval": 10, "schedule": {"minutes": [0, 10]}}),
        ("9999-12-31T12:25", {"frequency": "year", "schedule": {"hours": [3]}}),
    ],
)
def test_a_schedule_that_never_matches_is_refused(start, recurrence):
    with pytest.raises(
        InvalidJob, match=r"recurrence\.schedule matches no instant from .*; change its elements"
    ):
        timetable(start, **recurrence)


def test_a_leap_day_that_is_a_fifth_monday_is_found_however_far_away():
    schedule = {"months": [2], "monthlyOccurrences": [{"day": "monday", "occurrence": 5}]}
    assert (
        dates("2025-01-01", frequency="month", schedule=schedule) == "44-02-29, 72-02-29, 12-02-29, 40-02-29"
    )
