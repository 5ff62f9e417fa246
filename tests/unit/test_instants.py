"""Instants as whole numbers: nothing is lost on the way there and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis.strategies import datetimes, just

from backstay.domain.instants import instant, micros, micros_in


@given(datetimes(timezones=just(UTC)))
def test_an_instant_comes_back_as_it_was(moment: datetime):
    assert instant(micros(moment)) == moment


def test_they_count_microseconds_since_1970_and_before_it_backwards():
    assert micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000_000
    assert micros(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert micros_in(timedelta(days=1, microseconds=3)) == 86_400_000_003
