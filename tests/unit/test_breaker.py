"""The circuit breaker: seconds are handed in, nothing waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.breaker import FAILURES_MAX, TURNS_MAX, Breaker, BreakerState, Circuit, Turn
from backstay.errors import InvalidRequest

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def circuit(**policy: object) -> Circuit:
    """Three failures within ten seconds open it for thirty."""
    return Circuit(Breaker(**{"failures": 3, "within": "10s", "open_for": "30s", **policy}))  # type: ignore[arg-type]


def opened(at: float = 0.0, **policy: object) -> Circuit:
    breaker = circuit(**policy)
    for _ in range(3):
        breaker.failed(at)
    assert breaker.state(at) is OPEN
    return breaker


def test_a_closed_breaker_lets_everything_through():
    breaker = circuit()

    assert breaker.state(0) is CLOSED
    assert all(breaker.admit(0) for _ in range(1000))
    assert breaker.retry_at(5) == 5


def test_enough_failures_within_the_window_open_it():
    breaker = circuit()

    for now in (0, 4, 10):
        assert breaker.state(now) is CLOSED
        breaker.failed(now)

    assert breaker.state(10) is OPEN
    assert not breaker.admit(39.9)
    assert breaker.retry_at(10) == 40


def test_failures_further_apart_than_the_window_leave_it_closed():
    breaker = circuit()

    for now in (0, 4, 10.1, 15, 20.2, 26):
        breaker.failed(now)

    assert breaker.state(26) is CLOSED


def test_successes_in_between_do_not_wash_failures_away():
    breaker = circuit()

    for now in (0, 1, 2):
        breaker.succeeded(now)
        breaker.failed(now)

    assert breaker.state(2) is OPEN


def test_when_its_time_is_over_it_lets_one_probe_through():
    breaker = opened(at=0)

    assert breaker.state(30) is HALF_OPEN
    assert [breaker.admit(30) for _ in range(3)] == [True, False, False]


def test_it_lets_as_many_probes_through_as_the_policy_says():
    breaker = opened(at=0, probes=2)

    assert [breaker.admit(30) for _ in range(3)] == [True, True, False]


def test_a_probe_that_succeeds_closes_it_with_a_clean_record():
    breaker = opened(at=0)
    breaker.admit(30)

    breaker.succeeded(30)

    assert breaker.state(30) is CLOSED
    breaker.failed(30)
    breaker.failed(30)
    assert breaker.state(30) is CLOSED


def test_each_time_the_probes_fail_it_stays_open_twice_as_long_up_to_the_longest_time():
    breaker, now, times = opened(at=0, open_for_max="100s"), 30.0, []

    for _ in range(4):
        assert breaker.admit(now)
        breaker.failed(now)
        times.append(breaker.retry_at(now) - now)
        now = breaker.retry_at(now)

    assert times == [60, 100, 100, 100]


def test_after_it_closed_the_open_time_is_short_again():
    breaker = opened(at=0)
    breaker.admit(30)
    breaker.failed(30)
    breaker.admit(90)
    breaker.succeeded(90)

    for _ in range(3):
        breaker.failed(100)

    assert breaker.retry_at(100) == 130


def test_it_remembers_when_it_turned_and_what_opened_it():
    breaker = circuit()
    for now in (0, 1, 2):
        breaker.failed(now, f"error {now}")
    breaker.failed(3, "one that began before it opened")
    breaker.admit(32)
    breaker.admit(32)
    breaker.failed(33, "still down")
    breaker.admit(93)
    breaker.succeeded(94)

    assert list(breaker.turns) == [
        Turn(2, OPEN, 3, "error 2"),
        Turn(32, HALF_OPEN),
        Turn(33, OPEN, 1, "still down"),
        Turn(93, HALF_OPEN),
        Turn(94, CLOSED),
    ]


def test_it_remembers_no_more_turns_than_it_reports():
    breaker, now = opened(at=0), 30.0

    for _ in range(TURNS_MAX):
        breaker.admit(now)
        breaker.failed(now)
        now = breaker.retry_at(now)

    assert len(breaker.turns) == TURNS_MAX
    assert breaker.turns[-1].state is OPEN


def test_endless_openings_do_not_overflow():
    breaker, now = opened(at=0, open_for_max="36525d"), 30.0

    for _ in range(200):
        breaker.admit(now)
        breaker.failed(now)
        now = breaker.retry_at(now)

    assert breaker.state(now - 1) is OPEN


def test_a_failure_that_arrives_while_it_is_open_changes_nothing():
    breaker = opened(at=0)

    breaker.failed(20)

    assert breaker.retry_at(20) == 30


def test_a_success_that_arrives_while_it_is_open_does_not_close_it():
    breaker = opened(at=0)

    breaker.succeeded(20)

    assert breaker.state(20) is OPEN


def test_an_old_failure_that_arrives_while_no_probe_is_out_does_not_open_it_again():
    breaker = opened(at=0)

    breaker.failed(31)

    assert breaker.state(31) is HALF_OPEN
    assert breaker.admit(31)


def test_a_withdrawn_probe_makes_room_for_another():
    breaker = opened(at=0)
    assert breaker.admit(30)

    breaker.withdraw()

    assert breaker.state(30) is HALF_OPEN
    assert [breaker.admit(30), breaker.admit(30)] == [True, False]


def test_a_withdrawn_call_of_a_closed_breaker_makes_no_extra_room_later():
    breaker = circuit()
    breaker.admit(0)
    breaker.withdraw()
    for _ in range(3):
        breaker.failed(0)

    assert [breaker.admit(30), breaker.admit(30)] == [True, False]


def test_a_breaker_of_one_failure_opens_at_the_first():
    breaker = circuit(failures=1)

    breaker.failed(0)

    assert breaker.state(0) is OPEN


def test_the_longest_open_time_is_never_below_the_first():
    assert Breaker(open_for="10m", open_for_max="5m").open_for_max == timedelta(minutes=10)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"failures": 0}, "Breaker.failures is 0"),
        ({"failures": FAILURES_MAX + 1}, "Breaker.failures is 10001; it must lie between 1 and 10,000"),
        ({"probes": 0}, "Breaker.probes is 0; it must be at least 1"),
        ({"within": "ten"}, "Breaker.within is 'ten'"),
        ({"open_for": timedelta(-1)}, "Breaker.open_for is -1d"),
        ({"open_for_max": "x"}, "Breaker.open_for_max is 'x'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, object], complaint: str):
    with pytest.raises(InvalidRequest, match=complaint):
        Breaker(**wrong)  # type: ignore[arg-type]
