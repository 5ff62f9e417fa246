"""Every example that the documentation of the original service gives of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from backstay.domain.recurrence import Timetable, read_job

#: A Wednesday: when the jobs are created, and their start.
NOW = datetime(2024, 1, 10, 12, 25, tzinfo=UTC)

WORKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"]

#: Frequency, schedule, what it means, and the first four occurrences, all of them in 2024.
EXAMPLES: list[tuple[str, dict[str, Any], str, str]] = [
    ("day", {"hours": [5]}, "daily in hour 5", "01-11 05:25, 01-12 05:25, 01-13 05:25, 01-14 05:25"),
    (
        "day",
        {"minutes": [15], "hours": [5]},
        "daily 05:15",
        "01-11 05:15, 01-12 05:15, 01-13 05:15, 01-14 05:15",
    ),
    (
        "day",
        {"minutes": [15], "hours": [5, 17]},
        "daily 05:15 and 17:15",
        "01-10 17:15, 01-11 05:15, 01-11 17:15, 01-12 05:15",
    ),
    (
        "day",
        {"minutes": [15, 45], "hours": [5, 17]},
        "four times a day",
        "01-10 17:15, 01-10 17:45, 01-11 05:15, 01-11 05:45",
    ),
    (
        "day",
        {"minutes": [0, 15, 30, 45]},
        "each quarter hour",
        "01-10 12:30, 01-10 12:45, 01-10 13:00, 01-10 13:15",
    ),
    (
        "day",
        {"hours": list(range(24))},
        "hourly at the start minute",
        "01-10 12:25, 01-10 13:25, 01-10 14:25, 01-10 15:25",
    ),
    ("day", {"minutes": [0]}, "hourly on the hour", "01-10 13:00, 01-10 14:00, 01-10 15:00, 01-10 16:00"),
    ("day", {"minutes": [15]}, "hourly at :15", "01-10 13:15, 01-10 14:15, 01-10 15:15, 01-10 16:15"),
    (
        "week",
        {"hours": [17], "weekDays": ["saturday"]},
        "Saturdays in hour 17",
        "01-13 17:25, 01-20 17:25, 01-27 17:25, 02-03 17:25",
    ),
    (
        "week",
        {"hours": [17], "weekDays": ["monday", "wednesday", "friday"]},
        "Mon/Wed/Fri in hour 17",
        "01-10 17:25, 01-12 17:25, 01-15 17:25, 01-17 17:25",
    ),
    (
        "week",
        {"minutes": [15, 45], "hours": [17], "weekDays": ["monday", "wednesday", "friday"]},
        "Mon/Wed/Fri 17:15, 17:45",
        "01-10 17:15, 01-10 17:45, 01-12 17:15, 01-12 17:45",
    ),
    (
        "week",
        {"hours": [5, 17], "weekDays": ["monday", "wednesday", "friday"]},
        "Mon/Wed/Fri in hours 5 and 17",
        "01-10 17:25, 01-12 05:25, 01-12 17:25, 01-15 05:25",
    ),
    (
        "week",
        {"minutes": [15, 45], "hours": [5, 17], "weekDays": ["monday", "wednesday", "friday"]},
        "four times on Mon/Wed/Fri",
        "01-10 17:15, 01-10 17:45, 01-12 05:15, 01-12 05:45",
    ),
    (
        "week",
        {"minutes": [0, 15, 30, 45], "weekDays": WORKDAYS},
        "each quarter hour, workdays",
        "01-10 12:30, 01-10 12:45, 01-10 13:00, 01-10 13:15",
    ),
    (
        "week",
        {"minutes": [0, 15, 30, 45], "hours": [9, 10, 11, 12, 13, 14, 15, 16], "weekDays": WORKDAYS},
        "quarter hours 09:00-16:45, workdays",
        "01-10 12:30, 01-10 12:45, 01-10 13:00, 01-10 13:15",
    ),
    (
        "week",
        {"weekDays": ["sunday"]},
        "Sundays at start time",
        "01-14 12:25, 01-21 12:25, 01-28 12:25, 02-04 12:25",
    ),
    (
        "week",
        {"weekDays": ["tuesday", "thursday"]},
        "Tue/Thu at start time",
        "01-11 12:25, 01-16 12:25, 01-18 12:25, 01-23 12:25",
    ),
    (
        "month",
        {"minutes": [0], "hours": [6], "monthDays": [28]},
        "the 28th, 06:00",
        "01-28 06:00, 02-28 06:00, 03-28 06:00, 04-28 06:00",
    ),
    (
        "month",
        {"minutes": [0], "hours": [6], "monthDays": [-1]},
        "last day, 06:00",
        "01-31 06:00, 02-29 06:00, 03-31 06:00, 04-30 06:00",
    ),
    (
        "month",
        {"minutes": [0], "hours": [6], "monthDays": [1, -1]},
        "first and last day, 06:00",
        "01-31 06:00, 02-01 06:00, 02-29 06:00, 03-01 06:00",
    ),
    (
        "month",
        {"monthDays": [1, -1]},
        "first and last day at start time",
        "01-31 12:25, 02-01 12:25, 02-29 12:25, 03-01 12:25",
    ),
    (
        "month",
        {"monthDays": [1, 14]},
        "1st and 14th at start time",
        "01-14 12:25, 02-01 12:25, 02-14 12:25, 03-01 12:25",
    ),
    ("month", {"monthDays": [2]}, "2nd at start time", "02-02 12:25, 03-02 12:25, 04-02 12:25, 05-02 12:25"),
    (
        "month",
        {"minutes": [0], "hours": [5], "monthlyOccurrences": [{"day": "friday", "occurrence": 1}]},
        "first Friday 05:00",
        "02-02 05:00, 03-01 05:00, 04-05 05:00, 05-03 05:00",
    ),
    (
        "month",
        {"monthlyOccurrences": [{"day": "friday", "occurrence": 1}]},
        "first Friday at start time",
        "02-02 12:25, 03-01 12:25, 04-05 12:25, 05-03 12:25",
    ),
    (
        "month",
        {"monthlyOccurrences": [{"day": "friday", "occurrence": -3}]},
        "third-last Friday",
        "01-12 12:25, 02-09 12:25, 03-15 12:25, 04-12 12:25",
    ),
    (
        "month",
        {
            "minutes": [15],
            "hours": [5],
            "monthlyOccurrences": [{"day": "friday", "occurrence": 1}, {"day": "friday", "occurrence": -1}],
        },
        "first and last Friday 05:15",
        "01-26 05:15, 02-02 05:15, 02-23 05:15, 03-01 05:15",
    ),
    (
        "month",
        {"monthlyOccurrences": [{"day": "friday", "occurrence": 1}, {"day": "friday", "occurrence": -1}]},
        "same at start time",
        "01-26 12:25, 02-02 12:25, 02-23 12:25, 03-01 12:25",
    ),
    (
        "month",
        {"monthlyOccurrences": [{"day": "friday", "occurrence": 5}]},
        "fifth Friday, months without one are skipped",
        "03-29 12:25, 05-31 12:25, 08-30 12:25, 11-29 12:25",
    ),
    (
        "month",
        {"minutes": [0, 15, 30, 45], "monthlyOccurrences": [{"day": "friday", "occurrence": -1}]},
        "each quarter hour of the last Friday",
        "01-26 00:00, 01-26 00:15, 01-26 00:30, 01-26 00:45",
    ),
    (
        "month",
        {
            "minutes": [15, 45],
            "hours": [5, 17],
            "monthlyOccurrences": [{"day": "wednesday", "occurrence": 3}],
        },
        "four times on the third Wednesday",
        "01-17 05:15, 01-17 05:45, 01-17 17:15, 01-17 17:45",
    ),
    (
        "month",
        {"monthDays": [31]},
        "only months with a 31st",
        "01-31 12:25, 03-31 12:25, 05-31 12:25, 07-31 12:25",
    ),
    (
        "month",
        {"monthDays": [1, 2]},
        "two runs a month",
        "02-01 12:25, 02-02 12:25, 03-01 12:25, 03-02 12:25",
    ),
    (
        "week",
        {"minutes": [0]},
        "hourly, one day a week (start weekday)",
        "01-10 13:00, 01-10 14:00, 01-10 15:00, 01-10 16:00",
    ),
    (
        "month",
        {"minutes": [0]},
        "hourly, one day a month (start day)",
        "01-10 13:00, 01-10 14:00, 01-10 15:00, 01-10 16:00",
    ),
]


@pytest.mark.parametrize(
    ("frequency", "schedule", "expected"),
    [
        pytest.param(frequency, schedule, dates, id=meaning)
        for frequency, schedule, meaning, dates in EXAMPLES
    ],
)
def test_a_schedule_means_what_the_documentation_says(
    frequency: str, schedule: dict[str, Any], expected: str
):
    recurrence = {"frequency": frequency, "interval": 1, "schedule": schedule}
    job = {"properties": {"startTime": "2024-01-10T12:25:00Z", "recurrence": recurrence}}

    first_four = list(islice(Timetable(read_job(job), created=NOW).occurrences(), 4))

    assert ", ".join(f"{due:%m-%d %H:%M}" for due in first_four) == expected
    assert {(due.year, due.second, due.microsecond) for due in first_four} == {(2024, 0, 0)}


def test_the_examples_are_all_there():
    assert len(EXAMPLES) == 35
