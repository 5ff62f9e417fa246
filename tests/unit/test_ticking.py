"""What a tick makes of a job: what starts, what is a gap, what waits, and when the job is over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay.domain.jobs.records import CatchUp, EntryStatus, JobRecord, JobState, Outcome, Overlap
from backstay.domain.jobs.ticking import Tick, tick
from tests.support.job_records import EVERY_MINUTE, MINUTE, NOON, RULES, job

SECOND = timedelta(seconds=1)
YEAR = timedelta(days=365)


def ticked(one: JobRecord, *, after: timedelta, at_work: int = 0) -> Tick:
    found = tick(one, at_work=at_work, now=NOON + after, rules=RULES)
    assert found is not None
    return found


def minutes(found: Tick) -> list[int]:
    """The minutes after noon of what starts."""
    return [round((one.at - NOON) / MINUTE) for one in found.starts]


def test_an_instant_that_has_not_come_is_left_alone():
    assert tick(job(), at_work=0, now=NOON - SECOND, rules=RULES) is None


def test_an_instant_that_has_come_starts_under_its_number_and_the_next_is_found():
    found = ticked(job(occurrences=6), after=SECOND)

    [one] = found.starts
    assert (one.at, one.number, one.by_hand) == (NOON, 7, False)
    assert (found.job.next_at, found.job.fired_at, found.job.occurrences) == (NOON + MINUTE, NOON, 7)
    assert found.gaps == ()


# Catching up


@pytest.mark.parametrize(
    ("catch_up", "overlap", "started", "skipped", "then"),
    [
        (CatchUp.ONE, Overlap.SKIP, [9], 9, 10),
        (CatchUp.SKIP, Overlap.SKIP, [9], 9, 10),
        (CatchUp.ALL, Overlap.ALLOW, [5, 6, 7, 8, 9], 5, 10),
        (CatchUp.ALL, Overlap.SKIP, [5], 5, 6),
        (CatchUp.ALL, Overlap.QUEUE, [5], 5, 6),
    ],
)
def test_of_ten_missed_instants_as_many_start_as_the_job_wants(
    catch_up: CatchUp, overlap: Overlap, started: list[int], skipped: int, then: int
):
    late = job(catch_up=catch_up, overlap=overlap)

    found = ticked(late, after=9 * MINUTE + SECOND)

    assert minutes(found) == started
    assert [one.number for one in found.starts] == list(range(1, len(started) + 1))
    [gap] = found.gaps
    assert (gap.status, gap.instants, gap.expected_at) == (EntryStatus.POSTPONED, skipped, NOON)
    assert f"{skipped} occurrences from 2030-01-01T12:00:00Z" in gap.message
    assert f"catchUp is '{catch_up}'" in gap.message
    assert found.job.next_at == NOON + then * MINUTE


def test_what_is_later_than_the_grace_is_not_caught_up_by_a_job_that_skips():
    found = ticked(job(catch_up=CatchUp.SKIP), after=9 * MINUTE + 31 * SECOND)

    assert found.starts == ()
    assert found.gaps[0].instants == 10
    assert found.job.next_at == NOON + 10 * MINUTE
    assert found.job.occurrences == 0


def test_a_gap_of_years_is_one_entry_with_its_number():
    found = ticked(job(), after=2 * YEAR)

    assert minutes(found) == [2 * 365 * 1440]
    assert [gap.instants for gap in found.gaps] == [2 * 365 * 1440]


# Overlap


@pytest.mark.parametrize("catch_up", CatchUp)
def test_an_instant_that_comes_while_an_earlier_one_is_at_work_is_skipped_and_said_so(catch_up: CatchUp):
    found = ticked(job(catch_up=catch_up), after=SECOND, at_work=1)

    assert found.starts == ()
    assert found.job.next_at == NOON + MINUTE
    assert found.gaps[0].message == (
        "The occurrence of 2030-01-01T12:00:00Z was skipped:"
        " an earlier one was at work, and overlap is 'skip'."
    )


@pytest.mark.parametrize("catch_up", CatchUp)
def test_an_instant_in_a_queue_waits_for_the_earlier_one(catch_up: CatchUp):
    waiting = job(catch_up=catch_up, overlap=Overlap.QUEUE)

    assert tick(waiting, at_work=1, now=NOON + 3 * MINUTE, rules=RULES) is None


def test_instants_that_are_caught_up_wait_for_one_another_where_they_may_not_overlap():
    late = job(catch_up=CatchUp.ALL)

    assert tick(late, at_work=1, now=NOON + MINUTE, rules=RULES) is None


def test_where_they_may_overlap_nobody_waits():
    assert minutes(ticked(job(overlap=Overlap.ALLOW), after=SECOND, at_work=7)) == [0]


# The end


def once(**fields: Any) -> JobRecord:
    return job({"startTime": "2030-01-01T12:00:00Z"}, **fields)


def test_a_job_that_runs_once_has_nothing_to_come_and_ends_as_its_occurrence_does():
    found = ticked(once(), after=3 * MINUTE)

    assert minutes(found) == [0]
    assert (found.job.next_at, found.job.state) == (None, JobState.ENABLED)


def test_a_job_that_missed_its_only_instant_and_does_not_catch_up_is_completed():
    found = ticked(once(catch_up=CatchUp.SKIP), after=3 * MINUTE)

    assert found.starts == ()
    assert (found.job.next_at, found.job.state) == (None, JobState.COMPLETED)
    assert found.gaps[0].instants == 1


COUNTED = {**EVERY_MINUTE, "recurrence": {"frequency": "minute", "count": 3}}


def test_only_what_starts_uses_up_the_count():
    late = job(COUNTED)

    first = ticked(late, after=100 * MINUTE)
    second = ticked(first.job, after=101 * MINUTE)
    third = ticked(second.job, after=102 * MINUTE)

    assert [minutes(one) for one in (first, second, third)] == [[100], [101], [102]]
    assert third.job.next_at is None


def test_no_more_are_caught_up_than_the_count_leaves():
    late = job(COUNTED, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW, occurrences=1)

    found = ticked(late, after=3 * MINUTE)

    assert minutes(found) == [0, 1]
    assert found.job.next_at is None
    assert found.gaps == ()


ENDING = {**EVERY_MINUTE, "recurrence": {"frequency": "minute", "endTime": "2030-01-01T12:02:00Z"}}


@pytest.mark.parametrize(
    ("outcome", "at_work", "state"),
    [
        (Outcome(NOON, failed=False), 0, JobState.COMPLETED),
        (Outcome(NOON, failed=True), 0, JobState.FAULTED),
        (None, 1, JobState.ENABLED),  # it decides once it comes to its end
        (None, 0, JobState.FAULTED),  # somebody stopped it
    ],
)
def test_a_job_whose_last_instants_are_skipped_ends_as_its_last_occurrence_did(
    outcome: Outcome | None, at_work: int, state: JobState
):
    ending = job(
        ENDING,
        catch_up=CatchUp.SKIP,
        next_at=NOON + MINUTE,
        fired_at=NOON,
        occurrences=1,
        outcome=outcome,
    )

    found = ticked(ending, after=10 * MINUTE, at_work=at_work)

    assert found.gaps[0].instants == 2
    assert (found.job.next_at, found.job.state) == (None, state)


# Jobs without a start


DRIFTING = {"recurrence": {"frequency": "minute", "interval": 1}}


def test_a_job_without_a_start_counts_from_when_it_really_starts():
    drifting = job(DRIFTING)
    assert drifting.next_at == NOON + 20 * SECOND

    found = ticked(drifting, after=25 * SECOND)

    assert found.starts[0].at == NOON + 20 * SECOND
    assert found.job.next_at == NOON + MINUTE + 25 * SECOND


@pytest.mark.parametrize("catch_up", [CatchUp.ONE, CatchUp.ALL])
def test_such_a_job_has_one_instant_to_catch_up_however_late_it_is(catch_up: CatchUp):
    found = ticked(job(DRIFTING, catch_up=catch_up), after=YEAR)

    assert len(found.starts) == 1
    assert found.gaps == ()
    assert found.job.next_at == NOON + YEAR + MINUTE


def test_such_a_job_that_does_not_catch_up_goes_on_an_interval_from_now():
    found = ticked(job(DRIFTING, catch_up=CatchUp.SKIP), after=YEAR)

    assert (found.starts, found.gaps[0].instants) == ((), 1)
    assert found.job.next_at == NOON + YEAR + MINUTE


# What cannot be


def test_a_definition_that_cannot_be_read_faults_its_job_and_nobody_else_waits():
    broken = job()
    broken.definition["recurrence"]["frequency"] = "fortnight"

    found = ticked(broken, after=SECOND)

    assert (found.job.state, found.job.next_at, found.starts) == (JobState.FAULTED, None, ())
    assert "properties.recurrence.frequency" in found.gaps[0].message
