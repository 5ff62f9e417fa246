"""What attempts make of the job that they are of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from backstay.domain.jobs.outcomes import counted, finished
from backstay.domain.jobs.records import (
    ActionName,
    CollectionId,
    Counters,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Occurrence,
    Outcome,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
#: It was fired at noon for the last time.
LAST = JobRecord(
    key=7,
    uid="u",
    generation=2,
    collection=CollectionId("s", "g", "c"),
    name="j",
    definition={},
    created_at=NOON,
    updated_at=NOON,
    fired_at=NOON,
    occurrences=1,
)


def after(job: JobRecord, *, final: bool = False, failed: bool = False, **changed: Any) -> JobRecord:
    """The job after an attempt of its last occurrence."""
    fields = {"job_key": 7, "uid": "u", "generation": 2, "at": NOON, "number": 1, "by_hand": False}
    entry = {
        "status": EntryStatus.FAILED if failed else EntryStatus.COMPLETED,
        "expected_at": NOON,
        "started_at": NOON + SECOND,
        "ended_at": NOON + SECOND,
        "message": "",
    }
    occurrence = Occurrence(**{name: changed.pop(name, value) for name, value in fields.items()})
    return counted(job, occurrence, HistoryEntry(**{**entry, **changed}), final=final)


def test_the_first_attempt_of_an_occurrence_is_an_execution_and_a_retry_is_not():
    first = after(LAST, failed=True)

    assert first.counters == Counters(executions=1, failures=1)
    assert first.last_execution_at == NOON + SECOND
    again = after(first, failed=True, retry=1, started_at=NOON + 9 * SECOND)
    assert again.counters == Counters(executions=1, failures=2)
    assert again.last_execution_at == NOON + SECOND


def test_an_execution_that_is_told_late_is_not_the_last_one():
    job = replace(LAST, last_execution_at=NOON + 9 * SECOND)

    assert after(job).last_execution_at == NOON + 9 * SECOND


@pytest.mark.parametrize(
    "other",
    [{"action": ActionName.ERROR}, {"generation": 1}],
    ids=["the error action", "an earlier generation"],
)
def test_what_does_not_count_changes_nothing(other: dict[str, Any]):
    assert after(LAST, final=True, failed=True, **other) == LAST


@pytest.mark.parametrize(("failed", "state"), [(False, JobState.COMPLETED), (True, JobState.FAULTED)])
def test_a_job_ends_with_its_last_occurrence(failed: bool, state: JobState):
    job = after(LAST, final=True, failed=failed)

    assert (job.state, job.outcome, job.counters.faults) == (state, Outcome(NOON, failed), int(failed))


@pytest.mark.parametrize(
    "job",
    [
        replace(LAST, next_at=NOON + SECOND),
        replace(LAST, fired_at=NOON + SECOND),
        replace(LAST, state=JobState.DISABLED),
        replace(LAST, state=JobState.FAULTED),
    ],
    ids=["more to come", "another was fired since", "disabled", "over already"],
)
def test_a_job_stays_what_it_is_while_something_else_decides(job: JobRecord):
    assert after(job, final=True).state is job.state


def test_what_a_person_asked_for_is_counted_and_ends_nothing():
    job = after(LAST, final=True, failed=True, by_hand=True)

    assert (job.state, job.outcome) == (JobState.ENABLED, None)
    assert job.counters == Counters(executions=1, failures=1, faults=1)


def test_an_earlier_occurrence_that_ends_late_takes_nothing_back():
    job = replace(LAST, outcome=Outcome(NOON, failed=True))

    assert after(job, final=True, at=NOON - SECOND).outcome == job.outcome


def test_a_job_that_was_never_fired_is_not_over():
    assert finished(replace(LAST, fired_at=None)).state is JobState.ENABLED
