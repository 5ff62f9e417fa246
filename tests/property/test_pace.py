"""The limit of a pace, whatever its service does."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.pace import Call, Governor, Pace

ENDS = st.sampled_from(["answered", "failed", "withdrawn"])
CALLS = st.lists(st.tuples(ENDS, st.floats(0, 1e6), st.integers(1, 60)), max_size=100)

#: Enough to learn anew at the least, and to grow from there.
WELL = 20_000


@given(least=st.integers(1, 500), most=st.integers(1, 500), calls=CALLS, tolerance=st.floats(1.5, 100))
def test_the_limit_stays_within_its_bounds_and_moves_once_for_calls_that_were_under_way(
    least: int, most: int, calls: list[tuple[str, float, int]], tolerance: float
):
    pace = Governor(Pace(least=least, tolerance=tolerance), most=most)

    for ends, seconds, number in calls:
        under_way = [pace.began(0.0, in_flight=pace.limit) for _ in range(number)]
        limits = [pace.limit]
        for call in under_way:
            end(pace, call, ends, seconds)
            limits.append(pace.limit)
        assert all(min(least, most) <= limit <= most for limit in limits)
        assert sum(was != now for was, now in pairwise(limits)) <= 1


@given(least=st.integers(1, 50), most=st.integers(50, 500), before=CALLS)
def test_whatever_has_been_a_service_that_answers_well_is_used_fully_in_the_end(
    least: int, most: int, before: list[tuple[str, float, int]]
):
    pace = Governor(Pace(least=least), most=most)
    for ends, seconds, number in before:
        for call in [pace.began(0.0, in_flight=pace.limit) for _ in range(number)]:
            end(pace, call, ends, seconds)

    for _ in range(WELL):
        call = pace.began(0.0, in_flight=pace.limit)
        pace.answered(call, "work", 0.05)
        if pace.limit == most:
            break

    assert pace.limit == most


def end(pace: Governor, call: Call, how: str, seconds: float) -> None:
    if how == "answered":
        pace.answered(call, "work", seconds)
    elif how == "failed":
        pace.failed(call)
    else:
        pace.withdrawn(call)
