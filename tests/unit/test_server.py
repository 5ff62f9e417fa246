"""What a PostgreSQL server must be like, and how far its clock is from ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay.store.postgres.connection import CLOCK_STEP, OLDEST_SERVER, Server, why_refused
from backstay.store.postgres.url import address_of
from backstay.testing import ManualClock


def refusal(version: int = 180_000, *, accept_data_loss: bool = False, **changed: Any) -> str | None:
    facts = {"fsync": "on", "synchronous_commit": "on", **changed}
    return why_refused(version=version, accept_data_loss=accept_data_loss, **facts)


# What it must be like


@pytest.mark.parametrize("version", [OLDEST_SERVER * 10_000, 140_012, 180_004, 190_000])
def test_a_server_that_is_new_enough_is_used(version: int):
    assert refusal(version) is None


@pytest.mark.parametrize(("version", "said"), [(130_022, "13"), (90_624, "9"), (120_000, "12")])
def test_an_older_server_is_refused_whatever_loss_is_accepted(version: int, said: str):
    why = f"runs PostgreSQL {said}; 14 or newer is needed"

    assert refusal(version) == why
    assert refusal(version, accept_data_loss=True) == why


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit"])
def test_a_server_that_may_forget_is_refused_unless_that_is_accepted(name: str):
    off: dict[str, Any] = {name: "off"}

    why = refusal(**off)

    assert why is not None
    assert why.startswith(f"runs with {name} = off: a task that was acknowledged may be lost in a crash.")
    assert refusal(accept_data_loss=True, **off) is None


@pytest.mark.parametrize("value", ["local", "on", "remote_write", "remote_apply"])
def test_a_commit_that_waits_for_the_servers_own_disk_is_enough(value: str):
    assert refusal(synchronous_commit=value) is None


# Its clock


SECOND = timedelta(seconds=1)
STEP = CLOCK_STEP / 2


class Clocks:
    """Our clock, and a server whose clock differs from it by as much as a test says."""

    def __init__(self) -> None:
        self._ours = ManualClock()
        self._server = Server(address_of("postgresql://h/d"), {}, accept_data_loss=False, clock=self._ours)

    def hear(self, difference: timedelta, *, took: timedelta = timedelta(0)) -> timedelta:
        """How far the server is thought to be ahead, after one more answer of its."""
        # It looked at its clock halfway between our question and our hearing of it.
        said = self._ours.now() - took / 2 + difference
        self._server.heard(said, took=took.total_seconds())
        return self._server.ahead


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_before_anything_was_heard_the_clocks_are_thought_to_agree(clocks: Clocks):
    assert Server(address_of("postgresql://h/d"), {}, accept_data_loss=False).ahead == timedelta(0)


@pytest.mark.parametrize("difference", [90 * SECOND, -90 * SECOND, CLOCK_STEP * 2, -CLOCK_STEP * 2])
def test_a_clock_that_differs_is_followed(clocks: Clocks, difference: timedelta):
    assert clocks.hear(difference) == difference


def test_the_time_that_an_answer_was_under_way_is_not_taken_for_a_difference(clocks: Clocks):
    assert clocks.hear(90 * SECOND, took=SECOND) == 90 * SECOND


@pytest.mark.parametrize("difference", [STEP, -STEP, CLOCK_STEP])
def test_a_difference_as_small_as_an_answer_takes_is_none(clocks: Clocks, difference: timedelta):
    assert clocks.hear(difference) == timedelta(0)


def test_once_followed_a_clock_is_not_followed_at_every_tremble(clocks: Clocks):
    clocks.hear(90 * SECOND)

    assert [clocks.hear(90 * SECOND + tremble) for tremble in (STEP, -STEP, CLOCK_STEP)] == [90 * SECOND] * 3
    assert clocks.hear(90 * SECOND + 2 * CLOCK_STEP) == 90 * SECOND + 2 * CLOCK_STEP


def test_of_a_slow_answer_nobody_knows_when_the_clock_was_read(clocks: Clocks):
    clocks.hear(90 * SECOND)

    assert clocks.hear(92 * SECOND, took=3 * SECOND) == 90 * SECOND
    assert clocks.hear(94 * SECOND, took=3 * SECOND) == 94 * SECOND


def test_a_clock_that_was_set_right_is_ahead_no_more(clocks: Clocks):
    clocks.hear(90 * SECOND)

    assert clocks.hear(STEP) == timedelta(0)
