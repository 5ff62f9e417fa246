"""How long calls took lately: counted by size, and added up over processes."""

from __future__ import annotations

import statistics
from random import Random

import msgspec
import pytest

from backstay.domain.latency import HALF_SECONDS, SIZES, Calls, Recently, together


def counted(*seconds: float, failed: int = 0) -> Calls:
    recently = Recently(0)
    for one in seconds:
        recently.ended(one)
    for _ in range(failed):
        recently.failed()
    return recently.read(1)


def test_without_calls_there_is_no_percentile():
    assert counted() == Calls()
    assert counted().within(0.5) is None


def test_calls_are_counted_and_so_are_those_of_them_that_failed():
    calls = counted(0.01, 0.02, 30, failed=1)

    assert (calls.number, calls.failed) == (3, 1)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("median", [0.0004, 0.02, 3.0])
def test_a_percentile_is_off_by_a_few_of_a_hundred_where_there_are_many_calls(share: float, median: float):
    chance = Random(7)
    seconds = [median * chance.lognormvariate(0, 1) for _ in range(5_000)]
    exact = statistics.quantiles(seconds, n=100)[round(share * 100) - 1]

    assert counted(*seconds).within(share) == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("seconds", [0.0002, 0.011, 0.7, 45, 3_000])
def test_a_percentile_of_one_call_is_off_by_a_quarter_at_the_most(seconds: float):
    assert counted(seconds).within(0.99) == pytest.approx(seconds, rel=0.26)


def test_what_is_below_and_above_all_sizes_is_counted_with_the_nearest():
    assert 0 < (counted(0, 1e-9).within(1) or 0) <= SIZES[0]
    assert counted(10**9).within(0.5) == SIZES[-1]


def test_several_processes_are_one_population():
    quick, slow = counted(*[0.01] * 99), counted(*[5.0] * 99, failed=9)

    both = together([quick, slow, Calls()])

    assert (both.number, both.failed) == (198, 9)
    assert both.within(0.49) == pytest.approx(0.01, rel=0.26)
    assert both.within(0.51) == pytest.approx(5, rel=0.26)


def test_what_is_older_than_a_minute_is_forgotten_and_what_is_younger_than_half_a_minute_is_not():
    recently = Recently(0)
    recently.ended(1)
    recently.failed()

    assert recently.read(HALF_SECONDS - 1).number == 1
    assert recently.read(HALF_SECONDS).number == 1
    recently.ended(1)
    assert recently.read(HALF_SECONDS + 10).number == 2
    last = recently.read(2 * HALF_SECONDS)
    assert (last.number, last.failed) == (1, 0)
    assert recently.read(3 * HALF_SECONDS) == Calls()


def test_after_a_long_silence_nothing_is_recent():
    recently = Recently(0)
    recently.ended(1)

    assert recently.read(2 * HALF_SECONDS) == Calls()
    assert recently.read(2 * HALF_SECONDS + 1) == Calls()


def test_a_report_of_it_is_short_and_read_back_as_it_was():
    chance = Random(7)
    calls = counted(*(chance.lognormvariate(-4, 1) for _ in range(100_000)), failed=17)

    stored = msgspec.json.encode(calls)

    assert msgspec.json.decode(stored, type=Calls) == calls
    assert len(stored) < 600
