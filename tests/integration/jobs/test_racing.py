"""Processes that race: no quota of a collection is exceeded, and no instant of a job is doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backstay.store.base import Store
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar, an_id
from backstay.testing.promises.holder import MANY, Holder
from backstay.testing.promises.listing import listed
from tests.integration.jobs import racer
from tests.support.databases import Database

RACERS = 4
JOBS = 200


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    store = database.store()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def calendar(store: Store) -> Calendar:
    clock = ManualClock()
    calendar = Calendar(store, clock, (await Holder.joined(store, clock, "test")).owner)
    await calendar.collect()
    return calendar


async def test_a_hundred_racing_puts_never_exceed_a_quota(
    database: Database, store: Store, calendar: Calendar
):
    won = await racer.run(database.url, "put_jobs", RACERS)

    assert sum(won) == racer.QUOTA < RACERS * racer.PUTS
    assert len(await store.jobs.jobs(an_id(), limit=MANY)) == racer.QUOTA


async def test_of_a_hundred_racing_puts_of_free_collections_one_is_taken(
    database: Database, store: Store, calendar: Calendar
):
    won = await racer.run(database.url, "put_free_collections", RACERS)

    assert sum(won) == 1
    assert len(await store.jobs.collections("sub", limit=MANY)) == 2


async def test_tickers_that_race_start_each_instant_once(
    database: Database, store: Store, calendar: Calendar
):
    for number in range(JOBS):
        await calendar.put(f"j{number}")

    won = await racer.run(database.url, "fire", RACERS)

    assert sum(won) == JOBS
    assert len(await listed(store, limit=MANY)) == JOBS
