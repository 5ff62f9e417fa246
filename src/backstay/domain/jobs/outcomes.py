"""What attempts make of the job that they are of."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from backstay.domain.jobs.records import (
    ActionName,
    Counters,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Occurrence,
    Outcome,
)

#: A job in one of these stays what it is.
FINISHED: Final = frozenset({JobState.COMPLETED, JobState.FAULTED})


def counted(job: JobRecord, occurrence: Occurrence, entry: HistoryEntry, *, final: bool) -> JobRecord:
    """The job after an attempt that is new. Only the main action counts, and only of this generation."""
    if occurrence.generation != job.generation or entry.action is not ActionName.MAIN:
        return job
    began, failed = entry.retry == 0, entry.status is EntryStatus.FAILED
    counters = Counters(
        executions=job.counters.executions + began,
        failures=job.counters.failures + failed,
        faults=job.counters.faults + (final and failed),
    )
    after = replace(job, counters=counters)
    if began:
        after = replace(after, last_execution_at=_latest((job.last_execution_at, entry.started_at)))
    if final and not occurrence.by_hand:
        after = replace(after, outcome=_later(job.outcome, Outcome(occurrence.at, failed)))
    return finished(after)


def finished(job: JobRecord) -> JobRecord:
    """An enabled job with no instant to come is over once its last occurrence is, and ends as that did."""
    outcome = job.outcome
    if job.state is not JobState.ENABLED or job.next_at is not None:
        return job
    if outcome is None or outcome.at != job.fired_at:
        return job
    return replace(job, state=JobState.FAULTED if outcome.failed else JobState.COMPLETED)


def abandoned(job: JobRecord) -> JobRecord:
    """The same, when nothing more will be heard of its last occurrence: somebody stopped it."""
    after = finished(job)
    return replace(job, state=JobState.FAULTED) if after.state is JobState.ENABLED else after


def _later(known: Outcome | None, new: Outcome) -> Outcome:
    return known if known is not None and known.at > new.at else new


def _latest(instants: Iterable[datetime | None]) -> datetime:
    return max(one for one in instants if one is not None)
