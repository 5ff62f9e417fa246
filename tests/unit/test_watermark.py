from __future__ import annotations

import pytest

from backstay.domain.watermark import Watermark


def marked(start: int, *offsets: int) -> Watermark:
    mark = Watermark(start)
    for offset in offsets:
        mark.read(offset)
    return mark


def test_with_nothing_in_hand_the_mark_is_where_reading_goes_on():
    mark = Watermark(7)

    assert (mark.low, mark.next, mark.in_hand) == (7, 7, 0)


def test_what_is_read_moves_where_reading_goes_on_and_not_the_mark():
    mark = marked(7, 7, 8, 9)

    assert (mark.low, mark.next, mark.in_hand) == (7, 10, 3)


def test_the_mark_waits_for_the_oldest_and_then_passes_all_that_are_in_a_row():
    mark = marked(0, 0, 1, 2, 3)

    marks = []
    for offset in (2, 1, 0, 3):
        mark.finish(offset)
        marks.append((mark.low, mark.in_hand))

    assert marks == [(0, 4), (0, 4), (3, 1), (4, 0)]


def test_offsets_that_are_left_out_hold_nothing_up():
    mark = marked(0, 3, 4, 9)
    assert mark.low == 3

    mark.finish(3)
    mark.finish(4)
    assert mark.low == 9

    mark.finish(9)
    assert mark.low == 10


def test_a_gap_at_the_end_is_passed_once_nothing_is_in_hand():
    mark = marked(0, 0)
    mark.skip(5)
    assert (mark.low, mark.next) == (0, 5)

    mark.finish(0)
    assert (mark.low, mark.next) == (5, 5)

    mark.skip(8)
    assert (mark.low, mark.next) == (8, 8)


def test_reading_never_goes_back():
    mark = marked(0, 4)

    with pytest.raises(AssertionError, match="offset 4 was read after 4"):
        mark.read(4)
    mark.skip(2)
    assert mark.next == 5


def test_a_million_that_are_finished_in_order_leave_nothing_behind():
    mark = Watermark(0)
    for offset in range(1_000_000):
        mark.read(offset)
        mark.finish(offset)

    assert (mark.low, mark.in_hand, len(mark._finished)) == (1_000_000, 0, 0)
