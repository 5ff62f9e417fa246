"""What is read now and then, however many ask for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.errors import StoreUnavailable
from backstay.testing import ManualClock
from backstay.web.sampled import Sampled

SOON = timedelta(seconds=0.4)
LATER = timedelta(seconds=0.3)


class Source:
    """Counts how often it was read; the test says when a reading ends."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begun = self.ended = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.fails = False
        self.sampled = Sampled(self._read, seconds=1.0, clock=self.clock)

    async def _read(self) -> int:
        self.begun += 1
        await self.may_end.wait()
        self.ended += 1
        if self.fails:
            raise StoreUnavailable("away")
        return self.ended

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def source() -> Source:
    source = Source()
    assert source.sampled.fresh() is None
    assert await source.sampled.get() == 1
    return source


async def test_it_is_read_once_for_all_who_ask_in_time(source: Source):
    source.clock.pass_time(SOON)

    assert [await source.sampled.get(), source.sampled.fresh(), await source.sampled.get()] == [1, 1, 1]
    await source.settle()
    assert source.begun == 1


async def test_who_cannot_wait_is_given_nothing_that_is_too_old(source: Source):
    source.clock.pass_time(SOON + LATER + LATER)

    assert source.sampled.fresh() is None
    assert await source.sampled.get() == 2


async def test_for_those_who_cannot_wait_it_is_read_ahead_once(source: Source):
    source.clock.pass_time(SOON + LATER)
    assert [source.sampled.fresh() for _ in range(3)] == [1, 1, 1]
    await source.settle()
    assert source.begun == 2

    source.clock.pass_time(SOON)
    assert source.sampled.fresh() == 2


async def test_what_could_not_be_read_ahead_is_told_to_whoever_waits_for_it(source: Source):
    source.fails = True
    source.clock.pass_time(SOON + LATER)
    assert source.sampled.fresh() == 1
    await source.settle()

    assert source.sampled.fresh() == 1
    source.clock.pass_time(SOON)
    assert source.sampled.fresh() is None
    with pytest.raises(StoreUnavailable):
        await source.sampled.get()


async def test_what_was_read_before_it_was_forgotten_does_not_count(source: Source):
    source.may_end.clear()
    source.clock.pass_time(SOON + LATER)
    source.sampled.fresh()
    await source.settle()
    source.sampled.forget()
    source.may_end.set()
    await source.settle()

    assert source.sampled.fresh() is None
    assert await source.sampled.get() == 3
