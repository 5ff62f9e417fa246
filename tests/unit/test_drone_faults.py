"""The faults that the services of the drone delivery are given: pure rules of dial, time and chance."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import quantiles

import msgspec
import pytest

from drone_delivery.services.faults import (
    LATENCY_MS_MAX,
    Dial,
    Failure,
    Faults,
    Latency,
    Setting,
    draw,
    in_force,
    turned,
)

DRAWS = 10_000
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def drawn(dial: Dial, *, seed: int = 1) -> list[Faults]:
    chance = Random(seed)
    return [draw(dial, chance) for _ in range(DRAWS)]


# What one request meets


def test_a_dial_that_nobody_turned_disturbs_nobody():
    assert set(drawn(Dial())) == {Faults()}


@pytest.mark.parametrize(("median", "p99"), [(20, 200), (5, 50), (100, 101)])
def test_latencies_have_the_median_and_the_99th_percentile_that_were_asked_for(median: float, p99: float):
    dial = Dial(latency_ms=Latency(median=median, p99=p99))

    faults = drawn(dial)

    cuts = quantiles([(each.seconds_before + each.seconds_after) * 1_000 for each in faults], n=100)
    assert cuts[49] == pytest.approx(median, rel=0.05)
    assert cuts[98] == pytest.approx(p99, rel=0.12)


def test_half_of_a_latency_lies_before_the_work_and_half_after_it():
    dial = Dial(latency_ms=Latency(median=20, p99=200))

    faults = drawn(dial)

    assert all(each.seconds_before == each.seconds_after > 0 for each in faults)


def test_equal_median_and_99th_percentile_are_a_constant():
    dial = Dial(latency_ms=Latency(median=30, p99=30))

    faults = drawn(dial)

    assert {round(each.seconds_before * 2_000, 6) for each in faults} == {30}


def test_no_latency_is_longer_than_any_may_be():
    dial = Dial(latency_ms=Latency(median=LATENCY_MS_MAX, p99=LATENCY_MS_MAX))
    steep = Dial(latency_ms=Latency(median=0.001, p99=LATENCY_MS_MAX))

    faults = drawn(dial) + drawn(steep)

    assert max(each.seconds_before + each.seconds_after for each in faults) == LATENCY_MS_MAX / 1_000


@pytest.mark.parametrize("rate", [0.02, 0.5, 1.0])
def test_half_of_the_errors_come_before_the_work_and_half_after_it(rate: float):
    faults = drawn(Dial(error_rate=rate))

    counts = Counter(each.failure for each in faults)
    assert counts[Failure.BEFORE_WORK] == pytest.approx(DRAWS * rate / 2, rel=0.2)
    assert counts[Failure.AFTER_WORK] == pytest.approx(DRAWS * rate / 2, rel=0.2)
    assert counts.keys() <= {Failure.BEFORE_WORK, Failure.AFTER_WORK, None}
    assert (counts[None] == 0) == (rate == 1)


def test_an_outage_refuses_at_once_whatever_else_is_dialled():
    dial = Dial(outage=True, hang=True, error_rate=0.5, latency_ms=Latency(median=20, p99=200))

    assert set(drawn(dial)) == {Faults(Failure.OUTAGE)}


def test_a_hang_holds_every_request():
    assert set(drawn(Dial(hang=True, error_rate=0.5))) == {Faults(Failure.HANG)}


def test_the_same_seed_draws_the_same_faults():
    dial = Dial(error_rate=0.1, latency_ms=Latency(median=20, p99=200))

    assert drawn(dial, seed=3) == drawn(dial, seed=3)
    assert drawn(dial, seed=3) != drawn(dial, seed=4)


# How long a dial holds


def test_an_outage_with_an_end_tells_what_is_left_of_it():
    setting = turned(Dial(outage=True, for_seconds=10), NOON)

    later = in_force(setting, NOON + timedelta(seconds=4))

    assert later == Dial(outage=True, for_seconds=6)


@pytest.mark.parametrize("fault", [{"outage": True}, {"hang": True}])
def test_an_outage_or_a_hang_ends_by_itself_and_other_faults_stay(fault: dict[str, bool]):
    latency = Latency(median=20, p99=200)
    dial = Dial(for_seconds=10, error_rate=0.5, latency_ms=latency, **fault)

    over = in_force(turned(dial, NOON), NOON + timedelta(seconds=10))

    assert over == Dial(error_rate=0.5, latency_ms=latency)


def test_a_dial_without_an_end_stays_as_it_is():
    setting = turned(Dial(outage=True), NOON)

    assert in_force(setting, NOON + timedelta(days=365)) == Dial(outage=True)


def test_what_was_dialled_is_read_back_with_its_end():
    setting = turned(Dial(hang=True, for_seconds=10), NOON)

    read = msgspec.json.decode(msgspec.json.encode(setting), type=Setting)

    assert read == setting


# What may be dialled


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'{"errorRate": 1.5}', r"<= 1.*errorRate"),
        (b'{"errorRate": -0.1}', r">= 0.*errorRate"),
        (b'{"errorRate": "1"}', r"errorRate"),
        (b'{"latencyMs": {"median": 5, "p99": 60001}}', r"<= 60000.*latencyMs\.p99"),
        (b'{"latencyMs": {"median": 0, "p99": 1}}', r">= 0\.001.*latencyMs\.median"),
        (b'{"latencyMs": {"median": 6, "p99": 5}}', r"median may be p99 at most.*latencyMs"),
        (b'{"latencyMs": {"median": 6}}', r"p99"),
        (b'{"forSeconds": 3601}', r"<= 3600.*forSeconds"),
        (b'{"forSeconds": -1}', r">= 0.*forSeconds"),
        (b'{"outage": 1}', r"outage"),
        (b'{"jitter": 1}', r"jitter"),
    ],
)
def test_a_dial_that_cannot_be_is_refused_with_the_field_and_its_limit(sent: bytes, said: str):
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(sent, type=Dial)
