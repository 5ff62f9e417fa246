"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.durations import LONGEST, describe, duration
from backstay.errors import InvalidRequest


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("100ms", timedelta(milliseconds=100)),
        ("5s", timedelta(seconds=5)),
        ("2m", timedelta(minutes=2)),
        ("3h", timedelta(hours=3)),
        ("3d", timedelta(days=3)),
        ("0s", timedelta(0)),
        ("1.5s", timedelta(seconds=1, milliseconds=500)),
        ("0.25ms", timedelta(microseconds=250)),
        ("36525d", LONGEST),
        (timedelta(seconds=9), timedelta(seconds=9)),
    ],
)
def test_a_number_with_a_unit_is_a_duration(written: str | timedelta, meant: timedelta):
    assert duration(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "",
        "\u0665s",
        "5",
        "s",
        "5 s",
        " 5s",
        "5s ",
        "5S",
        "-5s",
        "+5s",
        "5sec",
        "1h30m",
        "1e3s",
        "nan",
        "5.s",
        ".5s",
        "5,5s",
        "1w",
    ],
)
def test_anything_else_is_refused_with_examples_of_what_would_do(written: str):
    with pytest.raises(InvalidRequest, match=r'lease is .*; write a number and a unit, as in "100ms" "5s"'):
        duration(written, name="lease")


@pytest.mark.parametrize("value", [5, 5.0, None, b"5s", True, ["5s"]])
def test_a_value_of_another_type_is_refused(value: object):
    with pytest.raises(InvalidRequest, match="write a number and a unit"):
        duration(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        "36525.000001d",
        "9999999999999.999999d",
        "3155760000001ms",
        timedelta.max,
        timedelta.min,
        timedelta(microseconds=-1),
    ],
)
def test_a_duration_outside_its_bounds_is_refused(value: str | timedelta):
    with pytest.raises(InvalidRequest, match="must lie between 0ms and 100 years"):
        duration(value)


def test_the_least_duration_itself_is_allowed_and_named_when_something_is_below_it():
    second = timedelta(seconds=1)

    assert duration("1s", least=second) == second
    with pytest.raises(InvalidRequest, match="heartbeat is 999ms; it must lie between 1s and 100 years"):
        duration("999ms", name="heartbeat", least=second)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(0), "0ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(hours=36), "36h"),
        (timedelta(days=3), "3d"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=1500), "0.0015s"),
        (timedelta(microseconds=1), "0.000001s"),
    ],
)
def test_a_duration_is_described_in_its_shortest_exact_form(value: timedelta, text: str):
    assert describe(value) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST))
def test_what_describes_a_duration_can_be_read_back(value: timedelta):
    assert duration(describe(value)) == value
