"""When a job runs next, after somebody changed it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.domain.jobs.documents import JobDocument
from backstay.domain.jobs.records import JobRecord, JobState
from backstay.domain.recurrence import Timetable, read_timing

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
    if not same or job.occurrences == 0:
        job = msgspec.structs.replace(job, created_at=now)
    table = Timetable(document.timing, created=job.created_at, delay=delay)
    return _arranged(job, document.state, _due(job, table, delay=delay, now=now))


def upcoming(job: JobRecord, *, delay: timedelta, limit: int) -> list[datetime]:
    """The next instants, as if each occurrence started when it is due.

    Of a job that is not enabled there are none.
    """
    table = Timetable(read_timing(job.definition), created=job.created_at, delay=delay)
    found: list[datetime] = []
    due, ran = job.next_at, job.occurrences
    while due is not None and len(found) < limit:
        found.append(due)
        ran += 1
        due = table.next_after(due, ran=ran)
    return found


def _due(job: JobRecord, table: Timetable, *, delay: timedelta, now: datetime) -> datetime | None:
    """The next instant that is not past: what a job has missed while it was disabled, it has missed."""
    if table.drifts and job.fired_at is not None and job.created_at < now:
        due = table.next_after(job.fired_at, ran=job.occurrences)
        return due if due is None else max(due, now + delay)
    # What is not past comes after the moment before; and nothing starts twice.
    since = now - _MOMENT if job.fired_at is None else max(now - _MOMENT, job.fired_at)
    return table.next_after(since, ran=job.occurrences)


def _arranged(job: JobRecord, state: JobState, due: datetime | None) -> JobRecord:
    if state is not JobState.ENABLED:
        return msgspec.structs.replace(job, state=state, next_at=None)
    # Its end came before its first instant. With an occurrence behind it, a job ends as that one does.
    if due is None and job.occurrences == 0:
        state = JobState.COMPLETED
    return msgspec.structs.replace(job, state=state, next_at=due)
