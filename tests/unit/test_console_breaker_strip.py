"""What breakers did, as a strip: records and an instant in, places and words out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backstay.console.breaker_strip import LONGEST, Stretch, history
from backstay.domain.breaker import BreakerState
from backstay.store.base import BreakerTurn
from backstay.views import AgentInstance

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def turn(seconds_ago: float, state: BreakerState, **more: object) -> BreakerTurn:
    return BreakerTurn(at=NOW - timedelta(seconds=seconds_ago), state=state, **more)  # type: ignore[arg-type]


def process(id: str, *turns: BreakerTurn) -> AgentInstance:
    return AgentInstance(
        id=id,
        in_flight=0,
        waiting=0,
        concurrency=None,
        concurrency_max=None,
        breaker="closed",
        open_until=None,
        breaker_turns=list(turns),
    )


def test_a_breaker_that_never_turned_is_not_drawn():
    assert history([process("a")], now=NOW).strips == []
    assert history([], now=NOW).turns == []


def test_each_stretch_lasts_until_the_next_turn_and_the_last_until_now():
    [strip] = history([process("a", turn(120, OPEN), turn(60, HALF_OPEN), turn(30, CLOSED))], now=NOW).strips

    assert strip.stretches == [
        Stretch(state="open", left=0, width=50),
        Stretch(state="half_open", left=50, width=25),
        Stretch(state="closed", left=75, width=25),
    ]


def test_all_strips_show_the_same_time_since_the_oldest_turn():
    told = history([process("a", turn(600, OPEN)), process("b"), process("c", turn(150, OPEN))], now=NOW)

    assert [(strip.process, strip.stretches[0].left) for strip in told.strips] == [("a", 0), ("c", 75)]
    assert told.length == "10m"


def test_what_was_long_ago_is_told_and_not_drawn():
    hour = LONGEST.total_seconds()

    told = history([process("a", turn(3 * hour, OPEN), turn(2 * hour, CLOSED))], now=NOW)

    [strip] = told.strips
    assert [one.state for one in strip.stretches] == ["closed"]
    assert strip.stretches[0] == Stretch(state="closed", left=0, width=100)
    assert len(told.turns) == 2


@pytest.mark.parametrize("ago", [0.001, 119.999])
def test_nothing_is_too_short_to_be_seen_or_beyond_the_end(ago: float):
    [strip] = history(
        [process("a", turn(ago, OPEN), turn(ago - 0.001, HALF_OPEN), turn(ago - 0.001, CLOSED))], now=NOW
    ).strips

    assert all(one.width > 0 and one.left + one.width <= 100 for one in strip.stretches)


def test_turns_are_told_newest_first_with_why():
    a = process("a", turn(9, OPEN, failures=1, error="Down: away"), turn(7, HALF_OPEN), turn(5, CLOSED))
    b = process("b", turn(8, HALF_OPEN), turn(6, OPEN, failures=1), turn(4, OPEN, failures=1_200))

    told = history([a, b], now=NOW).turns

    assert [(one.process, one.why) for one in told] == [
        ("b", "1,200 failures, the last"),
        ("a", "the probe succeeded"),
        ("b", "the probe failed"),
        ("a", "its time was over, and a probe was let through"),
        ("b", "its time was over, and a probe was let through"),
        ("a", "1 failure: Down: away"),
    ]
