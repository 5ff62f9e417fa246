"""What a job's document may say about time, and how it is told what it may not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backstay.domain.recurrence import Frequency, Moment, Recurrence, Schedule, Timing, read_job, read_moment
from backstay.domain.recurrence.definition import MonthlyOccurrence
from backstay.domain.recurrence.members import ELEMENTS_MAX
from backstay.errors import InvalidJob, InvalidRequest


def recurrence(**members: Any) -> Recurrence:
    timing = read_job({"properties": {"recurrence": {"frequency": "day", **members}}})
    assert timing.recurrence is not None
    return timing.recurrence


def schedule(frequency: str, **members: Any) -> Schedule:
    found = recurrence(frequency=frequency, schedule=members).schedule
    assert found is not None
    return found


# What is taken


def test_a_job_without_start_and_recurrence_runs_once():
    assert read_job({"properties": {"action": {"type": "Http"}}}) == Timing()
    assert read_job({"properties": {"startTime": None, "recurrence": None}}) == Timing()


@pytest.mark.parametrize("written", ["Minute", "HOUR", "day", "wEEK", "Month", "Year"])
def test_a_frequency_is_written_in_any_letter_case(written):
    assert recurrence(frequency=written) == Recurrence(frequency=Frequency(written.lower()))


def test_the_members_of_a_recurrence():
    found = recurrence(interval=1000, count=2147483647, endTime="2012-11-04", unheard="of")

    assert found == Recurrence(
        frequency=Frequency.DAY,
        interval=1000,
        count=2147483647,
        end=Moment(datetime(2012, 11, 4, tzinfo=UTC)),
    )


def test_elements_are_sorted_and_kept_once():
    assert schedule(
        "week", minutes=[30, 0, 30], hours=[24, 23, 0], weekDays=["Friday", "MONDAY"]
    ) == Schedule(minutes=(0, 30), hours=(0, 23), week_days=(0, 4))
    assert schedule("month", monthDays=[1, -31, 31, -1], months=[12, 1]) == Schedule(
        month_days=(-31, -1, 1, 31), months=(1, 12)
    )


def test_something_alone_stands_for_an_array_of_it():
    assert schedule("week", minutes=5, hours=24, weekDays="sunday") == Schedule(
        minutes=(5,), hours=(0,), week_days=(6,)
    )
    assert schedule("month", monthDays=-1) == Schedule(month_days=(-1,))


def test_occurrence_is_read_in_either_spelling_and_may_be_missing():
    written = [{"day": "Friday", "occurrence": 1}, {"day": "monday", "Occurrence": -5}, {"day": "SUNDAY"}]

    assert schedule("month", monthlyOccurrences=written).monthly_occurrences == (
        MonthlyOccurrence(4, 1),
        MonthlyOccurrence(0, -5),
        MonthlyOccurrence(6),
    )


# What is refused


@pytest.mark.parametrize(
    ("members", "told"),
    [
        (
            {"frequency": "fortnight"},
            "frequency is 'fortnight'; write one of minute, hour, day, week, month, year",
        ),
        ({"frequency": None}, "frequency is missing; write one of minute, hour,"),
        ({"interval": 0}, "interval is 0; write a whole number between 1 and 1000"),
        ({"interval": 1001}, "interval is 1001; write a whole number between 1 and 1000"),
        ({"interval": True}, "interval is True; write a whole number"),
        ({"interval": 1.5}, "interval is 1.5; write a whole number"),
        ({"interval": "1"}, "interval is '1'; write a whole number"),
        ({"count": 0}, "count is 0; write a whole number between 1 and 2147483647"),
        ({"count": 2147483648}, "count is 2147483648; write a whole number between 1 and 2147483647"),
        ({"endTime": "soon"}, "endTime is 'soon'; write an instant as in"),
        ({"schedule": [5]}, r"schedule is \[5\]; it must be a JSON object"),
        ({"schedule": {"minutes": [0, 60]}}, r"schedule\.minutes\[1\] is 60; .* between 0 and 59"),
        ({"schedule": {"hours": 25}}, r"schedule\.hours is 25; .* between 0 and 24"),
        ({"schedule": {"hours": []}}, r"schedule\.hours has 0 elements; write 1 to 100"),
        (
            {"schedule": {"hours": [1] * (ELEMENTS_MAX + 1)}},
            r"schedule\.hours has 101 elements; write 1 to 100",
        ),
        ({"schedule": {"hours": [1], "Hours": [2]}}, r"schedule\.hours is given twice, as hours and Hours"),
    ],
)
def test_a_wrong_member_is_named_with_its_limit(members, told):
    with pytest.raises(InvalidJob, match=rf"^properties\.recurrence\.{told}"):
        recurrence(**members)


@pytest.mark.parametrize(
    ("frequency", "element", "value", "fitting"),
    [
        *((one, "weekDays", ["monday"], "week") for one in Frequency if one != "week"),
        *((one, "monthDays", [1], "month") for one in Frequency if one != "month"),
        *((one, "monthlyOccurrences", [{"day": "monday"}], "month") for one in Frequency if one != "month"),
        *((one, "months", [1], "month or year") for one in Frequency if one not in ("month", "year")),
    ],
)
def test_an_element_that_does_not_go_with_the_frequency_is_refused_by_name(
    frequency, element, value, fitting
):
    with pytest.raises(InvalidJob, match=rf"does not go with frequency {frequency}; .* {fitting}") as raised:
        schedule(frequency, **{element: value})

    assert raised.value.field == f"properties.recurrence.schedule.{element}"


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"monthDays": [0]}, r"monthDays\[0\] is 0; write a whole number between -31 and 31, not 0"),
        ({"monthDays": [-32]}, r"monthDays\[0\] is -32; write a whole number between -31 and 31"),
        ({"months": [13]}, r"months\[0\] is 13; write a whole number between 1 and 12"),
        ({"monthlyOccurrences": [{}]}, r"monthlyOccurrences\[0\]\.day is missing; write one of monday,"),
        (
            {"monthlyOccurrences": [{"day": "fri"}]},
            r"monthlyOccurrences\[0\]\.day is 'fri'; write one of monday,",
        ),
        (
            {"monthlyOccurrences": [{"day": "friday", "occurrence": 0}]},
            r".*occurrence is 0; .* -5 and 5, not 0",
        ),
        (
            {"monthlyOccurrences": [{"day": "friday", "Occurrence": 6}]},
            r".*occurrence is 6; .* -5 and 5, not 0",
        ),
        (
            {"monthlyOccurrences": ["friday"]},
            r"monthlyOccurrences\[0\] is 'friday'; it must be a JSON object",
        ),
        (
            {"monthDays": [1], "monthlyOccurrences": [{"day": "friday"}]},
            "monthlyOccurrences does not go with monthDays",
        ),
    ],
)
def test_a_wrong_day_of_a_month_is_named(members, told):
    with pytest.raises(InvalidJob, match=rf"schedule\.{told}"):
        schedule("month", **members)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (7, "the job"),
        (None, "the job"),
        ({}, "properties"),
        ({"properties": []}, "properties"),
        ({"properties": {"startTime": 5}}, "properties.startTime"),
        ({"properties": {"recurrence": "daily"}}, "properties.recurrence"),
    ],
)
def test_what_is_no_job_is_refused_with_the_way_to_it(document, field):
    with pytest.raises(InvalidJob) as raised:
        read_job(document)

    assert raised.value.field == field
    assert str(raised.value).startswith(field)
    assert isinstance(raised.value, InvalidRequest)


# Instants


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2024-01-10T12:25:00Z", "2024-01-10T12:25:00Z"),
        ("2024-01-10T12:25Z", "2024-01-10T12:25:00Z"),
        ("2024-01-10T12:25", "2024-01-10T12:25:00Z"),
        ("2024-01-10 12:25:30", "2024-01-10T12:25:30Z"),
        ("2024-01-10", "2024-01-10T00:00:00Z"),
        ("20240110T122530Z", "2024-01-10T12:25:30Z"),
        ("2024-01-10t12:25z", "2024-01-10T12:25:00Z"),
        ("2024-01-10T12:25:00+02:00", "2024-01-10T10:25:00Z"),
        ("2024-01-10T12:25-0330", "2024-01-10T15:55:00Z"),
        ("2024-01-10T23:25-01", "2024-01-11T00:25:00Z"),
        ("2024-01-10T12:25:00.5Z", "2024-01-10T12:25:00.5Z"),
        ("2024-01-10T12:25:00,25Z", "2024-01-10T12:25:00.25Z"),
        ("2017-02-08T23:55:45.2160000Z", "2017-02-08T23:55:45.216Z"),
        ("2017-02-09T23:55:25.5648511Z", "2017-02-09T23:55:25.5648511Z"),
        ("2017-02-09T23:55:25.0000001Z", "2017-02-09T23:55:25.0000001Z"),
        ("2017-02-09T23:55:25.564851199Z", "2017-02-09T23:55:25.5648511Z"),
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.9999999", "9999-12-31T23:59:59.9999999Z"),
    ],
)
def test_an_instant_is_any_date_with_or_without_a_time_and_an_offset(written, meant):
    moment = read_moment(written, "startTime")

    assert moment.text == meant
    assert read_moment(moment.text, "startTime") == moment


@pytest.mark.parametrize(
    "written",
    [
        "", "now", "2024-01", "2024-13-01", "2024-02-30", "2024-01-10T24:00", "2024-01-10T12:60",
        "2024-01-10T12:25:60Z", "2024-01-10T12:25+25:00", "2024-01-10T12:25+01:60", "0001-01-01T00:00+01:00",
        "0000-01-01", "\u0662\u0660\u0662\u0664-01-10", "2024-01-10x12:25", " 2024-01-10", "2024-01-10\n",
        "2024-01-10T12", 20240110, None, True, ["2024-01-10"], "9" * 1000,
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_examples(written):
    with pytest.raises(
        InvalidJob, match=r'^startTime is .*; write an instant as in "2030-01-31T12:00:00Z"'
    ) as raised:
        read_moment(written, "startTime")

    assert len(str(raised.value)) < 300
