"""The pace: seconds are handed in, nothing waits."""

from __future__ import annotations

import pytest

from backstay import App
from backstay.domain.pace import CALLS_MIN, LEAST_MAX, Call, Governor, Pace
from backstay.errors import InvalidRequest

USUAL = 0.1


def governor(most: int = 100, **policy: float) -> Governor:
    return Governor(Pace(**policy), most=most)  # type: ignore[arg-type]


def begin(pace: Governor, number: int, at: float = 0.0) -> list[Call]:
    return [pace.began(at, in_flight=pace.limit) for _ in range(number)]


def a_round(pace: Governor, *, seconds: float = USUAL, kind: str = "work") -> None:
    """As many calls as a round has, all of them answered after so many ``seconds``."""
    for call in begin(pace, max(CALLS_MIN, pace.limit)):
        pace.answered(call, kind, call.began_at + seconds)


def grown(to: int, most: int = 100) -> Governor:
    pace = governor(most)
    for _ in range(1000):
        if pace.limit >= to:
            return pace
        a_round(pace)
    raise AssertionError(f"it did not grow beyond {pace.limit}")


def test_it_begins_with_the_least_and_learns_before_it_grows():
    pace = governor(least=5)

    assert pace.limit == 5
    a_round(pace)
    assert pace.limit == 5
    a_round(pace)
    assert pace.limit == 7


def test_a_round_in_which_the_limit_was_not_reached_is_no_reason_to_raise_it():
    pace = grown(20)
    before = pace.limit

    for _ in range(200):
        call = pace.began(0.0, in_flight=pace.limit - 1)
        pace.answered(call, "work", USUAL)

    assert pace.limit == before


def test_calls_that_take_longer_than_tolerated_lower_it_below_what_fills_the_service():
    pace = grown(50)
    before = pace.limit

    a_round(pace, seconds=2.1 * USUAL)

    assert before * 0.35 <= pace.limit <= before * 0.5


def test_calls_that_began_before_it_was_lowered_do_not_lower_it_again():
    """At most once per round trip."""
    pace = grown(50)
    calls = begin(pace, 200)

    for call in calls[:40]:
        pace.failed(call)
    after_some = pace.limit
    for call in calls[40:]:
        pace.failed(call)

    assert after_some == pace.limit
    assert pace.limit >= 25


def test_one_failure_in_ten_is_tolerated_and_more_are_not():
    pace = grown(100)

    calls = begin(pace, 100)
    for call in calls[:10]:
        pace.failed(call)
    assert pace.limit == 100
    pace.failed(calls[10])

    assert pace.limit == 50


def test_a_few_calls_that_never_answer_do_not_hold_up_the_judgement():
    pace = grown(20)
    before = pace.limit

    hanging, *others = begin(pace, max(CALLS_MIN, pace.limit))
    for call in others:
        pace.answered(call, "work", USUAL)

    assert pace.limit > before
    pace.failed(hanging)
    assert pace.limit > before


def test_a_call_that_was_withdrawn_is_replaced():
    pace = grown(20)
    before = pace.limit

    for call in begin(pace, 1000):
        pace.withdrawn(call)
    a_round(pace)

    assert pace.limit > before


def test_a_slow_operation_is_not_a_service_that_has_slowed():
    """Each kind of call is compared with its own best."""
    pace = grown(50)
    before = pace.limit

    for _ in range(3):
        a_round(pace, kind="report", seconds=50 * USUAL)

    assert pace.limit > before


def test_left_alone_it_begins_with_the_least():
    pace = grown(50)

    pace.begin_again()

    assert pace.limit == 1


def test_bodies_that_call_nobody_are_not_measured_by_how_busy_the_process_is():
    pace = governor()
    for number in range(30):
        a_round(pace, seconds=0.000_01 * (1 + number))

    assert pace.limit == 100


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"least": 0}, "Pace.least is 0"),
        ({"least": LEAST_MAX + 1}, "Pace.least is 10001"),
        ({"tolerance": 1.0}, "Pace.tolerance is 1.0"),
        ({"tolerance": float("nan")}, "Pace.tolerance is nan"),
        ({"tolerance": 1000}, "Pace.tolerance is 1000"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(policy: dict[str, float], named: str):
    with pytest.raises(InvalidRequest, match=named):
        Pace(**policy)  # type: ignore[arg-type]


def test_an_agent_with_a_pace_says_what_it_may_reach():
    app = App("shop")

    with pytest.raises(
        InvalidRequest, match="agent 'bank' has a pace and no concurrency; say with concurrency="
    ):
        app.agent("bank", pace=True)
    with pytest.raises(
        InvalidRequest, match="least is 20; it must not be more than concurrency, which is 10"
    ):
        app.agent("bank", pace=Pace(least=20), concurrency=10)


def test_without_a_pace_nothing_is_kept():
    app = App("shop")

    assert app.agent("bank", concurrency=10).pace is None
    assert app.agent("stock", concurrency=10, pace=False).pace is None
    assert app.http_agent("drone", "http://drone", pace=True).pace == Pace()
