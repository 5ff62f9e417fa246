"""How many tasks are let in."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.api.admission import Admission
from backstay.errors import InvalidInput, Overloaded
from backstay.testing import ManualClock

SECOND = timedelta(seconds=1)


class Waiting:
    """A store in which as many tasks wait as the test says."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.counts = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def count(self) -> int:
        self.counts += 1
        number = self.number
        await self.may_answer.wait()
        return number


async def let_in(admission: Admission) -> None:
    await admission.check()
    with admission.entering():
        pass


async def test_the_store_is_asked_once_a_second_at_most():
    store, clock = Waiting(), ManualClock()
    admission = Admission(store.count, limit=100, clock=clock)

    for _ in range(10):
        await let_in(admission)
    assert store.counts == 1

    clock.pass_time(SECOND)
    await let_in(admission)
    assert store.counts == 2


async def test_what_came_in_since_is_counted_without_asking():
    store = Waiting(2)
    admission = Admission(store.count, limit=4, clock=ManualClock())

    await let_in(admission)
    await let_in(admission)

    with pytest.raises(Overloaded, match="4 tasks wait already, the limit is 4") as overloaded:
        await admission.check()
    assert overloaded.value.retry_after == SECOND


async def test_a_new_count_replaces_what_was_added():
    store, clock = Waiting(), ManualClock()
    admission = Admission(store.count, limit=2, clock=clock)
    await let_in(admission)
    await let_in(admission)
    store.number = 1  # One of them was claimed.

    clock.pass_time(SECOND)

    assert await admission.waiting() == 1


async def test_what_comes_in_while_the_store_counts_is_not_forgotten():
    store, clock = Waiting(), ManualClock()
    admission = Admission(store.count, limit=10, clock=clock)
    await let_in(admission)
    clock.pass_time(SECOND)
    store.may_answer.clear()

    counting = asyncio.create_task(admission.waiting())
    await asyncio.sleep(0)
    with admission.entering():
        pass
    store.may_answer.set()

    assert await counting == 1


async def test_a_task_that_was_refused_takes_no_room():
    admission = Admission(Waiting().count, limit=1, clock=ManualClock())

    with pytest.raises(InvalidInput), admission.entering():
        raise InvalidInput("no")

    await admission.check()
