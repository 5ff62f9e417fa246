"""What a PATCH keeps of a job, what it changes, and when the job runs then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from backstay.domain.jobs import deciding
from backstay.domain.jobs.merging import difference, merged
from backstay.domain.jobs.planning import upcoming
from backstay.domain.jobs.records import JobRecord, JobState
from backstay.domain.jobs.shapes import JOB
from backstay.errors import InvalidJob, JobForbids
from tests.support.job_documents import BASIC, HTTP, QUEUE, SERVICE_BUS, body, http, written
from tests.support.job_records import COLLECTION, NOON, RULES

PASSWORD = "action.request.authentication.password"


def patched(job: JobRecord, now: datetime = NOON, **properties: Any) -> JobRecord:
    return deciding.patch_job(
        {"properties": properties}, collection=COLLECTION, job=job, delay=RULES.immediately, now=now
    )


def put(job: JobRecord, document: Any, now: datetime = NOON) -> JobRecord:
    return written(document, job=job, jobs=1, now=now)


# The change that makes one of the other

BEFORE = {
    "action": {
        "type": "Http",
        "request": {"uri": "http://a", "method": "GET", "headers": {"A": "b", "C": "d"}},
    },
    "recurrence": {"frequency": "day", "schedule": {"hours": [1], "minutes": [0]}},
    "overlap": "skip",
}


@pytest.mark.parametrize(
    ("after", "sent"),
    [
        (BEFORE, {}),
        ({**BEFORE, "overlap": "allow"}, {"overlap": "allow"}),
        ({**BEFORE, "catchUp": "all"}, {"catchUp": "all"}),
        ({name: BEFORE[name] for name in ("action", "overlap")}, {"recurrence": None}),
        (
            {**BEFORE, "recurrence": {"frequency": "day", "schedule": {"hours": [1, 2]}}},
            {"recurrence": {"schedule": {"hours": [1, 2], "minutes": None}}},
        ),
        (
            {
                **BEFORE,
                "action": {**HTTP, "request": {"uri": "http://a", "method": "GET", "headers": {"a": "b"}}},
            },
            {"action": {"request": {"headers": {"a": "b", "C": None}}}},
        ),
        (
            {**BEFORE, "action": {"type": "Workflow", "workflow": {"name": "w", "input": True}}},
            {
                "action": {
                    "type": "Workflow",
                    "request": None,
                    "workflow": {"name": "w", "input": True},
                }
            },
        ),
    ],
)
def test_the_difference_of_two_documents_is_what_makes_one_of_the_other(after: Any, sent: Any):
    assert difference(BEFORE, after, JOB) == sent
    assert merged(BEFORE, sent, JOB) == after


def test_values_that_python_takes_for_the_same_are_different():
    kept, wanted = ({"action": {"workflow": {"name": "w", "input": one}}} for one in (1, True))

    assert difference(kept, wanted, JOB) == {"action": {"workflow": {"input": True}}}


def test_a_secret_stays_where_it_is_while_what_is_beside_it_changes():
    job = written(http(authentication=BASIC))
    before = job.definition
    authentication = {"type": "Basic", "username": "somebody else"}
    wanted = {
        "action": {
            **before["action"],
            "request": {**before["action"]["request"], "authentication": authentication},
        }
    }

    found = patched(job, **difference(before, wanted, JOB))

    assert found.secrets == {PASSWORD: "hunter2"}
    assert found.definition["action"]["request"]["authentication"]["username"] == "somebody else"


# What is kept


def test_members_that_are_not_sent_keep_their_value_at_every_depth():
    job = written(
        body(
            startTime="2030-02-01",
            recurrence={"frequency": "hour", "interval": 2, "count": 9, "endTime": "2031-01-01"},
        )
    )

    found = patched(job, startTime="2030-03-01", recurrence={"frequency": "Day", "interval": 1})

    assert found.definition["recurrence"] == {
        "frequency": "day",
        "interval": 1,
        "count": 9,
        "endTime": "2031-01-01T00:00:00Z",
    }
    assert found.definition["startTime"] == "2030-03-01T00:00:00Z"
    assert found.definition["action"] == job.definition["action"]


def test_arrays_are_replaced_as_a_whole():
    job = written(body(recurrence={"frequency": "day", "schedule": {"hours": [1, 2], "minutes": [0]}}))

    found = patched(job, recurrence={"schedule": {"hours": [3]}})

    assert found.definition["recurrence"]["schedule"] == {"hours": [3], "minutes": [0]}


def test_an_explicit_null_removes_a_member():
    job = written(body(startTime="2030-02-01", recurrence={"frequency": "day", "count": 3}))

    found = patched(job, startTime=None, recurrence={"count": None})

    assert found.definition == {"action": HTTP, "recurrence": {"frequency": "day", "interval": 1}}


def test_headers_are_merged_whatever_their_letter_case():
    job = written(http(headers={"Content-Type": "a", "X-Keep": "b", "X-Gone": "c"}))

    found = patched(job, action={"request": {"headers": {"content-type": "d", "X-Gone": None}}})

    assert found.definition["action"]["request"]["headers"] == {"X-Keep": "b", "content-type": "d"}


def test_the_input_of_a_workflow_is_replaced_as_a_whole():
    job = written(body(action={"type": "Workflow", "workflow": {"name": "w", "input": {"a": 1, "b": 2}}}))

    found = patched(job, action={"workflow": {"input": {"a": None}}})

    assert found.definition["action"]["workflow"] == {"name": "w", "input": {"a": None}}


def test_policies_at_their_other_places_are_merged_where_they_belong():
    job = written(body(retryPolicy={"retryType": "fixed", "retryCount": 3}))

    more = patched(job, retryPolicy={"retryInterval": "00:01:00"})
    gone = patched(job, action={"request": {"retryPolicy": None}})

    assert more.definition["action"]["retryPolicy"] == {
        "retryType": "fixed",
        "retryInterval": "00:01:00",
        "retryCount": 3,
    }
    assert "retryPolicy" not in gone.definition["action"]


def test_a_patch_of_nothing_changes_nothing():
    job = written(http(authentication=BASIC))

    assert patched(job) == job
    nothing = deciding.patch_job({}, collection=COLLECTION, job=job, delay=RULES.immediately, now=NOON)
    assert nothing == job


def test_a_status_and_a_state_that_only_a_run_can_make():
    job = written(body())

    assert patched(job, status={"executionCount": 7}) == job
    with pytest.raises(InvalidJob, match=r"properties\.state is completed"):
        patched(job, state="Completed")


def test_what_a_patch_makes_of_a_job_is_judged_like_any_document():
    job = written(body(recurrence={"frequency": "week", "schedule": {"weekDays": ["monday"]}}))

    with pytest.raises(InvalidJob, match="weekDays does not go with frequency month"):
        patched(job, recurrence={"frequency": "month"})
    with pytest.raises(InvalidJob, match=r"properties\.action is missing"):
        patched(job, action=None)


# Secrets


def test_a_secret_is_kept_while_its_place_is_there():
    job = written(http(authentication=BASIC))

    assert patched(job, action={"request": {"uri": "http://b"}}).secrets == {PASSWORD: "hunter2"}
    renamed = patched(job, action={"request": {"authentication": {"username": "v"}}})
    assert renamed.secrets == {PASSWORD: "hunter2"}
    assert renamed.definition["action"]["request"]["authentication"] == {"username": "v", "type": "Basic"}


def test_a_secret_is_replaced_by_another():
    job = written(http(authentication=BASIC))

    found = patched(job, action={"request": {"authentication": {"password": "new"}}})

    assert found.secrets == {PASSWORD: "new"}


@pytest.mark.parametrize(
    "action",
    [
        {"request": {"authentication": None}},
        {"request": {"authentication": {"type": "NotSpecified"}}},
        {"type": "StorageQueue", "queueMessage": {**QUEUE["queueMessage"], "sasToken": "other"}},
    ],
    ids=["removed", "of another type", "another action"],
)
def test_a_secret_goes_with_its_place(action):
    job = written(http(authentication=BASIC))

    assert "hunter2" not in patched(job, action=action).secrets.values()


def test_a_password_is_not_handed_on_to_another_type_of_authentication():
    job = written(http(authentication=BASIC))

    with pytest.raises(InvalidJob, match=r"authentication\.password is missing"):
        patched(
            job, action={"request": {"authentication": {"type": "ClientCertificate", "pfx": "aHVudGVyMg=="}}}
        )


def test_http_may_become_https_and_keeps_its_request():
    job = written(http(authentication=BASIC))

    found = patched(job, action={"type": "https"})

    assert (found.definition["action"]["type"], found.secrets) == ("Https", {PASSWORD: "hunter2"})


def test_secrets_of_an_error_action_are_kept_as_well():
    job = written(body(errorAction={**QUEUE}))

    found = patched(job, action={"errorAction": {"queueMessage": {"message": "other"}}})

    assert found.secrets == {"action.errorAction.queueMessage.sasToken": "hunter2"}
    assert patched(job, errorAction=None).secrets == {}


def test_a_put_replaces_everything():
    job = written(http(authentication=BASIC) | {})
    job = patched(job, recurrence={"frequency": "day"}, retryPolicy={"retryType": "none"}, catchUp="all")

    found = put(job, body())

    assert (found.definition, found.secrets) == ({"action": HTTP}, {})
    assert found.catch_up == "one"
    assert (found.uid, found.generation) == (job.uid, job.generation + 1)


# Durations


def test_durations_are_written_as_the_client_wrote_last():
    message = {"queueName": "q", **SERVICE_BUS, "brokeredMessageProperties": {"timeToLive": "00:01:00"}}
    job = written(
        body(
            action={
                "type": "ServiceBusQueue",
                "serviceBusQueueMessage": message,
                "retryPolicy": {"retryInterval": "00:00:15"},
                "errorAction": {**HTTP, "retryPolicy": {"retryInterval": "1.00:00:00"}},
            }
        )
    )

    silent = patched(job, state="Disabled").definition["action"]
    found = patched(job, retryPolicy={"retryInterval": "PT2M"}).definition["action"]

    assert silent == job.definition["action"]
    assert found["retryPolicy"]["retryInterval"] == "PT2M"
    assert found["errorAction"]["retryPolicy"]["retryInterval"] == "P1D"
    assert found["serviceBusQueueMessage"]["brokeredMessageProperties"]["timeToLive"] == "PT1M"


# When it runs


def test_a_job_runs_soon_after_it_was_written_or_at_its_start():
    assert written(body()).next_at == NOON + RULES.immediately
    assert written(body(startTime="2030-02-01")).next_at == datetime(2030, 2, 1, tzinfo=UTC)
    assert written(body(state="disabled")).next_at is None


def test_a_job_whose_end_is_past_is_completed_at_once():
    job = written(body(startTime="2020-01-01", recurrence={"frequency": "day", "endTime": "2021-01-01"}))

    assert (job.state, job.next_at) == (JobState.COMPLETED, None)


def test_a_schedule_that_never_matches_is_refused():
    never = {"frequency": "month", "schedule": {"months": [2], "monthDays": [30]}}

    with pytest.raises(InvalidJob, match="matches no instant"):
        written(body(recurrence=never))
    with pytest.raises(InvalidJob, match="matches no instant"):
        patched(written(body(state="disabled")), recurrence=never)


HOURLY = {"startTime": "2030-01-01T11:30:00Z", "recurrence": {"frequency": "hour", "count": 5}}


def ran(job: JobRecord, times: int, *, last: datetime, next_at: datetime | None) -> JobRecord:
    return replace(job, occurrences=times, fired_at=last, last_execution_at=last, next_at=next_at)


def test_a_change_of_the_action_leaves_the_next_instant_and_the_count_as_they_are():
    later = NOON + timedelta(hours=3)
    job = ran(written(body(**HOURLY)), 2, last=NOON, next_at=later)

    found = patched(job, NOON + timedelta(hours=1), action={"request": {"method": "POST"}})

    assert (found.next_at, found.occurrences, found.generation) == (later, 2, job.generation)
    assert found.created_at == job.created_at
    assert found.updated_at == NOON + timedelta(hours=1)


def test_a_change_of_the_recurrence_lets_the_count_go_on():
    job = ran(written(body(**HOURLY)), 2, last=NOON, next_at=NOON + timedelta(hours=3))

    found = patched(job, NOON + timedelta(hours=1), recurrence={"frequency": "minute", "interval": 20})

    assert found.next_at == NOON + timedelta(hours=1, minutes=10)
    assert (found.occurrences, found.generation) == (2, job.generation)
    done = patched(job, NOON, recurrence={"count": 2})
    assert (done.next_at, done.state) == (None, JobState.ENABLED)  # Its last occurrence decides.


def test_a_put_begins_to_count_anew():
    job = ran(written(body(**HOURLY)), 2, last=NOON, next_at=None)

    found = put(job, body(**HOURLY), NOON + timedelta(hours=1))

    assert (found.occurrences, found.fired_at, found.outcome) == (0, None, None)
    assert found.next_at == NOON + timedelta(hours=1, minutes=30)
    assert found.last_execution_at == job.last_execution_at


def test_a_job_that_was_written_disabled_begins_when_it_is_enabled():
    job = written(body(state="disabled"))

    found = patched(job, NOON + timedelta(days=9), state="enabled")

    assert found.next_at == NOON + timedelta(days=9) + RULES.immediately


def test_a_job_that_was_disabled_for_a_while_goes_on_with_what_comes():
    job = ran(written(body(**HOURLY)), 1, last=NOON - timedelta(minutes=30), next_at=None)
    stopped = patched(job, state="Disabled")

    found = patched(stopped, NOON + timedelta(days=1), state="Enabled")

    assert (stopped.next_at, stopped.state) == (None, JobState.DISABLED)
    assert found.next_at == NOON + timedelta(days=1, minutes=30)
    assert found.occurrences == 1


@pytest.mark.parametrize(("minutes", "due"), [(10, 60), (300, 300)])
def test_a_job_without_a_start_goes_on_an_interval_after_it_last_began(minutes, due):
    job = written(body(recurrence={"frequency": "hour"}), now=NOON - RULES.immediately)
    job = ran(job, 1, last=NOON, next_at=None)
    stopped = patched(job, NOON + timedelta(minutes=1), state="disabled")

    found = patched(stopped, NOON + timedelta(minutes=minutes), state="enabled")

    delay = RULES.immediately if due == minutes else timedelta()
    assert found.next_at == NOON + timedelta(minutes=due) + delay


def test_a_schedule_keeps_the_minute_at_which_the_job_was_created():
    created = NOON + timedelta(minutes=25)
    job = written(body(recurrence={"frequency": "day", "schedule": {"hours": [5]}}), now=created)
    job = ran(job, 1, last=created, next_at=None)
    stopped = patched(job, NOON + timedelta(hours=2), state="disabled")

    found = patched(stopped, NOON + timedelta(hours=3), state="enabled")

    assert found.next_at == datetime(2030, 1, 2, 5, 25, tzinfo=UTC)


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAULTED])
def test_a_job_that_is_over_can_only_be_deleted(state):
    job = replace(written(body()), state=state, next_at=None)

    with pytest.raises(JobForbids, match=f"'j1' is {state} and cannot be changed. Delete it"):
        patched(job, state="enabled")
    with pytest.raises(JobForbids):
        put(job, body())
    with pytest.raises(JobForbids):
        deciding.check_may_run(COLLECTION, job)


# What comes next


def test_what_comes_next_is_told_as_far_as_the_job_goes():
    start = NOON + timedelta(hours=1)
    job = written(body(startTime="2030-01-01T13:00:00Z", recurrence={"frequency": "hour", "count": 3}))
    later = replace(job, next_at=start + timedelta(hours=1), fired_at=start, occurrences=1)

    def told(job: JobRecord, limit: int = 20) -> list[datetime]:
        return upcoming(job, delay=RULES.immediately, limit=limit)

    assert told(job) == [start, start + timedelta(hours=1), start + timedelta(hours=2)]
    assert told(job, limit=1) == [start]
    assert told(later) == [start + timedelta(hours=1), start + timedelta(hours=2)]
    assert told(patched(job, state="Disabled")) == []
