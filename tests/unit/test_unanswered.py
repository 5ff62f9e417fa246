"""What the store has not answered yet, and who waits for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.errors import BackstayError, Conflict
from backstay.scheduler.unanswered import Unanswered
from backstay.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def ignore(_refusal: BackstayError | None) -> None: ...


async def test_each_counts_until_it_is_answered_whatever_the_answer_is(clock: ManualClock):
    answers: list[BackstayError | None] = []
    unanswered = Unanswered(clock)
    first, second = unanswered.counted(answers.append), unanswered.counted(answers.append)
    refusal = Conflict("no")

    assert len(unanswered) == 2
    second(refusal)
    assert len(unanswered) == 1
    first(None)

    assert len(unanswered) == 0
    assert answers == [refusal, None]


async def test_the_store_is_silent_since_its_last_answer_or_since_it_was_asked(clock: ManualClock):
    unanswered = Unanswered(clock)
    clock.pass_time(timedelta(seconds=5))
    assert unanswered.silent_seconds() == 0

    first, second = unanswered.counted(ignore), unanswered.counted(ignore)
    clock.pass_time(timedelta(seconds=3))
    assert unanswered.silent_seconds() == 3

    first(None)
    clock.pass_time(timedelta(seconds=1))
    assert unanswered.silent_seconds() == 1

    second(None)
    assert unanswered.silent_seconds() == 0


async def test_those_of_now_are_waited_for_in_whatever_order_they_are_answered_and_no_later_ones(
    clock: ManualClock,
):
    unanswered = Unanswered(clock)
    first, second = unanswered.counted(ignore), unanswered.counted(ignore)
    waiting = asyncio.create_task(unanswered.those_of_now())
    await asyncio.sleep(0)
    unanswered.counted(ignore)  # This one is never answered.

    for answer in (second, first):
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        answer(None)

    await asyncio.wait_for(waiting, 5)


async def test_where_nothing_is_open_nobody_waits(clock: ManualClock):
    await asyncio.wait_for(Unanswered(clock).those_of_now(), 5)
