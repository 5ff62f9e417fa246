"""Any number of alarms on one timer, turned by hand."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from backstay.clock import SWEEP_FROM, Alarms, SystemClock
from backstay.testing.clock import ManualClock


class Bell:
    """Alarms, and the names of those that rang, in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.alarms = Alarms(self.clock)
        self.rang: list[str] = []

    def set(self, name: str, seconds: float):
        return self.alarms.after(seconds, lambda: self.rang.append(name))

    def turn(self, seconds: float) -> list[str]:
        """Let time pass, and see what rings."""
        self.rang.clear()
        self.clock.pass_time(timedelta(seconds=seconds))
        self.alarms.run_once()
        return self.rang


@pytest.fixture
async def bell():
    bell = Bell()
    yield bell
    bell.alarms.clear()


async def test_an_alarm_rings_once_when_its_time_has_come(bell: Bell):
    bell.set("a", 10)

    assert bell.turn(9.9) == []
    assert bell.turn(0.1) == ["a"]
    assert bell.turn(100) == []


async def test_alarms_ring_in_the_order_in_which_they_are_due(bell: Bell):
    bell.set("late", 3)
    bell.set("early", 1)
    bell.set("middle", 2)

    assert bell.turn(5) == ["early", "middle", "late"]


async def test_alarms_that_are_due_together_ring_in_the_order_in_which_they_were_set(bell: Bell):
    for name in "abc":
        bell.set(name, 1)

    assert bell.turn(1) == ["a", "b", "c"]


async def test_a_cancelled_alarm_does_not_ring_and_may_be_cancelled_again(bell: Bell):
    cancelled, _kept = bell.set("cancelled", 1), bell.set("kept", 1)

    cancelled.cancel()
    cancelled.cancel()

    assert bell.turn(1) == ["kept"]


async def test_an_alarm_may_be_cancelled_by_one_that_rings_before_it(bell: Bell):
    later = bell.set("later", 2)
    bell.alarms.after(1, later.cancel)

    assert bell.turn(5) == []


async def test_an_alarm_may_set_another(bell: Bell):
    bell.alarms.after(1, lambda: bell.set("second", 1))

    assert bell.turn(1) == []
    assert bell.turn(1) == ["second"]


async def test_an_alarm_for_now_rings_at_the_next_look(bell: Bell):
    bell.set("now", 0)

    assert bell.turn(0) == ["now"]


async def test_an_alarm_that_fails_does_not_silence_the_others(bell: Bell):
    def broken() -> None:
        raise ZeroDivisionError

    bell.alarms.after(1, broken)
    bell.set("next", 1)

    with pytest.raises(ZeroDivisionError):
        bell.turn(1)
    assert bell.turn(0) == ["next"]


async def test_alarms_that_were_cancelled_do_not_pile_up(bell: Bell):
    bell.set("kept", 60)
    for _ in range(20 * SWEEP_FROM):
        bell.set("cancelled", 3600).cancel()

    assert len(bell.alarms._heap) < 2 * SWEEP_FROM
    assert bell.turn(3600) == ["kept"]


async def test_an_alarm_that_rang_is_not_counted_as_cancelled(bell: Bell):
    rung = [bell.set("rung", 1) for _ in range(3)]
    bell.turn(1)

    for alarm in rung:
        alarm.cancel()

    assert bell.alarms._cancelled == 0


async def test_after_clearing_nothing_rings(bell: Bell):
    bell.set("a", 1)

    bell.alarms.clear()

    assert bell.turn(5) == []


def test_the_clock_of_the_machine_knows_its_zone_and_never_runs_backwards():
    clock = SystemClock()

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_a_clock_turned_by_hand_moves_both_readings_together():
    clock = ManualClock()
    before, seconds = clock.now(), clock.monotonic()

    clock.pass_time(timedelta(minutes=2))

    assert clock.now() - before == timedelta(minutes=2)
    assert clock.monotonic() - seconds == 120
