"""An instant of a job is due once its time has come, and starts one task, whoever is there to see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backstay.domain.jobs.records import (
    ActionName,
    CollectionState,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
)
from backstay.domain.states import TaskState
from backstay.errors import LeaseLost
from backstay.store.base import Store
from backstay.store.firing import UNFIT_PAUSE
from backstay.testing.clock import ManualClock
from backstay.testing.promises.calendar import Calendar, CalendarPromises, an_id, occurrence_of
from backstay.testing.promises.holder import CANCEL, SECOND, Holder, submitted
from backstay.testing.promises.listing import listed
from backstay.testing.records import NOON, new_task, replace

#: What may happen to a job between the look of a ticker and its firing.
MEANWHILE: dict[str, Callable[[Calendar, JobRecord], Awaitable[Any]]] = {
    "fired": lambda calendar, seen: calendar.fire(calendar.firing(seen, tasks=[])),
    "put again": lambda calendar, _seen: calendar.put(next_at=_seen.next_at),
    "changed": lambda calendar, seen: calendar.change(definition={}, updated_at=seen.updated_at + SECOND),
    "disabled": lambda calendar, _seen: calendar.change(state=JobState.DISABLED),
    "deleted": lambda calendar, _seen: calendar.delete(),
    "in a collection that is disabled": lambda calendar, _seen: calendar.change_collection(
        state=CollectionState.DISABLED
    ),
}


def a_gap(**fields: Any) -> HistoryEntry:
    common = {"status": EntryStatus.POSTPONED, "expected_at": NOON, "started_at": NOON, "ended_at": NOON}
    return HistoryEntry(**{**common, "message": "too late", "instants": 7, **fields})


class JobFiringPromises(CalendarPromises):
    # What is due

    async def test_the_next_instant_of_all_is_known_and_due_once_it_has_come(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        assert await store.jobs.next_due() is None
        now = clock.now()
        await calendar.put("b", next_at=now + 2 * SECOND)
        await calendar.put("a", next_at=now + 3 * SECOND)
        await calendar.put("never", next_at=None)

        assert await store.jobs.next_due() == now + 2 * SECOND
        clock.pass_time(2 * SECOND)
        assert await calendar.due_names() == ["b"]
        clock.pass_time(SECOND)
        assert await calendar.due_names() == ["b", "a"], "what is due longest comes first"
        assert await calendar.due_names(limit=1) == ["b"]
        assert await store.jobs.next_due() == now + 2 * SECOND

    async def test_a_job_that_is_due_comes_whole_with_its_collection(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        job = await calendar.put()
        clock.pass_time(SECOND)

        [due] = await calendar.due()

        assert (due.job, due.collection, due.at_work) == (job, await store.jobs.collection(an_id()), 0)

    @pytest.mark.parametrize("state", [JobState.DISABLED, JobState.COMPLETED, JobState.FAULTED])
    async def test_only_an_enabled_job_is_due(
        self, store: Store, calendar: Calendar, clock: ManualClock, state: JobState
    ) -> None:
        await calendar.put(state=state)
        clock.pass_time(SECOND)

        assert await calendar.due() == []
        assert await store.jobs.next_due() is None

    @pytest.mark.parametrize("state", [CollectionState.DISABLED, CollectionState.SUSPENDED])
    async def test_nothing_is_due_in_a_collection_that_is_not_enabled_until_it_is_again(
        self, store: Store, calendar: Calendar, clock: ManualClock, state: CollectionState
    ) -> None:
        await calendar.put("before")
        await calendar.put("off", state=JobState.DISABLED)
        await calendar.change_collection(state=state)
        await calendar.put("after")
        clock.pass_time(SECOND)

        assert await calendar.due() == []
        assert await store.jobs.next_due() is None
        assert (await calendar.job("before")).state is JobState.ENABLED
        await calendar.change_collection(tags={"still": "off"})
        assert await calendar.due() == []
        await calendar.change_collection(state=CollectionState.ENABLED)
        assert sorted(await calendar.due_names()) == ["after", "before"]

    async def test_an_instant_that_is_put_off_stays_the_next_one_and_is_due_again_then(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        later = clock.now() + 5 * SECOND

        put_off = calendar.firing(seen, tasks=[], again_at=later)
        assert await calendar.fire(replace(put_off, job=seen)) == [True]

        assert await calendar.due() == []
        assert await store.jobs.next_due() == later
        assert await calendar.job() == seen
        clock.pass_time(5 * SECOND)
        assert await calendar.seen() == seen

    async def test_what_was_put_off_is_due_at_once_when_somebody_writes_the_job(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        put_off = calendar.firing(seen, tasks=[], again_at=clock.now() + 5 * SECOND)
        await calendar.fire(replace(put_off, job=seen))

        await calendar.change(definition={})

        assert await calendar.due_names() == ["j"]

    # Firing

    async def test_a_job_that_fires_is_advanced_and_its_tasks_are_entered(
        self, store: Store, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        put = await calendar.put()
        clock.pass_time(SECOND)
        firing = calendar.firing(await calendar.seen())

        assert await calendar.fire(firing) == [True]

        after = await calendar.job()
        assert after == replace(put, next_at=clock.now() + SECOND, fired_at=clock.now(), occurrences=1)
        assert await calendar.due() == []
        [claimed] = await alice.claim()
        assert claimed.task.id == occurrence_of(after).task_id
        assert claimed.task.created_at == clock.now()

    @pytest.mark.parametrize("what", list(MEANWHILE))
    async def test_a_job_that_is_no_longer_as_it_was_seen_does_not_fire(
        self, store: Store, calendar: Calendar, clock: ManualClock, what: str
    ) -> None:
        await calendar.put()
        await calendar.put("other")
        clock.pass_time(SECOND)
        seen, other = await calendar.seen(), await calendar.seen("other")
        await MEANWHILE[what](calendar, seen)

        fired = await calendar.fire(calendar.firing(seen), calendar.firing(other))

        in_the_same_collection = what == "in a collection that is disabled"
        assert fired == [False, not in_the_same_collection]
        assert len(await listed(store)) == (0 if in_the_same_collection else 1)

    async def test_a_job_that_was_created_anew_fires_by_itself_and_not_for_the_one_before(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        await calendar.fire(calendar.firing(seen))
        await calendar.delete()
        await calendar.put(next_at=seen.next_at)

        assert await calendar.fire(calendar.firing(seen)) == [False]
        assert await calendar.fire(calendar.firing(await calendar.seen())) == [True]

        assert len(await listed(store)) == 2

    async def test_what_was_counted_or_changed_by_others_is_not_overwritten(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        before = await calendar.fired()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        await calendar.record(calendar.attempt(occurrence_of(before), failed=True))

        await calendar.fire(calendar.firing(seen))

        assert (await calendar.job()).counters.failures == 1

    async def test_an_instant_creates_one_task_however_many_tickers_there_are(
        self, store: Store, calendar: Calendar, clock: ManualClock, bob: Holder
    ) -> None:
        for number in range(20):
            await calendar.put(f"j{number}")
        clock.pass_time(SECOND)
        tickers = [calendar, Calendar(store, clock, bob.owner)] * 10

        async def tick(ticker: Calendar) -> int:
            firings = [ticker.firing(one.job) for one in await ticker.due()]
            return sum(await ticker.fire(*firings))

        fired = 0
        for _ in range(5):
            fired += sum(await asyncio.gather(*map(tick, tickers)))

        assert fired == 20
        assert len(set(await listed(store))) == len(await listed(store)) == 20
        assert await calendar.due() == []

    async def test_of_two_firings_of_a_job_that_are_written_together_the_first_counts(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        second = calendar.firing(seen, tasks=[new_task("second")])

        assert await calendar.fire(calendar.firing(seen), second) == [True, False]

        assert "second" not in await listed(store)

    async def test_a_task_that_is_there_already_counts_as_entered(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        await calendar.put("other")
        clock.pass_time(SECOND)
        firings = [calendar.firing(one.job) for one in await calendar.due()]
        ids = [one.tasks[0].id for one in firings]
        await submitted(store, clock, ids[0])
        await submitted(store, clock, ids[1], input=b'"another"')

        assert await calendar.fire(*firings) == [True, True]

        assert sorted(await listed(store)) == sorted(ids)

    async def test_many_occurrences_of_one_job_may_start_at_once(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        tasks = [new_task(f"t{number}") for number in range(5)]

        assert await calendar.fire(calendar.firing(await calendar.seen(), tasks=tasks)) == [True]

        clock.pass_time(SECOND)
        [due] = await calendar.due()
        assert due.at_work == len(await listed(store)) == 5

    async def test_a_large_input_and_hundreds_of_jobs_go_in_together(
        self, store: Store, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        for number in range(300):
            await calendar.put(f"j{number}")
        clock.pass_time(SECOND)
        due = await calendar.due()
        firings = [calendar.firing(one.job) for one in due]
        large = replace(firings[7].tasks[0], input=b'"' + b"x" * 50_000 + b'"')
        firings[7] = replace(firings[7], tasks=[large])

        assert await calendar.fire(*firings) == [True] * 300

        assert (await store.task(large.id)).input == large.input
        assert len(await alice.claim()) == 300

    async def test_who_was_declared_dead_fires_nothing(
        self, store: Store, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        firing = calendar.firing(await calendar.seen())
        await store.retire(alice.owner, now=clock.now())

        with pytest.raises(LeaseLost):
            await calendar.fire(firing)

        assert await listed(store) == []
        assert await calendar.due_names() == ["j"]

    async def test_a_firing_that_cannot_be_written_does_not_hold_up_the_others(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        for name in ("a", "b", "c"):
            await calendar.put(name)
        clock.pass_time(SECOND)
        firings = [calendar.firing(one.job) for one in await calendar.due()]
        wrong = replace(firings[1].tasks[0], version=2**70)
        firings[1] = replace(firings[1], tasks=[wrong])

        assert await calendar.fire(*firings) == [True, False, True]

        assert len(await listed(store)) == 2
        assert await calendar.due() == [], "it is not tried all the time"
        clock.pass_time(UNFIT_PAUSE)
        assert "b" in await calendar.due_names()

    async def test_gaps_are_in_the_history_of_the_job_that_fired(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        gaps = [a_gap(), a_gap(message="at work")]

        await calendar.fire(calendar.firing(seen, entries=gaps, tasks=[]))
        await calendar.fire(calendar.firing(seen, entries=[a_gap(message="not as seen")]))

        second, first = await calendar.history(seen)
        assert [replace(first, number=0), replace(second, number=0)] == gaps
        assert first.number < second.number
        assert (first.action, first.retry) == (ActionName.MAIN, 0)

    # What is at work

    async def test_what_is_at_work_is_known_until_it_has_settled(
        self, store: Store, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        async def at_work() -> int:
            [due] = await calendar.due()
            return due.at_work

        await calendar.put()
        await calendar.fired()
        await calendar.fired()
        clock.pass_time(SECOND)
        assert await at_work() == 2
        first, second = [claimed.task for claimed in await alice.claim()]
        assert await at_work() == 2
        await alice.leave(first, TaskState.PROCESSED)
        assert await at_work() == 1
        await alice.leave(second, TaskState.WAITING)
        assert await at_work() == 1
        await store.amend(second.id, CANCEL, now=clock.now())
        assert await at_work() == 0

    async def test_what_stopped_in_error_is_not_at_work(
        self, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        await calendar.put()
        await calendar.fired()
        [claimed] = await alice.claim()
        await alice.leave(claimed.task, TaskState.ERROR)
        clock.pass_time(SECOND)

        [due] = await calendar.due()

        assert due.at_work == 0

    async def test_what_an_earlier_generation_and_a_person_started_is_at_work_too(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        await calendar.fired()
        await calendar.put()
        await calendar.fired()
        await calendar.run()
        clock.pass_time(SECOND)

        [due] = await calendar.due()

        assert due.at_work == 3

    async def test_of_a_job_that_was_created_anew_nothing_is_at_work(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        await calendar.fired()
        await calendar.delete()
        await calendar.put()
        clock.pass_time(SECOND)

        [due] = await calendar.due()

        assert due.at_work == 0
