"""The rules by which a bench judges what it sent: what is lost, what is twice there, what happened when."""

from __future__ import annotations

import pytest

from bench.openloop.outcome import Fate
from bench.streaming.course import course_of
from bench.streaming.reconcile import Reconciled, compared


def test_what_was_acknowledged_is_there_exactly_once():
    fates = bytes([Fate.ACCEPTED] * 3)

    assert compared(fates, b"\1\1\1", lines=1) == Reconciled(acknowledged=3, lost=0, doubled=0, unsaid=0)


def test_what_was_acknowledged_and_is_not_there_is_lost_and_what_is_there_twice_is_doubled():
    fates = bytes([Fate.ACCEPTED] * 3)

    assert compared(fates, b"\1\0\2", lines=1) == Reconciled(acknowledged=3, lost=1, doubled=1, unsaid=0)


@pytest.mark.parametrize("fate", [Fate.FAILED, Fate.TIMED_OUT, Fate.REFUSED])
def test_what_was_not_acknowledged_may_be_there_or_not_but_not_twice(fate):
    fates = bytes([fate] * 3)

    assert compared(fates, b"\0\1\2", lines=1) == Reconciled(acknowledged=0, lost=0, doubled=1, unsaid=2)


def test_a_line_that_is_there_twice_does_not_make_up_for_one_that_is_missing():
    fates = bytes([Fate.ACCEPTED, Fate.FAILED])

    found = compared(fates, b"\1\2\0" + b"\1\0\0", lines=3)

    assert found == Reconciled(acknowledged=3, lost=1, doubled=1, unsaid=1)


def test_time_is_cut_into_buckets_with_what_came_was_done_and_waited():
    came = {1: 10.0, 2: 10.4, 3: 11.2}
    done = {1: 10.3, 2: 11.5, 3: 13.2}

    course = course_of(came, done, width=1.0)

    assert [(one.begin, one.came, one.done, one.backlog) for one in course.buckets] == [
        (0.0, 2, 1, 1),
        (1.0, 1, 1, 1),
        (2.0, 0, 0, 1),
        (3.0, 0, 1, 0),
    ]
    assert [one.p99_ms for one in course.buckets] == pytest.approx([300, 1100, 0, 2000])
    assert (course.seconds, course.drain_seconds) == pytest.approx((3.2, 2.0))
    assert (course.p50_ms, course.p99_ms) == pytest.approx((1100, 2000))


def test_what_was_never_done_stays_in_the_backlog():
    course = course_of({1: 0.0, 2: 0.5}, {1: 0.2}, width=1.0)

    assert (course.came, course.done) == (2, 1)
    assert course.buckets[-1].backlog == 1


def test_what_was_done_must_have_come():
    with pytest.raises(KeyError):
        course_of({1: 0.0}, {2: 1.0}, width=1.0)
