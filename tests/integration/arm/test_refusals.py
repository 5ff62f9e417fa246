"""What is refused, and that it changes nothing. No database has a say in it, so there is only one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.arm import Arm, error
from tests.support.databases import SqliteDatabase
from tests.support.job_documents import QUEUE, body, http

JOB = "/jc1/jobs/j1"
MINIMAL = {"location": "westus"}


@pytest.fixture
def database(sqlite_database: SqliteDatabase) -> SqliteDatabase:
    return sqlite_database


# What is not there


ABSENT = "The Resource 'Microsoft.Scheduler/jobcollections/{}' under resource group 'RG' was not found."


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("GET", "", None),
        ("PATCH", "", {"tags": {}}),
        ("DELETE", "", None),
        ("POST", "/enable", None),
        ("POST", "/disable", None),
        ("GET", "/jobs", None),
        ("GET", "/jobs/j1", None),
        ("PUT", "/jobs/j1", body()),
        ("PATCH", "/jobs/j1", {"properties": {}}),
        ("DELETE", "/jobs/j1", None),
        ("POST", "/jobs/j1/run", None),
        ("GET", "/jobs/j1/history", None),
    ],
)
async def test_a_collection_that_is_not_there_is_not_found(arm: Arm, method: str, path: str, document: Any):
    sent = {} if document is None else {"body": document}

    answer = await arm.ask(method, f"/Gone{path}", **sent)

    assert error(answer) == (404, "ResourceNotFound", ABSENT.format("Gone"))
    assert answer.headers["x-ms-failure-cause"] == "gateway"
    assert await arm.names() == []


# Collections


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "location is missing"),
        ([], "the job collection is an array"),
        (
            {**MINIMAL, "properties": {"sku": {"name": "Gold"}}},
            "properties.sku.name is none of Standard, Free",
        ),
        ({**MINIMAL, "properties": {"sku": {"name": "Premium"}}}, "properties.sku.name is none of"),
        ({**MINIMAL, "properties": {"quota": {"maxJobCount": 51}}}, "cannot be higher than 50"),
        ({**MINIMAL, "properties": {"state": "Deleted"}}, "properties.state"),
        ({**MINIMAL, "tags": {"a": 1}}, "tags"),
    ],
)
async def test_a_bad_collection_is_refused_and_nothing_is_written(arm: Arm, document: Any, says: str):
    status, code, message = error(await arm.put("/jc1", document))

    assert (status, code) == (400, "BadRequest")
    assert says in message
    assert await arm.names() == []


@pytest.mark.parametrize("name", ["1jc", "_jc", "j.c", "j%20c", "x" * 101, "%C3%A9"])
async def test_a_bad_name_of_a_collection_is_refused(arm: Arm, name: str):
    status, code, message = error(await arm.put(f"/{name}", MINIMAL))

    assert (status, code) == (400, "BadRequest")
    assert "write a letter, then letters, digits, - and _" in message
    assert await arm.names() == []


# Jobs


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "Malformed Job Object"),
        ({}, "Malformed Job Object"),
        (None, "Malformed Job Object"),
        (
            body(recurrence={"frequency": "Week", "schedule": {"monthDays": [1]}}),
            "Cannot set days of month with recurrence unit 'Week'.",
        ),
    ],
)
async def test_some_refusals_have_words_that_are_known(jc1: Arm, document: Any, says: str):
    assert error(await jc1.put(JOB, document)) == (400, "BadRequest", says)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (body(action={"type": "Ftp"}), "properties.action.type is none of Http"),
        (body(recurrence={"frequency": "day", "interval": 0}), "properties.recurrence.interval is 0"),
        (body(recurrence={"frequency": "day", "interval": 1001}), "between 1 and 1000"),
        (body(retryPolicy={"retryType": "fixed", "retryCount": 21}), "retryCount is 21"),
        (body(retryPolicy={"retryType": "fixed", "retryInterval": "PT5S"}), "at least 15s"),
        (body(startTime="yesterday"), "properties.startTime is 'yesterday'"),
        (body(state="Completed"), "write Enabled or Disabled"),
        (http(body="x" * 8193), "write at most 8,192"),
        (http(headers={f"h{n}": "" for n in range(51)}), "write at most 50"),
        (http(uri="http://a/" + "x" * 2048), "write at most 2,048"),
        (
            body(
                action={
                    "type": "StorageQueue",
                    "queueMessage": {**QUEUE["queueMessage"], "message": "x" * 16384},
                }
            ),
            "(16 K)",
        ),
    ],
)
async def test_bad_input_changes_nothing(jc1: Arm, document: Any, says: str):
    made = (await jc1.put(JOB, body())).json
    audit = (await jc1.served.get("/v1/audit")).json

    for answer in (
        await jc1.put("/jc1/jobs/j2", document),
        await jc1.put(JOB, document),
        await jc1.patch(JOB, document),
    ):
        status, code, message = error(answer)
        assert (status, code) == (400, "BadRequest")
        assert says in message
    assert (await jc1.get("/jc1/jobs")).json["value"] == [made]
    assert (await jc1.served.get("/v1/audit")).json == audit


@pytest.mark.parametrize("name", ["1j", "-", "a.b", "x" * 101])
async def test_a_bad_name_of_a_job_is_refused(jc1: Arm, name: str):
    assert error(await jc1.put(f"/jc1/jobs/{name}", body()))[:2] == (400, "BadRequest")
    assert await jc1.names("/jc1/jobs") == []


# Lists


@pytest.mark.parametrize(
    "query",
    [
        "$top=0",
        "$top=101",
        "$top=x",
        "$skip=-1",
        "$skip=1.5",
        "$top=1&$top=2",
        "$filter=",
        "$filter=state",
        "$filter=state%20ne%20Enabled",
        "$filter=name%20eq%20a",
        "$filter=state%20eq%20Sleepy",
        "$filter=state%20eq%20'Enabled",
        "$filter=state%20eq%20Enabled%20or%20state%20eq%20Disabled",
    ],
)
async def test_a_list_is_asked_for_in_these_ways_only(jc1: Arm, query: str):
    await jc1.put(JOB, body())

    for path in ("/jc1/jobs", f"{JOB}/history"):
        status, code, message = error(await jc1.get(path, query))
        assert (status, code) == (400, "BadRequest")
        assert query.partition("=")[0] in message


async def test_parameters_that_nobody_knows_are_ignored(jc1: Arm):
    assert (await jc1.get("/jc1/jobs", "$expand=all&x=y")).status == 200
