"""Those who change jobs and those who fire them, at the same time: who waits for whom, and who does not."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.jobs.records import CollectionState
from backstay.errors import UnknownCollection, UnknownJob
from backstay.store.base import Changes
from backstay.store.postgres import PostgresStore
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar, occurrence_of
from backstay.testing.promises.holder import SECOND, Holder
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.running import comes_true


class Stalled:
    """Somebody whose transactions a test can stop just before their COMMIT."""

    def __init__(self, calendar: Calendar, threshold: Threshold) -> None:
        self.calendar = calendar
        self.threshold = threshold


@pytest.fixture
async def ann(opened: OpenStore, clock: ManualClock) -> Stalled:
    threshold = Threshold()
    store = await opened(boundary=threshold)
    return Stalled(Calendar(store, clock, (await Holder.joined(store, clock, "ann")).owner), threshold)


@pytest.fixture
async def calendar(store: PostgresStore, clock: ManualClock) -> Calendar:
    """A collection with two jobs that are due."""
    calendar = Calendar(store, clock, (await Holder.joined(store, clock, "ticker")).owner)
    await calendar.collect()
    for name in ("a", "b"):
        await calendar.put(name)
    clock.pass_time(SECOND)
    return calendar


async def test_who_fires_leaves_alone_what_somebody_is_just_writing(calendar: Calendar, ann: Stalled):
    firings = [calendar.firing(one.job) for one in await calendar.due()]
    ann.threshold.close()
    changing = asyncio.create_task(ann.calendar.change("a", definition={}))
    await ann.threshold.reached()

    assert await calendar.fire(*firings) == [False, True]
    ann.threshold.open()

    await changing
    assert await calendar.due_names() == ["a"]
    assert await calendar.fire(calendar.firing(await calendar.seen("a"))) == [True]


async def test_of_two_who_fire_at_once_the_second_neither_waits_nor_fires(
    calendar: Calendar, ann: Stalled, schema: Schema
):
    firings = [calendar.firing(one.job) for one in await calendar.due()]
    ann.threshold.close()
    firing = asyncio.create_task(ann.calendar.fire(*firings))
    await ann.threshold.reached()

    assert await calendar.fire(*firings) == [False, False]
    ann.threshold.open()

    assert await firing == [True, True]
    assert await schema.states() == {"pending": 2}


async def test_who_disables_a_collection_waits_for_who_fires_and_what_was_fired_stays_so(
    calendar: Calendar, ann: Stalled, schema: Schema, clock: ManualClock
):
    ann.threshold.close()
    firing = asyncio.create_task(ann.calendar.fire(calendar.firing(await calendar.seen("a"))))
    await ann.threshold.reached()
    disabling = asyncio.create_task(calendar.change_collection(state=CollectionState.DISABLED))
    await schema.waits_for_a_lock("UPDATE {schema}.job SET armed_at")
    ann.threshold.open()

    assert await firing == [True]
    await disabling
    assert (await calendar.job("a")).next_at == clock.now() + SECOND
    clock.pass_time(SECOND)
    assert await calendar.due() == []
    await calendar.change_collection(state=CollectionState.ENABLED)
    assert sorted(await calendar.due_names()) == ["a", "b"]


async def test_who_records_waits_for_who_changes_the_job_and_counts_what_is_left_of_it(
    calendar: Calendar, ann: Stalled, schema: Schema
):
    await calendar.fire(calendar.firing(await calendar.seen("a")))
    job = await calendar.job("a")
    ann.threshold.close()
    putting = asyncio.create_task(ann.calendar.put("a"))
    await ann.threshold.reached()
    recording = asyncio.create_task(calendar.record(calendar.attempt(occurrence_of(job))))
    await schema.waits_for_a_lock("{schema}.job JOIN")
    ann.threshold.open()

    put = await putting
    assert await recording == [True]
    assert (await calendar.job("a")).counters == put.counters, "it was of the generation before"
    assert len(await calendar.history(job)) == 1


async def test_who_puts_a_job_into_a_collection_that_is_being_deleted_finds_none(
    calendar: Calendar, ann: Stalled, schema: Schema
):
    ann.threshold.close()
    deleting = asyncio.create_task(ann.calendar.delete_collection())
    await ann.threshold.reached()
    putting = asyncio.create_task(calendar.put("c"))
    await schema.waits_for_a_lock("{schema}.job_collection")
    ann.threshold.open()

    await deleting
    with pytest.raises(UnknownCollection):
        await putting


async def test_who_changes_a_job_that_is_being_deleted_finds_none(
    calendar: Calendar, ann: Stalled, schema: Schema
):
    ann.threshold.close()
    deleting = asyncio.create_task(ann.calendar.delete("a"))
    await ann.threshold.reached()
    running = asyncio.create_task(calendar.run("a"))
    await schema.waits_for_a_lock("{schema}.job_collection")
    ann.threshold.open()

    await deleting
    with pytest.raises(UnknownJob):
        await running


async def test_what_one_process_puts_the_others_hear_of(calendar: Calendar, opened: OpenStore):
    heard: list[Changes] = []
    other = await opened()
    other.listen(heard.append)
    await comes_true(lambda: any(one.foreign for one in heard))  # By now it listens.

    await calendar.put("c")

    await comes_true(lambda: any(one.jobs for one in heard))
