"""Jobs and their history as clients are answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from backstay.domain.jobs.records import (
    ActionName,
    CollectionId,
    Counters,
    EntryStatus,
    HistoryEntry,
    JobState,
)
from backstay.domain.jobs.rendering import rendered_entry, rendered_job, ticks
from tests.support.job_documents import BASIC, body, http, written
from tests.support.job_records import NOON

ID = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Scheduler/jobCollections/jc1/jobs/j1"
PLACE = CollectionId("S", "RG", "jc1")


def job(document: Any = None, **fields: Any) -> Any:
    return replace(written(document or body()), collection=PLACE, **fields)


def test_a_job_that_never_ran():
    assert rendered_job(job(http(authentication=BASIC))) == {
        "id": ID,
        "type": "Microsoft.Scheduler/jobCollections/jobs",
        "name": "jc1/j1",
        "properties": {
            "action": {
                "request": {
                    "uri": "http://example.org",
                    "method": "GET",
                    "authentication": {"username": "u", "type": "Basic"},
                },
                "type": "Http",
            },
            "state": "enabled",
            "status": {
                "nextExecutionTime": "2030-01-01T12:00:20Z",
                "executionCount": 0,
                "failureCount": 0,
                "faultedCount": 0,
            },
        },
    }


def test_a_job_that_was_written_disabled_has_no_status():
    properties = rendered_job(job(body(state="Disabled")))["properties"]

    assert properties["state"] == "disabled"
    assert "status" not in properties


def test_a_job_that_was_at_work_before_it_was_disabled_says_so():
    found = job(
        state=JobState.DISABLED,
        next_at=None,
        occurrences=2,
        last_execution_at=NOON,
        counters=Counters(executions=2, failures=1, faults=0),
    )

    assert rendered_job(found)["properties"]["status"] == {
        "lastExecutionTime": "2030-01-01T12:00:00Z",
        "executionCount": 2,
        "failureCount": 1,
        "faultedCount": 0,
    }


def test_a_job_that_is_over_has_no_next_execution():
    found = job(
        state=JobState.COMPLETED,
        next_at=None,
        last_execution_at=datetime(2015, 6, 14, 6, 59, 3, tzinfo=UTC),
        counters=Counters(executions=40222),
    )

    properties = rendered_job(found)["properties"]
    assert properties["state"] == "completed"
    assert properties["status"] == {
        "lastExecutionTime": "2015-06-14T06:59:03Z",
        "executionCount": 40222,
        "failureCount": 0,
        "faultedCount": 0,
    }


def test_the_next_execution_has_all_digits_of_the_start():
    minutely = body(startTime="2030-02-09T23:55:25.5648511Z", recurrence={"frequency": "minute"})

    status = rendered_job(job(minutely))["properties"]["status"]

    assert status["nextExecutionTime"] == "2030-02-09T23:55:25.5648511Z"


def entry(**fields: Any) -> HistoryEntry:
    started = datetime(2016, 3, 30, 20, 39, 53, 802195, tzinfo=UTC)
    usual: dict[str, Any] = {
        "number": 7,
        "status": EntryStatus.FAILED,
        "expected_at": started - timedelta(seconds=1),
        "started_at": started,
        "ended_at": started + timedelta(milliseconds=62),
        "message": "Http Action - …",
        "repeat": 135,
    }
    return HistoryEntry(**{**usual, **fields})


def test_an_entry_of_the_history():
    assert rendered_entry(job(), entry()) == {
        "id": f"{ID}/history/02519429304061978049:00000000000000000007",
        "type": "Microsoft.Scheduler/jobCollections/jobs/history",
        "name": "jc1/j1/02519429304061978049:00000000000000000007",
        "properties": {
            "startTime": "2016-03-30T20:39:53.802195Z",
            "endTime": "2016-03-30T20:39:53.864195Z",
            "expectedExecutionTime": "2016-03-30T20:39:52.802195Z",
            "status": "failed",
            "message": "Http Action - …",
            "retryCount": 0,
            "repeatCount": 135,
            "actionName": "MainAction",
        },
    }


@pytest.mark.parametrize("status", EntryStatus)
def test_completed_goes_without_saying(status):
    properties = rendered_entry(job(), entry(status=status, action=ActionName.ERROR))["properties"]

    assert properties.get("status") == (None if status is EntryStatus.COMPLETED else status.value)
    assert properties["actionName"] == "ErrorAction"


def test_in_the_order_of_text_the_newest_entry_is_first():
    times = [
        datetime(1, 1, 1, tzinfo=UTC),
        NOON,
        NOON + timedelta(microseconds=1),
        datetime.max.replace(tzinfo=UTC),
    ]

    names = [rendered_entry(job(), entry(started_at=at))["name"] for at in times]

    assert names == sorted(names, reverse=True)
    assert ticks(times[0]) == 0
