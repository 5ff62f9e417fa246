"""How long an agent waits before it tries again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.retry import ATTEMPTS_MAX, FACTOR_MAX, RETRY_AFTER_MAX, Retry
from backstay.errors import InvalidRequest


def never() -> float:
    raise AssertionError("without jitter nothing is left to chance")


def test_each_pause_is_longer_than_the_one_before_up_to_the_cap():
    retry = Retry(attempts=7, first="100ms", factor=2, cap="1s", jitter=False)

    pauses = [retry.delay_after(tries, never) for tries in range(1, 7)]

    assert pauses == [timedelta(milliseconds=pause) for pause in (100, 200, 400, 800, 1000, 1000)]


@pytest.mark.parametrize("tries", [4, 5, 1000])
def test_there_is_no_pause_after_the_last_try(tries: int):
    assert Retry(attempts=4).delay_after(tries, never) is None


def test_a_single_attempt_is_never_repeated():
    assert Retry(attempts=1).delay_after(1, never) is None


def test_a_factor_of_one_keeps_the_pause_as_it_is():
    retry = Retry(attempts=100, first="3s", factor=1, cap="1h", jitter=False)

    assert {retry.delay_after(tries, never) for tries in range(1, 100)} == {timedelta(seconds=3)}


def test_a_cap_below_the_first_pause_wins():
    assert Retry(first="5s", cap="2s", jitter=False).delay_after(1, never) == timedelta(seconds=2)


def test_a_first_pause_of_nothing_stays_nothing():
    retry = Retry(attempts=10, first="0s", cap="2s", jitter=False)

    assert {retry.delay_after(tries, never) for tries in range(1, 10)} == {timedelta(0)}


@pytest.mark.parametrize(("chance", "pause_ms"), [(0.0, 50), (0.5, 75), (0.999999999, 100)])
def test_jitter_draws_between_half_of_the_pause_and_the_whole(chance: float, pause_ms: int):
    pause = Retry(first="100ms", jitter=True).delay_after(1, lambda: chance)

    assert pause is not None
    assert pause == pytest.approx(timedelta(milliseconds=pause_ms), abs=timedelta(microseconds=1))


# What a service asks for


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        (None, timedelta(seconds=2)),
        (timedelta(0), timedelta(seconds=2)),
        (timedelta(-1), timedelta(seconds=2)),
        (timedelta(seconds=1), timedelta(seconds=2)),
        (timedelta(seconds=3), timedelta(seconds=3)),
        (timedelta(days=400), RETRY_AFTER_MAX),
        (timedelta.max, RETRY_AFTER_MAX),
    ],
)
def test_a_pause_is_not_shorter_than_the_service_asked_for_whatever_the_cap(
    asked: timedelta | None, pause: timedelta
):
    retry = Retry(first="5s", cap="2s", jitter=False)

    assert retry.delay_after(1, never, retry_after=asked) == pause


def test_a_service_that_asks_for_time_is_given_no_more_tries_than_others():
    assert Retry(attempts=2).delay_after(2, never, retry_after=timedelta(seconds=1)) is None


@given(
    tries=st.integers(1, ATTEMPTS_MAX),
    factor=st.floats(1, FACTOR_MAX),
    first=st.timedeltas(timedelta(0), timedelta(days=36_525)),
    cap=st.timedeltas(timedelta(0), timedelta(days=36_525)),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_no_policy_overflows_or_passes_its_cap(
    tries: int, factor: float, first: timedelta, cap: timedelta, chance: float
):
    retry = Retry(attempts=ATTEMPTS_MAX, first=first, factor=factor, cap=cap)

    pause = retry.delay_after(tries, lambda: chance)

    assert (pause is None) == (tries == ATTEMPTS_MAX)
    assert pause is None or timedelta(0) <= pause <= max(cap, timedelta(0))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"attempts": 0}, "Retry.attempts is 0; it must lie between 1 and 1,000"),
        ({"attempts": 1001}, "Retry.attempts is 1001"),
        ({"factor": 0.99}, "Retry.factor is 0.99; it must lie between 1 and 1,000"),
        ({"factor": 1001}, "Retry.factor is 1001"),
        ({"factor": float("inf")}, "Retry.factor is inf"),
        ({"factor": float("nan")}, "Retry.factor is nan"),
        ({"first": "soon"}, "Retry.first is 'soon'"),
        ({"cap": timedelta(-1)}, "Retry.cap is -1d"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, object], complaint: str):
    with pytest.raises(InvalidRequest, match=complaint):
        Retry(**wrong)  # type: ignore[arg-type]
