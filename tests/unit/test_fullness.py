"""How full queues are believed to be, between two counts."""

from __future__ import annotations

import pytest

from backstay.store import fullness
from backstay.store.fullness import Fullness

LIMIT = 1_000_000


class Time:
    """A clock for what asks ``time`` itself."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(fullness, "time", time)
    return time


def test_what_nobody_counted_is_not_known(time: Time):
    known = Fullness()
    known.came({1: 5})

    assert known.number(1, limit=LIMIT) is None


def test_what_comes_and_goes_counts_until_it_is_time_to_count_again(time: Time):
    known = Fullness()
    known.counted(1, 100)

    known.came({1: 5, 2: 7})
    known.went({1: 2})

    assert known.number(1, limit=LIMIT) == 103
    time.seconds = 9.9
    assert known.number(1, limit=LIMIT) == 103
    time.seconds = 10
    assert known.number(1, limit=LIMIT) is None


def test_a_queue_that_became_full_since_is_counted_soon(time: Time):
    known = Fullness()
    known.counted(1, LIMIT - 10)
    known.came({1: 10})
    known.counted(2, LIMIT)

    time.seconds = 1

    assert known.number(1, limit=LIMIT) is None
    assert known.number(2, limit=LIMIT) == LIMIT


def test_a_queue_that_is_gone_is_forgotten(time: Time):
    known = Fullness()
    known.counted(1, 100)

    known.forget(1)

    assert known.number(1, limit=LIMIT) is None
