"""The rules of the open-loop generator: which request is due when, and how latencies are counted."""

from __future__ import annotations

import random

import pytest

from bench.openloop.histogram import Histogram
from bench.openloop.outcome import Outcome, Tally
from bench.openloop.plan import MARK, Phase, Schedule, request_text


def taken(schedule: Schedule, now: float) -> list[float]:
    found = []
    while (due := schedule.take(now)) is not None:
        found.append(due)
    return found


def test_requests_are_due_at_even_intervals_one_phase_after_the_other():
    schedule = Schedule([Phase("slow", 1.0, rate=4), Phase("fast", 0.5, rate=8)], begin=100.0)

    assert taken(schedule, 99.9) == []
    assert taken(schedule, 100.0) == [100.0]
    assert taken(schedule, 100.8) == [100.25, 100.5, 100.75]
    assert schedule.phase == 0
    assert taken(schedule, 101.2) == [101.0, 101.125]
    assert schedule.phase == 1
    assert taken(schedule, 200.0) == [101.25, 101.375]
    assert schedule.is_over


def test_who_looks_late_finds_every_request_at_the_time_at_which_it_was_due():
    schedule = Schedule([Phase("all", 2.0, rate=1_000)], begin=0.0)

    found = taken(schedule, 10.0)

    assert found == pytest.approx([number / 1_000 for number in range(2_000)])


def test_without_a_rate_a_request_is_due_whenever_somebody_is_free_until_the_phase_ends():
    schedule = Schedule([Phase("as fast as it goes", 1.0), Phase("then", 1.0, rate=1)], begin=0.0)

    assert [schedule.take(now) for now in (0.0, 0.0, 0.3, 0.99)] == [0.0, 0.0, 0.3, 0.99]
    assert schedule.take(1.5) == 1.0
    assert schedule.phase == 1
    assert schedule.take(2.5) is None
    assert schedule.is_over


def test_what_nobody_sent_in_time_is_known_and_a_phase_without_a_rate_misses_nothing():
    schedule = Schedule([Phase("first", 1.0), Phase("then", 1.0, rate=2), Phase("last", 1.0)], begin=0.0)

    assert list(schedule.take_missed(0.5)) == []
    assert list(schedule.take_missed(1.2)) == [1.0]
    assert list(schedule.take_missed(2.5)) == [1.5]
    assert list(schedule.take_missed(9.0)) == []
    assert schedule.is_over


def test_a_request_says_how_long_its_body_is_whatever_its_number():
    text = request_text("/here", f'{{"n":"{MARK}"}}', host="there", headers={"Backstay-Key": "c1"})

    head, _, body = text.partition("\r\n\r\n")
    assert head.splitlines()[0] == "POST /here HTTP/1.1"
    assert f"Content-Length: {len(body)}" in head
    assert body.replace(MARK, "123456789") == '{"n":"123456789"}'


def test_percentiles_are_right_to_within_a_hundredth_and_never_too_low():
    chance, histogram = random.Random(7), Histogram()
    values = sorted(chance.lognormvariate(-6, 2) for _ in range(20_000))
    for value in values:
        histogram.record(value)

    for percent in (1, 50, 90, 99, 99.9):
        exact = values[int(len(values) * percent / 100) - 1] * 1_000
        assert exact - 0.001 <= histogram.percentile_ms(percent) <= exact * 1.008 + 0.001
    assert histogram.percentile_ms(100) == histogram.max_ms == pytest.approx(values[-1] * 1_000, abs=0.001)


def test_durations_beyond_an_hour_and_before_the_beginning_have_a_place_as_well():
    histogram = Histogram()
    for seconds in (-1.0, 0.0, 10_000.0):
        histogram.record(seconds)

    assert histogram.count == 3
    assert histogram.percentile_ms(1) == 0.0
    assert histogram.percentile_ms(100) >= 3_600_000


def test_without_anything_recorded_every_percentile_is_zero():
    assert Histogram().percentile_ms(99) == 0.0


def test_an_outcome_comes_out_of_another_process_as_it_went_in():
    tally = Tally("all", 0.0, 1.0, rate=5.0, due=3, accepted=1, timed_out=1)
    tally.failed["closed"] += 1
    for seconds in (0.001, 0.5, 30.0):
        tally.latencies.record(seconds)
    before = Outcome([tally], bytearray(b"\1\3\4"), connections_lost=2)

    after = Outcome.from_json(before.as_json(), fates=before.fates)

    assert after.as_json() == before.as_json()
    assert (after.fates, after.accepted, after.not_accepted) == (before.fates, 1, 2)
    assert after.phases[0].latencies.percentile_ms(50) == tally.latencies.percentile_ms(50)
