"""Which events may go: the oldest of all first, below their floors, no more than must."""

from __future__ import annotations

from typing import Any

from backstay.messaging.embedded.forgetting import Old, removable
from backstay.messaging.embedded.rows import base_of, offset_of


def old(number: int, offset: int, *, at: int, size: int = 10) -> Old:
    return Old(number + 1, number, base_of(number + 1) + offset, at, size)


def gone(events: list[Old], floors: dict[int, int] | None = None, **given: Any) -> list[tuple[int, int]]:
    terms = {"each": 100, "before": 0, "excess": 0, "limit": 100, **given}
    return [(one.number, offset_of(one.place)) for one in removable(events, floors or {}, **terms)]


EVENTS = [
    old(0, 5, at=1),
    old(0, 6, at=4),
    old(0, 7, at=6),
    old(1, 0, at=2),
    old(1, 1, at=3),
    old(1, 2, at=7),
]


def test_nothing_goes_that_is_neither_too_old_nor_too_much():
    assert gone(EVENTS, before=1) == []


def test_what_is_too_old_goes_in_the_order_of_age_over_all_partitions():
    assert gone(EVENTS, before=6) == [(0, 5), (1, 0), (1, 1), (0, 6)]


def test_what_is_too_much_goes_until_it_is_no_longer():
    assert gone(EVENTS, excess=1) == [(0, 5)]
    assert gone(EVENTS, excess=20) == [(0, 5), (1, 0)]
    assert gone(EVENTS, excess=21) == [(0, 5), (1, 0), (1, 1)]


def test_what_is_too_old_counts_for_what_is_too_much():
    assert gone(EVENTS, before=3, excess=25) == [(0, 5), (1, 0), (1, 1)]


def test_a_floor_holds_its_own_partition_back_and_no_other():
    assert gone(EVENTS, {0: 6, 1: 100}, before=100) == [(0, 5), (1, 0), (1, 1), (1, 2)]
    assert gone(EVENTS, {0: 0}, before=100) == [(1, 0), (1, 1), (1, 2)]


def test_no_more_go_than_asked_for():
    assert gone(EVENTS, before=100, limit=2) == [(0, 5), (1, 0)]


def test_it_ends_where_the_next_of_a_partition_is_not_known():
    assert gone(EVENTS, before=100, each=3) == [(0, 5), (1, 0), (1, 1), (0, 6), (0, 7)]


def test_a_clock_that_went_back_does_not_let_an_event_go_before_its_forerunner():
    events = [old(0, 0, at=9), old(0, 1, at=1), old(1, 0, at=5)]

    assert gone(events, before=8) == [(1, 0)]
