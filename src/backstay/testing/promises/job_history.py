"""What became of occurrences is counted once each, and makes the end of a job."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.jobs.records import (
    ActionName,
    Counters,
    EntryStatus,
    JobState,
    Origin,
    task_id_of,
)
from backstay.errors import UnknownJob
from backstay.store.base import Store
from backstay.store.job_rows import ENTRY_MESSAGE_LENGTH_MAX
from backstay.testing.clock import ManualClock
from backstay.testing.promises.calendar import Calendar, CalendarPromises, occurrence_of
from backstay.testing.promises.holder import CANCEL, SECOND
from backstay.testing.promises.job_firing import a_gap
from backstay.testing.records import replace

DAY = 86_400 * SECOND


class JobHistoryPromises(CalendarPromises):
    # Counting

    async def test_an_attempt_is_entered_whole_and_counted(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        before = await calendar.fired()
        attempt = calendar.attempt(occurrence_of(before), message="ok")
        clock.pass_time(SECOND)

        assert await calendar.record(attempt) == [True]

        [entry] = await calendar.history(before)
        origin = Origin(before.generation, attempt.occurrence.at)
        assert entry == replace(attempt.entry, number=entry.number, origin=origin)
        assert task_id_of(before.uid, origin) == attempt.occurrence.task_id
        after = await calendar.job()
        assert after.counters == Counters(executions=1)
        assert after.last_execution_at == attempt.entry.started_at
        assert (after.state, after.next_at) == (JobState.ENABLED, before.next_at)

    async def test_the_same_attempt_said_again_changes_nothing(self, calendar: Calendar) -> None:
        await calendar.put()
        job = await calendar.fired()
        failed = calendar.attempt(occurrence_of(job), failed=True, final=True)
        await calendar.record(failed)
        before, history = await calendar.job(), await calendar.history(job)

        again = replace(
            failed, entry=replace(failed.entry, message="other words", status=EntryStatus.COMPLETED)
        )
        assert await calendar.record(again) == [False]
        assert await calendar.record(again, failed, again) == [False] * 3

        assert (await calendar.job(), await calendar.history(job)) == (before, history)

    async def test_of_the_same_attempt_said_twice_at_once_the_first_counts(self, calendar: Calendar) -> None:
        await calendar.put()
        job = await calendar.fired()
        attempt = calendar.attempt(occurrence_of(job), failed=True, message="first")

        assert await calendar.record(attempt, replace(attempt, final=True)) == [True, False]

        assert await calendar.messages(job) == ["first"]
        assert (await calendar.job()).counters == Counters(executions=1, failures=1)

    async def test_retries_are_failures_of_one_execution_and_the_last_one_is_a_fault(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        occurrence = occurrence_of(await calendar.fired())

        answers = await calendar.record(
            *[calendar.attempt(occurrence, failed=True, retry=retry, final=retry == 4) for retry in range(5)]
        )

        assert answers == [True] * 5
        assert (await calendar.job()).counters == Counters(executions=1, failures=5, faults=1)

    async def test_an_error_action_is_in_the_history_and_not_in_the_counts(self, calendar: Calendar) -> None:
        await calendar.put()
        job = await calendar.fired()
        occurrence = occurrence_of(job)
        failed = calendar.attempt(occurrence, failed=True, final=True)
        error_action = calendar.attempt(occurrence, failed=True, action=ActionName.ERROR)

        assert await calendar.record(failed, error_action) == [True, True]

        assert (await calendar.job()).counters == Counters(executions=1, failures=1, faults=1)
        assert [one.action for one in await calendar.history(job)] == [ActionName.ERROR, ActionName.MAIN]

    async def test_what_a_person_asked_for_is_an_attempt_of_its_own(self, calendar: Calendar) -> None:
        await calendar.put()
        job = await calendar.fired()
        occurrence = occurrence_of(job)

        answers = await calendar.record(
            calendar.attempt(occurrence), calendar.attempt(replace(occurrence, by_hand=True))
        )

        assert answers == [True, True]
        assert (await calendar.job()).counters == Counters(executions=2)
        by_hand, by_itself = await calendar.history(job)
        assert by_hand.origin == Origin(job.generation, occurrence.at, by_hand=True)
        assert by_itself.origin == Origin(job.generation, occurrence.at)

    async def test_an_earlier_generation_is_in_the_history_and_counts_no_more(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        old = occurrence_of(await calendar.fired())
        job = await calendar.put(next_at=None)

        answers = await calendar.record(
            calendar.attempt(old, failed=True), calendar.attempt(old, failed=True, retry=1, final=True)
        )

        assert answers == [True, True]
        assert len(await calendar.history(job)) == 2
        assert await calendar.job() == job

    async def test_nothing_is_recorded_of_a_job_that_is_gone_nor_of_another_of_its_name(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        old = await calendar.fired()
        await calendar.delete()
        new = await calendar.put()

        gone = calendar.attempt(occurrence_of(old))
        mistaken = calendar.attempt(occurrence_of(old, job_key=new.key))

        assert await calendar.record(gone, mistaken) == [False, False]
        assert await calendar.history(new) == []
        assert await calendar.job() == new

    async def test_many_who_record_at_once_are_all_counted(self, calendar: Calendar) -> None:
        for name in ("a", "b", "c"):
            await calendar.put(name)
        jobs = [await calendar.fired(name) for name in ("a", "b", "c")]
        attempts = [
            calendar.attempt(occurrence_of(job), failed=True, retry=retry)
            for retry in range(20)
            for job in jobs
        ]

        answers = await asyncio.gather(*[calendar.record(one) for one in attempts * 2])

        assert sum(new for [new] in answers) == 60
        for name in ("a", "b", "c"):
            assert (await calendar.job(name)).counters == Counters(executions=1, failures=20)

    # The end of a job

    @pytest.mark.parametrize(("failed", "end"), [(False, JobState.COMPLETED), (True, JobState.FAULTED)])
    async def test_a_job_ends_as_its_last_occurrence_does(
        self, store: Store, calendar: Calendar, failed: bool, end: JobState
    ) -> None:
        await calendar.put()
        job = await calendar.fired(next_at=None)
        assert (job.state, job.next_at) == (JobState.ENABLED, None)
        occurrence = occurrence_of(job)
        await calendar.record(calendar.attempt(occurrence, failed=True))
        assert (await calendar.job()).state is JobState.ENABLED

        await calendar.record(calendar.attempt(occurrence, failed=failed, retry=1, final=True))

        assert (await calendar.job()).state is end
        assert await store.jobs.next_due() is None

    async def test_a_job_that_has_more_to_come_goes_on_whatever_becomes_of_an_occurrence(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        occurrence = occurrence_of(await calendar.fired())

        await calendar.record(calendar.attempt(occurrence, failed=True, final=True))

        assert (await calendar.job()).state is JobState.ENABLED

    async def test_an_occurrence_that_is_not_the_last_or_that_a_person_asked_for_ends_nothing(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        first = occurrence_of(await calendar.fired())
        last = occurrence_of(await calendar.fired(next_at=None))

        await calendar.record(
            calendar.attempt(first, failed=True, final=True), calendar.attempt(replace(last, by_hand=True))
        )
        assert (await calendar.job()).state is JobState.ENABLED
        await calendar.record(calendar.attempt(last))
        assert (await calendar.job()).state is JobState.COMPLETED

    async def test_an_occurrence_that_ended_before_the_last_one_does_not_outlast_it(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        first = occurrence_of(await calendar.fired())
        last = occurrence_of(await calendar.fired())
        await calendar.record(calendar.attempt(last, failed=True, final=True))
        await calendar.record(calendar.attempt(first))

        await calendar.change(next_at=None)

        assert (await calendar.job()).state is JobState.FAULTED

    async def test_a_job_whose_last_instant_is_passed_over_ends_as_the_one_before_did(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        occurrence = occurrence_of(await calendar.fired())
        clock.pass_time(SECOND)
        seen = await calendar.seen()
        await calendar.record(calendar.attempt(occurrence))  # Between the look and the firing.

        passed_over = replace(calendar.firing(seen, tasks=[]), job=replace(seen, next_at=None))
        assert await calendar.fire(passed_over) == [True]

        assert (await calendar.job()).state is JobState.COMPLETED

    async def test_a_job_that_was_disabled_meanwhile_ends_once_it_is_enabled_again(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        occurrence = occurrence_of(await calendar.fired(next_at=None))
        await calendar.change(state=JobState.DISABLED)
        await calendar.record(calendar.attempt(occurrence, failed=True, final=True))
        assert (await calendar.job()).state is JobState.DISABLED

        after = await calendar.change(state=JobState.ENABLED)

        assert after.state is JobState.FAULTED
        assert await calendar.job() == after

    async def test_a_job_whose_last_occurrence_somebody_stopped_is_faulted(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        for name in ("stopped", "at-work", "on"):
            await calendar.put(name)
        stopped = await calendar.fired("stopped", next_at=None)
        await calendar.fired("at-work", next_at=None)
        await calendar.fired("on")
        assert await store.jobs.close_stranded(now=clock.now(), limit=9) == 0
        await store.amend(occurrence_of(stopped).task_id, CANCEL, now=clock.now())

        assert await store.jobs.close_stranded(now=clock.now(), limit=9) == 1

        states = {name: (await calendar.job(name)).state for name in ("stopped", "at-work", "on")}
        assert states == {
            "stopped": JobState.FAULTED,
            "at-work": JobState.ENABLED,
            "on": JobState.ENABLED,
        }
        assert await store.jobs.close_stranded(now=clock.now(), limit=9) == 0

    async def test_jobs_that_are_stranded_are_ended_so_many_at_a_time(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        for number in range(3):
            await calendar.put(f"j{number}")
            job = await calendar.fired(f"j{number}", next_at=None)
            await store.amend(occurrence_of(job).task_id, CANCEL, now=clock.now())

        closed = [await store.jobs.close_stranded(now=clock.now(), limit=2) for _ in range(3)]

        assert closed == [2, 1, 0]

    # Looking

    async def test_the_history_comes_newest_first_and_is_looked_through_by_what_became_of_it(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        job = await calendar.fired()
        occurrence = occurrence_of(job)
        for retry, failed in enumerate([True, True, False]):
            await calendar.record(
                calendar.attempt(occurrence, failed=failed, retry=retry, message=f"m{retry}")
            )
            clock.pass_time(SECOND)
        late = calendar.attempt(occurrence, action=ActionName.ERROR, message="e", started_at=job.updated_at)
        same_start = calendar.attempt(occurrence, retry=9, message="m9", started_at=job.updated_at)
        await calendar.record(late, same_start)

        assert await calendar.messages(job) == ["m2", "m1", "m0", "m9", "e"]
        assert await calendar.messages(job, skip=1, limit=2) == ["m1", "m0"]
        assert await calendar.messages(job, status=EntryStatus.FAILED) == ["m1", "m0"]
        assert await calendar.messages(job, action=ActionName.ERROR) == ["e"]
        assert await calendar.messages(job, status=EntryStatus.COMPLETED, action=ActionName.MAIN, skip=1) == [
            "m9"
        ]
        assert await calendar.messages(job, status=EntryStatus.POSTPONED) == []
        newest = (await calendar.history(job))[0].started_at
        assert await calendar.messages(job, since=newest) == ["m2"]
        assert await calendar.messages(job, since=newest - SECOND, until=newest) == ["m1"]
        assert await calendar.messages(job, until=newest - SECOND, action=ActionName.MAIN) == ["m0", "m9"]

    async def test_a_message_is_kept_as_far_as_it_can_be(self, calendar: Calendar) -> None:
        await calendar.put()
        job = await calendar.fired()
        message = "\0\ud800" + "x" * ENTRY_MESSAGE_LENGTH_MAX

        await calendar.record(calendar.attempt(occurrence_of(job), message=message))

        assert await calendar.messages(job) == ["\ufffd?" + "x" * (ENTRY_MESSAGE_LENGTH_MAX - 2)]

    # Bounds

    async def test_so_many_entries_are_kept_and_the_oldest_go(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        await calendar.put("other")
        job, other = await calendar.fired(), await calendar.fired("other")
        await calendar.record(calendar.attempt(occurrence_of(other)))

        for retry in range(5):
            attempt = calendar.attempt(occurrence_of(job), failed=True, retry=retry, message=f"m{retry}")
            await calendar.record(attempt, history_max=3)
            clock.pass_time(SECOND)
        assert await calendar.messages(job) == ["m4", "m3", "m2"]

        seen = await calendar.seen()
        gap = a_gap(message="gap", started_at=clock.now())
        await calendar.fire(calendar.firing(seen, entries=[gap]), history_max=2)

        assert await calendar.messages(job) == ["gap", "m4"]
        assert len(await calendar.history(other)) == 1
        assert (await calendar.job()).counters.failures == 5

    async def test_entries_that_are_older_are_pruned_so_many_at_a_time(
        self, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put()
        job = await calendar.fired()
        for retry in range(5):
            await calendar.record(
                calendar.attempt(occurrence_of(job), failed=True, retry=retry, message=f"m{retry}")
            )
            clock.pass_time(DAY)

        assert await calendar.prune(after=(DAY, 2 * DAY), limit=2) == 2
        assert await calendar.messages(job) == ["m4", "m3", "m2"]
        assert await calendar.prune(after=(DAY, 2 * DAY), limit=2) == 1
        assert await calendar.prune(after=(DAY, 2 * DAY), limit=2) == 0

        await calendar.record(calendar.attempt(occurrence_of(job), retry=9, message="m9"), history_max=3)
        assert await calendar.messages(job) == ["m9", "m4", "m3"], "what was pruned counts no more"

    async def test_a_finished_job_is_pruned_once_it_has_been_so_for_long_and_no_other_is(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        for name in ("over", "later", "on"):
            await calendar.put(name, secrets={"a": "b"})
        over = await calendar.fired("over", next_at=None)
        await calendar.fired("on")
        await calendar.record(calendar.attempt(occurrence_of(over)))
        clock.pass_time(DAY)
        await calendar.put("later", state=JobState.COMPLETED, created_at=over.created_at)
        clock.pass_time(DAY)

        # Its entry goes with it.
        assert await calendar.prune(after=(DAY, 9 * DAY)) == 2

        with pytest.raises(UnknownJob):
            await calendar.job("over")
        assert await calendar.history(over) == []
        assert await store.jobs.secrets(over.key, uid=over.uid) == {}
        assert {(await calendar.job(name)).state for name in ("later", "on")} == {
            JobState.COMPLETED,
            JobState.ENABLED,
        }

    async def test_what_a_deleted_job_leaves_is_seen_by_nobody_and_pruned_little_by_little(
        self, calendar: Calendar
    ) -> None:
        await calendar.put()
        job = await calendar.fired()
        attempts = [calendar.attempt(occurrence_of(job), failed=True, retry=retry) for retry in range(5)]
        await calendar.record(*attempts)
        await calendar.delete()
        assert await calendar.history(job) == []

        pruned = [await calendar.prune(after=(DAY, DAY), limit=2) for _ in range(4)]

        assert pruned == [2, 2, 1, 0]
