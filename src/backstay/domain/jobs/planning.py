"""When a job runs next, after somebody changed it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.domain.jobs.documents import JobDocument
from backstay.domain.jobs.records import JobRecord, JobState
from backstay.domain.recurrence import Timetable, Timing, read_timing

_MOMENT: Final = timedelta(microseconds=1)


def begun(job: JobRecord, document: JobDocument, *, delay: timedelta, now: datetime) -> JobRecord:
    """The job as it begins, or begins anew: nothing of this generation has run."""
    first = Timetable(document.timing, created=now, delay=delay).first
    fresh = msgspec.structs.replace(job, created_at=now, fired_at=None, occurrences=0, outcome=None)
    return _arranged(fresh, document.state, first)


def continued(job: JobRecord, document: JobDocument, *, delay: timedelta, now: datetime) -> JobRecord:
    """The job after a change that lets its count go on.

    While its timing and state stay as they are, so does its next instant.
    """
    same = document.timing == read_timing(job.definition)
    if same and document.state is job.state:
        return job
    if document.state is JobState.ENABLED and same and job.occurrences > 0:
        return _arranged(job, document.state, _resumed(job, document.timing, delay=delay, now=now))
    table = Timetable(document.timing, created=now, delay=delay)
    due = table.next_after(now - _MOMENT, ran=job.occurrences)
    return _arranged(msgspec.structs.replace(job, created_at=now), document.state, due)


def _resumed(job: JobRecord, timing: Timing, *, delay: timedelta, now: datetime) -> datetime | None:
    """The next instant of a job that has been disabled for a while; what it has missed, it has missed."""
    table = Timetable(timing, created=job.created_at, delay=delay)
    if not table.drifts:
        return table.next_after(now - _MOMENT, ran=job.occurrences)
    due = table.next_after(job.fired_at or now, ran=job.occurrences)
    return due if due is None else max(due, now + delay)


def _arranged(job: JobRecord, state: JobState, due: datetime | None) -> JobRecord:
    if state is not JobState.ENABLED:
        return msgspec.structs.replace(job, state=state, next_at=None)
    # Its end came before its first instant. With an occurrence behind it, a job ends as that one does.
    if due is None and job.occurrences == 0:
        state = JobState.COMPLETED
    return msgspec.structs.replace(job, state=state, next_at=due)
