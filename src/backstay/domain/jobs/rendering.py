"""Jobs and their history as clients are answered: no member that is not set, and never a secret."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from backstay.domain.instants import micros
from backstay.domain.jobs.collection import resource_of
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.records import EntryStatus, HistoryEntry, JobRecord, JobState
from backstay.domain.recurrence import Moment, occurrence_text, read_timing

_JOB_TYPE: Final = "Microsoft.Scheduler/jobCollections/jobs"

# What .NET counts time in: tenths of a microsecond, from the first day of year 1 to the last moment of 9999.
_TICKS_MAX: Final = 3_155_378_975_999_999_999
_TICKS_1970: Final = 621_355_968_000_000_000


def rendered_job(job: JobRecord) -> Json:
    properties: Json = {**job.definition, "state": job.state.value}
    status = _status(job)
    if status:
        properties["status"] = status
    return {
        "id": f"{resource_of(job.collection)}/jobs/{job.name}",
        "type": _JOB_TYPE,
        "name": f"{job.collection.name}/{job.name}",
        "properties": properties,
    }


def _status(job: JobRecord) -> Json:
    """Nothing for a job that was written disabled, and has not been at work since."""
    if job.state is JobState.DISABLED and job.occurrences == 0:
        return {}
    status: Json = {}
    if job.last_execution_at is not None:
        status["lastExecutionTime"] = Moment(job.last_execution_at).text
    if job.next_at is not None:
        status["nextExecutionTime"] = occurrence_text(read_timing(job.definition), job.next_at)
    return status | {
        "executionCount": job.counters.executions,
        "failureCount": job.counters.failures,
        "faultedCount": job.counters.faults,
    }


def rendered_entry(job: JobRecord, entry: HistoryEntry) -> Json:
    name = entry_name(entry)
    properties: Json = {
        "startTime": Moment(entry.started_at).text,
        "endTime": Moment(entry.ended_at).text,
        "expectedExecutionTime": Moment(entry.expected_at).text,
        "status": entry.status.value,
        "message": entry.message,
        "retryCount": entry.retry,
        "repeatCount": entry.repeat,
        "actionName": entry.action.value,
    }
    # Completed is what goes without saying.
    if entry.status is EntryStatus.COMPLETED:
        del properties["status"]
    return {
        "id": f"{resource_of(job.collection)}/jobs/{job.name}/history/{name}",
        "type": f"{_JOB_TYPE}/history",
        "name": f"{job.collection.name}/{job.name}/{name}",
        "properties": properties,
    }


def entry_name(entry: HistoryEntry) -> str:
    """Two numbers of twenty digits. The first falls with time: in the order of text the newest is first."""
    return f"{_TICKS_MAX - ticks(entry.started_at):020}:{entry.number:020}"


def ticks(instant: datetime) -> int:
    return _TICKS_1970 + micros(instant) * 10
