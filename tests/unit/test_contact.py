"""Who was not heard himself does not judge the silence of others."""

from __future__ import annotations

from datetime import timedelta

from backstay.store.postgres.contact import Contact
from backstay.testing import ManualClock

LEASE = timedelta(seconds=15)
HEARTBEAT = timedelta(seconds=5)
SECOND = timedelta(seconds=1)


class Signs:
    """A process that gives signs of life."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.contact = Contact(self.clock)
        self.contact.answered()

    def answered_after(self, *intervals: timedelta) -> None:
        for interval in intervals:
            self.clock.pass_time(interval)
            self.contact.answered()


def test_a_process_that_just_began_may_judge():
    assert Signs().contact.unbroken(LEASE)


def test_a_process_that_was_answered_all_the_time_may_judge():
    signs = Signs()

    signs.answered_after(*[HEARTBEAT] * 10)

    assert signs.contact.unbroken(LEASE)


def test_a_process_that_waits_for_an_answer_may_not():
    signs = Signs()
    signs.answered_after(HEARTBEAT)

    signs.clock.pass_time(LEASE)

    assert not signs.contact.unbroken(LEASE)


def test_a_process_that_was_out_of_contact_may_judge_again_after_a_whole_lease():
    signs = Signs()
    signs.answered_after(HEARTBEAT, LEASE)

    assert not signs.contact.unbroken(LEASE)
    signs.answered_after(HEARTBEAT, HEARTBEAT)
    assert not signs.contact.unbroken(LEASE)
    signs.answered_after(HEARTBEAT)

    assert signs.contact.unbroken(LEASE)
