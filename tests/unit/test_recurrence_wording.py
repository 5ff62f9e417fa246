"""A job's timing as an operator would say it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backstay.domain.recurrence import Timetable, read_job
from backstay.domain.recurrence.wording import ordinal

NOW = datetime(2024, 1, 10, 12, 25, tzinfo=UTC)
LAST_FRIDAY = [{"day": "friday", "occurrence": -1}]
SOME_FRIDAYS = [{"day": "friday", "occurrence": number} for number in (1, -3)] + [{"day": "sunday"}]


def described(start: str | None = "2024-01-10T12:25Z", **recurrence: Any) -> str:
    job = {"properties": {"startTime": start, "recurrence": recurrence or None}}
    return Timetable(read_job(job), created=NOW).describe()


@pytest.mark.parametrize(
    ("recurrence", "sentence"),
    [
        ({"frequency": "minute"}, "every minute"),
        ({"frequency": "minute", "interval": 15}, "every 15 minutes"),
        ({"frequency": "year", "interval": 1000}, "every 1,000 years"),
        (
            {"frequency": "minute", "interval": 5, "schedule": {"hours": [9, 10, 11, 16], "minutes": [0, 5]}},
            "every 5 minutes, only in hours 9 to 11 and 16, only at minutes 0 and 5",
        ),
        ({"frequency": "hour", "schedule": {"minutes": [0, 30]}}, "at minutes 0 and 30 of every hour"),
        (
            {"frequency": "hour", "interval": 2, "schedule": {"hours": [4]}},
            "at minute 25 of every 2nd hour, only in hour 4",
        ),
        ({"frequency": "day", "schedule": {"minutes": [0]}}, "at minute 0 of every hour"),
        ({"frequency": "day", "schedule": {"hours": [5, 17]}}, "at 05:25 and 17:25 every day"),
        ({"frequency": "day", "interval": 3, "schedule": {"hours": 24}}, "at 00:25 every 3rd day"),
        (
            {"frequency": "day", "schedule": {"hours": [5, 6, 7, 20], "minutes": [0, 10]}},
            "at minutes 0 and 10 of hours 5 to 7 and 20 every day",
        ),
        ({"frequency": "week", "schedule": {"hours": [17]}}, "at 17:25 every Wednesday"),
        (
            {"frequency": "week", "schedule": {"weekDays": ["friday", "monday", "tuesday"]}},
            "at 12:25 every Monday, Tuesday and Friday",
        ),
        (
            {"frequency": "week", "interval": 2, "schedule": {"weekDays": ["sunday"]}},
            "at 12:25 on Sunday of every 2nd week",
        ),
        (
            {"frequency": "month", "schedule": {"minutes": [0]}},
            "at minute 0 of every hour on the 10th of every month",
        ),
        (
            {"frequency": "month", "schedule": {"hours": [5, 17], "monthlyOccurrences": LAST_FRIDAY}},
            "at 05:25 and 17:25 on the last Friday of every month",
        ),
        (
            {"frequency": "month", "schedule": {"monthlyOccurrences": SOME_FRIDAYS}},
            "at 12:25 on the first Friday, the third to last Friday and every Sunday of every month",
        ),
        (
            {"frequency": "month", "interval": 5, "schedule": {"monthDays": [-1, -2, 1, 22]}},
            "at 12:25 on the 1st, the 22nd, the 2nd to last day and the last day of every 5th month",
        ),
        (
            {"frequency": "month", "schedule": {"months": [2, 7], "monthDays": [1]}},
            "at 12:25 on the 1st of every February and July",
        ),
        (
            {"frequency": "month", "interval": 5, "schedule": {"months": [1, 6]}},
            "at 12:25 on the 10th of every 5th month that is January or June",
        ),
        ({"frequency": "year", "schedule": {"hours": [5]}}, "at 05:25 on the 10th of every January"),
        (
            {"frequency": "year", "interval": 2, "schedule": {"months": [3, 12]}},
            "at 12:25 on the 10th of March and December of every 2nd year",
        ),
    ],
)
def test_a_recurrence_is_told_in_a_sentence(recurrence, sentence):
    assert described(**recurrence) == f"{sentence}, from 2024-01-10 12:25 UTC"


@pytest.mark.parametrize(
    ("start", "recurrence", "sentence"),
    [
        (None, {}, "once, immediately"),
        ("2023-01-01", {}, "once, immediately, since its start 2023-01-01 00:00 UTC has passed"),
        ("2025-01-01T07:00:30.5", {}, "once, at 2025-01-01 07:00:30.5 UTC"),
        (None, {"frequency": "hour"}, "immediately, then every hour after each start"),
        (None, {"frequency": "day", "schedule": {"hours": 5}}, "immediately, then at 05:25 every day"),
        (
            "2025-01-01",
            {"frequency": "day", "count": 1200, "endTime": "2026-01-01T05:06:07Z"},
            "every day, from 2025-01-01 00:00 UTC, until 2026-01-01 05:06:07 UTC, at most 1,200 times",
        ),
        (
            None,
            {"frequency": "day", "count": 1},
            "immediately, then every day after each start, at most once",
        ),
    ],
)
def test_the_sentence_tells_the_beginning_and_the_end(start, recurrence, sentence):
    assert described(start, **recurrence) == sentence


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (112, "112th"),
    ],
)
def test_ordinals(number, word):
    assert ordinal(number) == word
