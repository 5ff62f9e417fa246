"""The ticker on real stores: what is due is started once, whoever looks and whatever the clock does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from backstay.domain.jobs.occurrences import Run
from backstay.domain.jobs.records import CollectionState, EntryStatus, JobState
from backstay.domain.lease import Owner
from backstay.errors import LeaseLost
from backstay.jobs import ticker as ticking
from backstay.jobs.pruner import Pruner
from backstay.jobs.ticker import Ticker
from backstay.observe import OCCURRENCE_SKIPPED, OCCURRENCE_STARTED, counters, lateness
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store
from backstay.testing import ManualClock
from tests.support.databases import Database
from tests.support.job_records import GET, MINUTE, NOON
from tests.support.jobs import Calendar

SECOND = timedelta(seconds=1)
SETTINGS = Settings()
EVERY_MINUTE: dict[str, Any] = {
    "startTime": "2030-01-01T12:00:00Z",
    "recurrence": {"frequency": "minute"},
    "action": GET,
}
ONCE: dict[str, Any] = {"startTime": "2030-01-01T12:00:00Z", "action": GET}


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    opened = database.store()
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON - MINUTE)


@pytest.fixture
async def owner(store: Store, clock: ManualClock) -> Owner:
    return await store.register(NewInstance(id="one", host="h", pid=1), now=clock.now())


@pytest.fixture
async def calendar(store: Store, clock: ManualClock) -> Calendar:
    made = Calendar(store)
    await made.open(clock.now())
    return made


@pytest.fixture
def ticker(store: Store, owner: Owner, clock: ManualClock) -> Ticker:
    return Ticker(store, owner, settings=SETTINGS, clock=clock)


def turn(clock: ManualClock, moment: datetime) -> None:
    """Set the clock, forwards or backwards."""
    clock.pass_time(moment - clock.now())


async def started(calendar: Calendar) -> list[datetime]:
    """The instants of which there are tasks."""
    found = [await calendar.store.task(task.id) for task in await calendar.tasks()]
    return [msgspec.json.decode(task.input, type=Run).occurrence.at for task in found]


async def test_what_is_due_becomes_a_task_that_can_be_found_by_its_job(
    calendar: Calendar, ticker: Ticker, clock: ManualClock
):
    job = await calendar.put("nightly", EVERY_MINUTE, now=clock.now())
    assert await ticker.run_once() == 0
    turn(clock, NOON + SECOND)

    assert await ticker.run_once() == 1

    [task] = await calendar.tasks()
    assert task.id == f"job:{job.uid}:1:{int(NOON.timestamp())}000000"
    assert task.attributes == {"job": "nightly", "collection": "jc"}
    after = await calendar.job("nightly")
    assert (after.next_at, after.fired_at, after.occurrences) == (NOON + MINUTE, NOON, 1)
    assert await ticker.run_once() == 0


async def test_two_tickers_that_look_at_once_start_an_instant_once(
    calendar: Calendar, ticker: Ticker, store: Store, clock: ManualClock
):
    other = await store.register(NewInstance(id="other", host="h", pid=2), now=clock.now())
    tickers = [ticker, Ticker(store, other, settings=SETTINGS, clock=clock)]
    for number in range(20):
        await calendar.put(f"j{number}", EVERY_MINUTE, now=clock.now())
    turn(clock, NOON)

    written = await asyncio.gather(*(one.run_once() for one in tickers * 3))

    assert sum(written) == 20
    assert len(await calendar.tasks()) == 20


async def test_more_than_a_batch_is_started_in_batches(
    calendar: Calendar, ticker: Ticker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ticking, "BATCH", 7)
    for number in range(20):
        await calendar.put(f"j{number}", ONCE, now=clock.now())
    turn(clock, NOON)

    assert [await ticker.run_once() for _ in range(4)] == [7, 7, 6, 0]


async def test_a_clock_that_jumps_loses_no_instant_and_starts_none_twice(
    calendar: Calendar, ticker: Ticker, clock: ManualClock
):
    await calendar.put("j", {**EVERY_MINUTE, "overlap": "allow"}, now=clock.now())
    for minutes in (0, 10, 3, 10, 0, 11, 11, 5, 13):
        turn(clock, NOON + minutes * MINUTE)
        await ticker.run_once()

    assert await started(calendar) == [NOON + minutes * MINUTE for minutes in (0, 10, 11, 13)]
    gaps = await calendar.history()
    assert [(gap.status, gap.expected_at, gap.instants) for gap in gaps] == [
        (EntryStatus.POSTPONED, NOON + MINUTE, 9),
        (EntryStatus.POSTPONED, NOON + 12 * MINUTE, 1),
    ]


async def test_a_job_that_is_deleted_and_created_again_under_its_name_fires_again(
    calendar: Calendar, ticker: Ticker, clock: ManualClock
):
    for _ in range(2):
        turn(clock, NOON - MINUTE)
        await calendar.put("j", ONCE, now=clock.now())
        turn(clock, NOON)
        assert await ticker.run_once() == 1
        await calendar.delete("j", now=clock.now())

    assert await started(calendar) == [NOON, NOON]


async def test_a_job_that_is_put_again_fires_again(calendar: Calendar, ticker: Ticker, clock: ManualClock):
    await calendar.put("j", {**EVERY_MINUTE, "overlap": "allow"}, now=clock.now())
    turn(clock, NOON)
    await ticker.run_once()

    turn(clock, NOON - MINUTE)
    await calendar.put("j", {**EVERY_MINUTE, "overlap": "allow"}, now=clock.now())
    turn(clock, NOON)
    await ticker.run_once()

    assert await started(calendar) == [NOON, NOON]
    assert (await calendar.job()).occurrences == 1


async def test_nothing_of_a_disabled_collection_fires_and_then_one_is_caught_up(
    calendar: Calendar, ticker: Ticker, clock: ManualClock
):
    await calendar.put("j", EVERY_MINUTE, now=clock.now())
    await calendar.open(clock.now(), CollectionState.DISABLED)
    turn(clock, NOON + 5 * MINUTE)
    assert await ticker.run_once() == 0

    await calendar.open(clock.now())
    assert await ticker.run_once() == 1

    assert await started(calendar) == [NOON + 5 * MINUTE]


async def test_what_waits_for_an_earlier_occurrence_keeps_nobody_waiting(
    calendar: Calendar, ticker: Ticker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ticking, "BATCH", 2)
    for number in range(4):
        await calendar.put(f"q{number}", {**EVERY_MINUTE, "overlap": "queue"}, now=clock.now())
    await calendar.put("z", {**ONCE, "startTime": "2030-01-01T12:01:01Z"}, now=clock.now())
    turn(clock, NOON)
    while await ticker.run_once():
        pass
    turn(clock, NOON + MINUTE + SECOND)

    # The four that wait are looked at first, and then no more for a while.
    assert [await ticker.run_once() for _ in range(4)] == [2, 2, 1, 0]

    assert len(await started(calendar)) == 5
    assert (await calendar.job("q0")).next_at == NOON + MINUTE
    clock.pass_time(ticking.AGAIN_LEAST)
    assert await ticker.run_once() == 2


async def test_a_ticker_that_was_declared_dead_starts_nothing(
    calendar: Calendar, ticker: Ticker, store: Store, owner: Owner, clock: ManualClock
):
    await calendar.put("j", ONCE, now=clock.now())
    await store.retire(owner, now=clock.now())
    turn(clock, NOON)

    with pytest.raises(LeaseLost):
        await ticker.run_once()

    assert await calendar.tasks() == []


async def test_what_starts_and_what_is_skipped_is_counted(
    calendar: Calendar, ticker: Ticker, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    counters.clear()
    lateness.clear()
    await calendar.put("j", EVERY_MINUTE, now=clock.now())
    turn(clock, NOON + 3 * MINUTE + 2 * SECOND)
    await ticker.run_once()

    assert (counters[OCCURRENCE_STARTED], counters[OCCURRENCE_SKIPPED]) == (1, 3)
    assert lateness.sum == 2.0
    [line] = [one for one in caplog.messages if one.startswith("occurrence_skipped")]
    assert "job=jc/j number=3 reason=3 occurrences from" in line


async def test_a_closed_ticker_starts_nothing(calendar: Calendar, ticker: Ticker, clock: ManualClock):
    await calendar.put("j", ONCE, now=clock.now())
    turn(clock, NOON)
    ticker.close()

    assert await ticker.run_once() == 0


async def test_jobs_that_have_been_over_for_long_and_old_entries_are_deleted(
    calendar: Calendar, ticker: Ticker, store: Store, clock: ManualClock
):
    await calendar.put("over", {**ONCE, "catchUp": "skip"}, now=clock.now())
    await calendar.put("goes-on", EVERY_MINUTE, now=clock.now())
    turn(clock, NOON + 5 * MINUTE)
    await ticker.run_once()
    assert (await calendar.job("over")).state is JobState.COMPLETED
    assert len(await calendar.history("goes-on")) == 1
    pruner = Pruner(store.jobs, settings=SETTINGS, clock=clock)
    assert await pruner.run_once() == 0

    clock.pass_time(SETTINGS.job_retention + SECOND)
    assert await pruner.run_once() > 0

    assert [
        job.name for job in await store.jobs.jobs((await calendar.job("goes-on")).collection, limit=9)
    ] == ["goes-on"]
    assert await calendar.history("goes-on") == []
