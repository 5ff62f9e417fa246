"""Jobs over the REST API."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from backstay.domain.instants import micros
from backstay.domain.jobs.records import ActionName, CollectionId, EntryStatus, HistoryEntry, Occurrence
from backstay.store.jobs import Attempt
from tests.support.arm import ROOT, Arm, error, is_empty
from tests.support.job_documents import BASIC, HTTP, QUEUE, body, http

JOB = "/jc1/jobs/j1"
PLACE = CollectionId("S", "RG", "jc1")


# Making and changing them


async def test_a_job_is_new_once(jc1: Arm):
    made = await jc1.put(JOB, body())
    again = await jc1.put(JOB, body())
    found = await jc1.get(JOB)

    assert (made.status, again.status, found.status) == (201, 200, 200)
    assert made.json == found.json
    assert made.json == {
        "id": f"{ROOT}/jc1/jobs/j1",
        "type": "Microsoft.Scheduler/jobCollections/jobs",
        "name": "jc1/j1",
        "properties": {
            "action": HTTP,
            "state": "enabled",
            "status": {
                "nextExecutionTime": "2030-01-01T00:00:20Z",
                "executionCount": 0,
                "failureCount": 0,
                "faultedCount": 0,
            },
        },
    }


async def test_a_job_that_is_deleted_can_be_made_anew(jc1: Arm):
    await jc1.put(JOB, body())

    assert is_empty(await jc1.delete(JOB))
    assert error(await jc1.get(JOB)) == (404, "NotFound", "Job 'j1' cannot be found.")
    assert (await jc1.put(JOB, body())).status == 201


async def test_a_put_replaces_and_a_patch_keeps(jc1: Arm):
    whole = body(
        startTime="2030-05-01T00:00:00.1234567Z",
        recurrence={"frequency": "Day", "count": 5},
        retryPolicy={"retryType": "Fixed", "retryInterval": "PT1M", "retryCount": 2},
        errorAction=QUEUE,
    )
    first = (await jc1.put(JOB, whole)).json

    patched = await jc1.patch(JOB, {"properties": {"recurrence": {"interval": 3}}})
    replaced = await jc1.put(JOB, body())

    assert patched.status == 200
    assert patched.json["properties"]["recurrence"] == {"frequency": "day", "count": 5, "interval": 3}
    assert patched.json["properties"]["action"] == first["properties"]["action"]
    assert patched.json["properties"]["startTime"] == "2030-05-01T00:00:00.1234567Z"
    assert patched.json["properties"]["status"]["nextExecutionTime"] == "2030-05-01T00:00:00.1234567Z"
    assert set(replaced.json["properties"]) == {"action", "state", "status"}
    assert replaced.json["properties"]["action"] == HTTP


async def test_a_job_is_disabled_and_enabled_by_its_state(jc1: Arm):
    off = await jc1.put(JOB, body(state="Disabled"))
    on = await jc1.patch(JOB, {"properties": {"state": "Enabled"}})

    assert off.json["properties"]["state"] == "disabled"
    assert "status" not in off.json["properties"]
    assert on.json["properties"]["state"] == "enabled"
    assert on.json["properties"]["status"]["nextExecutionTime"] == "2030-01-01T00:00:20Z"


async def test_names_and_paths_are_found_in_any_letter_case(jc1: Arm):
    await jc1.put(JOB, body())
    shouted = ROOT.upper()

    found = await jc1.get("/JC1/JOBS/J1", root=shouted)
    changed = await jc1.put("/Jc1/Jobs/J1", body(state="disabled"), root=ROOT.lower())

    assert found.json["name"] == changed.json["name"] == "jc1/j1"
    assert found.json["id"] == f"{ROOT}/jc1/jobs/j1"
    assert changed.status == 200
    assert await jc1.names("/jc1/jobs") == ["jc1/j1"]


async def test_a_job_that_is_not_there_is_not_found(jc1: Arm):
    answers = [
        await jc1.get("/jc1/jobs/None"),
        await jc1.patch("/jc1/jobs/None", {"properties": {"state": "Disabled"}}),
        await jc1.delete("/jc1/jobs/None"),
        await jc1.post("/jc1/jobs/None/run"),
        await jc1.get("/jc1/jobs/None/history"),
    ]

    assert {error(one) for one in answers} == {(404, "NotFound", "Job 'None' cannot be found.")}
    assert "x-ms-failure-cause" not in answers[0].headers


async def test_a_job_that_is_over_can_only_be_deleted(jc1: Arm):
    past = body(startTime="2020-01-01", recurrence={"frequency": "day", "endTime": "2021-01-01"})
    made = await jc1.put(JOB, past)

    assert made.json["properties"]["state"] == "completed"
    assert "nextExecutionTime" not in made.json["properties"]["status"]
    for answer in (
        await jc1.put(JOB, body()),
        await jc1.patch(JOB, {"properties": {"state": "Enabled"}}),
        await jc1.post(f"{JOB}/run"),
    ):
        assert error(answer)[:2] == (409, "Conflict")
    assert (await jc1.get(JOB)).json == made.json
    assert is_empty(await jc1.delete(JOB))


# Secrets


async def test_secrets_go_in_and_never_come_out(jc1: Arm, caplog: pytest.LogCaptureFixture):
    documents = [
        http(authentication=BASIC),
        body(action=QUEUE, errorAction=http(authentication=BASIC)["properties"]["action"]),
    ]
    answers = []
    for number, document in enumerate(documents):
        answers += [
            await jc1.put(f"/jc1/jobs/j{number}", document),
            await jc1.patch(f"/jc1/jobs/j{number}", {"properties": {"state": "Disabled"}}),
            await jc1.get(f"/jc1/jobs/j{number}"),
            await jc1.patch(f"/jc1/jobs/j{number}", {"properties": {"action": {"type": "hunter2"}}}),
        ]
    answers.append(await jc1.get("/jc1/jobs"))
    answers.append(await jc1.served.get("/v1/audit"))

    assert [one.status for one in answers] == [201, 200, 200, 400] * 2 + [200, 200]
    assert not [one for one in answers if b"hunter2" in one.body]
    assert "hunter2" not in caplog.text
    kept = await jc1.served.store.jobs.job(PLACE, "j0")
    assert await jc1.served.store.jobs.secrets(kept.key, uid=kept.uid) == {
        "action.request.authentication.password": "hunter2"
    }


# Lists


async def test_jobs_are_listed_by_name_and_filtered_before_they_are_skipped_and_counted(jc1: Arm):
    for name in ("d", "B", "a", "c", "E"):
        await jc1.put(f"/jc1/jobs/{name}", body(state="Disabled" if name in "Bc" else "Enabled"))

    async def names(query: str) -> str:
        return "".join(one.removeprefix("jc1/") for one in await jc1.names("/jc1/jobs", query))

    assert await names("") == "aBcdE"
    assert await names("$top=2") == "aB"
    assert await names("$skip=3") == "dE"
    assert await names("$skip=9") == ""
    assert await names("$filter=state%20eq%20Enabled") == "adE"
    assert await names("$filter=State+EQ+'disabled'") == "Bc"
    assert await names("$filter=state%20eq%20faulted") == ""
    assert await names("$top=1&$skip=1&$filter=state%20eq%20Enabled") == "d"


# Quotas


async def test_a_hundred_who_create_a_job_at_once_never_exceed_the_quota(arm: Arm):
    await arm.made("jc1", quota={"maxJobCount": 7})

    answers = await asyncio.gather(*(arm.put(f"/jc1/jobs/j{number}", body()) for number in range(100)))

    assert sorted(one.status for one in answers) == [201] * 7 + [409] * 93
    assert len(await arm.names("/jc1/jobs")) == 7
    status, code, message = error(next(one for one in answers if one.status == 409))
    assert (status, code) == (409, "Conflict")
    assert "has reached its quota of '7'" in message


async def test_one_that_is_there_is_changed_although_the_quota_is_used_up(arm: Arm):
    await arm.made("jc1", quota={"maxJobCount": 1})
    await arm.put(JOB, body())

    assert (await arm.put(JOB, body(state="disabled"))).status == 200
    assert (await arm.put("/jc1/jobs/j2", body())).status == 409
    await arm.delete(JOB)
    assert (await arm.put("/jc1/jobs/j2", body())).status == 201


@pytest.mark.parametrize(
    "document",
    [
        body(recurrence={"frequency": "minute", "interval": 59}),
        body(recurrence={"frequency": "day", "schedule": {"minutes": [0, 30]}}),
        http(authentication=BASIC),
    ],
    ids=["faster than hourly", "twice an hour", "authentication"],
)
async def test_a_free_collection_takes_less(arm: Arm, document: Any):
    await arm.made("jc1", "Free")

    assert error(await arm.put(JOB, document))[:2] == (409, "Conflict")
    assert await arm.names("/jc1/jobs") == []
    assert (await arm.put(JOB, body(recurrence={"frequency": "hour"}))).status == 201
    assert error(await arm.patch(JOB, document))[:2] == (409, "Conflict")


# Running, and what became of it


async def test_a_job_is_run_now_without_using_up_anything(jc1: Arm):
    made = (await jc1.put(JOB, body(recurrence={"frequency": "day", "count": 2}))).json

    ran = await jc1.post(f"{JOB}/run")

    assert is_empty(ran)
    assert (await jc1.get(JOB)).json == made
    [task] = (await jc1.served.get("/v1/tasks")).json["items"]
    kept = await jc1.served.store.jobs.job(PLACE, "j1")
    assert task["id"] == f"job:{kept.uid}:1:{micros(jc1.served.clock.now())}:run"
    assert task["workflow"] == "backstay.job"


async def test_only_an_enabled_job_of_an_enabled_collection_is_run(jc1: Arm):
    await jc1.put(JOB, body(state="Disabled"))
    disabled = await jc1.post(f"{JOB}/run")
    await jc1.put(JOB, body())
    await jc1.post("/jc1/disable")
    stopped = await jc1.post(f"{JOB}/run")
    await jc1.patch("/jc1", {"properties": {"state": "Suspended"}})
    suspended = await jc1.post(f"{JOB}/run")

    for answer in (disabled, stopped, suspended):
        assert error(answer)[:2] == (409, "Conflict")
    assert (await jc1.served.get("/v1/tasks")).json["items"] == []


async def attempted(arm: Arm, *statuses: EntryStatus) -> None:
    """Attempts of the first occurrence of the job, a second apart."""
    kept, now = await arm.served.store.jobs.job(PLACE, "j1"), arm.served.clock.now()
    occurrence = Occurrence(job_key=kept.key, uid=kept.uid, generation=kept.generation, at=now, number=1)
    for retry, status in enumerate(statuses):
        began = now + timedelta(seconds=retry)
        entry = HistoryEntry(
            action=ActionName.MAIN,
            status=status,
            expected_at=now,
            started_at=began,
            ended_at=began + timedelta(milliseconds=5),
            message=f"attempt {retry}",
            retry=retry,
            repeat=1,
        )
        await arm.served.store.jobs.record([Attempt(occurrence=occurrence, entry=entry)], now=began)


async def test_the_history_is_listed_newest_first(jc1: Arm):
    await jc1.put(JOB, body())
    assert (await jc1.get(f"{JOB}/history")).json == {"value": [], "nextLink": None}
    failed, completed = EntryStatus.FAILED, EntryStatus.COMPLETED
    await attempted(jc1, failed, failed, completed)

    answer = (await jc1.get(f"{JOB}/history")).json

    assert answer["nextLink"] is None
    assert [one["properties"]["retryCount"] for one in answer["value"]] == [2, 1, 0]
    newest = answer["value"][0]
    assert newest["name"].startswith("jc1/j1/0")
    assert newest["id"] == f"{ROOT}/jc1/jobs/j1/history/{newest['name'].rpartition('/')[2]}"
    assert newest["properties"] == {
        "startTime": "2030-01-01T00:00:02Z",
        "endTime": "2030-01-01T00:00:02.005Z",
        "expectedExecutionTime": "2030-01-01T00:00:00Z",
        "message": "attempt 2",
        "retryCount": 2,
        "repeatCount": 1,
        "actionName": "MainAction",
    }
    assert (await jc1.get(JOB)).json["properties"]["status"].items() >= {
        "lastExecutionTime": "2030-01-01T00:00:00Z",
        "executionCount": 1,
        "failureCount": 2,
        "faultedCount": 0,
    }.items()

    async def retries(query: str) -> list[int]:
        found = (await jc1.get(f"{JOB}/history", query)).json["value"]
        return [one["properties"]["retryCount"] for one in found]

    assert await retries("$filter=status%20eq%20Failed") == [1, 0]
    assert await retries("$filter=state%20eq%20completed") == [2]
    assert await retries("$filter=status%20eq%20Postponed") == []
    assert await retries("$top=1&$skip=1") == [1]
    assert await retries("$top=1&$filter=status%20eq%20failed") == [1]


async def test_what_people_do_is_in_the_audit_trail(jc1: Arm):
    await jc1.put(JOB, http(authentication=BASIC))
    await jc1.patch(JOB, {"properties": {"state": "Disabled"}})
    await jc1.patch(JOB, {"properties": {"state": "Enabled"}})
    await jc1.post(f"{JOB}/run")
    await jc1.delete(JOB)
    await jc1.post("/jc1/disable")
    await jc1.post("/jc1/enable")
    await jc1.delete("/jc1")

    trail = (await jc1.served.get("/v1/audit")).json["items"]

    assert [(one["action"], one["target"]) for one in reversed(trail)] == [
        ("put", "collection:jc1"),
        ("put", "job:jc1/j1"),
        ("patch", "job:jc1/j1"),
        ("patch", "job:jc1/j1"),
        ("run", "job:jc1/j1"),
        ("delete", "job:jc1/j1"),
        ("disable", "collection:jc1"),
        ("enable", "collection:jc1"),
        ("delete", "collection:jc1"),
    ]
    assert {one["who"] for one in trail} == {"loopback"}
    assert "hunter2" not in str(trail)
