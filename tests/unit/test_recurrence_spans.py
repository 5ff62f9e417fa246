"""Durations of job documents, in the two notations that clients use."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.durations import LONGEST
from backstay.domain.recurrence import Notation, Span, read_span
from backstay.errors import InvalidJob


@pytest.mark.parametrize(
    ("written", "meant", "written_back"),
    [
        ("PT30S", timedelta(seconds=30), "PT30S"),
        ("PT1M", timedelta(minutes=1), "PT1M"),
        ("PT90S", timedelta(seconds=90), "PT1M30S"),
        ("PT1D", timedelta(days=1), "P1D"),
        ("P30D", timedelta(days=30), "P30D"),
        ("P2W", timedelta(days=14), "P14D"),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5), "P1DT2H3M4.5S"),
        ("PT0S", timedelta(0), "PT0S"),
        ("P0D", timedelta(0), "PT0S"),
        ("pt5m", timedelta(minutes=5), "PT5M"),
        ("00:00:30", timedelta(seconds=30), "00:00:30"),
        ("00:01:00", timedelta(minutes=1), "00:01:00"),
        ("01:30", timedelta(minutes=90), "01:30:00"),
        ("30.00:00:00", timedelta(days=30), "30.00:00:00"),
        ("1.02:03:04.5000000", timedelta(days=1, hours=2, minutes=3, seconds=4.5), "1.02:03:04.5000000"),
        ("00:00:00", timedelta(0), "00:00:00"),
    ],
)
def test_a_duration_is_written_back_in_its_own_notation(written: str, meant: timedelta, written_back: str):
    span = read_span(written, "retryInterval")

    assert span.length == meant
    assert span.text == written_back


@given(
    st.timedeltas(min_value=timedelta(0), max_value=LONGEST),
    st.sampled_from(Notation),
)
def test_every_duration_is_read_as_it_was_written(length: timedelta, notation: Notation):
    span = Span(length, notation)

    assert read_span(span.text, "retryInterval") == span


@pytest.mark.parametrize(
    "written",
    [
        "", "P", "PT", "P1DT", "P1Y", "P1M", "PT1M2H", "-PT1S", "PT1.5H", "1", "30", "24:00:00", "00:60:00",
        "00:00:60", "1:00:00", "-00:01:00", "00:01:00.", "PT5M\n", "\u0665.00:00:00", "5s",
        30, None, ["PT1S"],
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_examples_of_both(written: object):
    with pytest.raises(InvalidJob, match=r'^retryInterval is .*; write .* "00:00:30" .* "PT30S"'):
        read_span(written, "retryInterval")


@pytest.mark.parametrize("written", ["P36526D", "36526.00:00:00", "P99999999W", "PT999999999999S"])
def test_more_than_a_century_is_refused(written: str):
    with pytest.raises(InvalidJob, match=rf"^retryInterval is {written}; write at most 100 years"):
        read_span(written, "retryInterval")
