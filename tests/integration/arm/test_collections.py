"""Job collections over the REST API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.arm import ROOT, Arm, error, is_empty
from tests.support.job_documents import BASIC, body, http

MINIMAL = {"location": "westus"}


async def test_a_collection_is_made_changed_and_found(arm: Arm):
    document = {
        "location": "westus",
        "tags": {"a": "b"},
        "properties": {
            "sku": {"name": "Standard"},
            "state": "Enabled",
            "quota": {"maxJobCount": 5, "maxRecurrence": {"frequency": "Minute", "interval": 1}},
        },
    }

    made = await arm.put("/jc1", document)
    again = await arm.put("/jc1", document)
    found = await arm.get("/jc1")

    # The original service said 201 of a change as well.
    assert (made.status, again.status, found.status) == (201, 201, 200)
    assert made.json == again.json == found.json
    assert made.json == {
        "id": f"{ROOT}/jc1",
        "type": "Microsoft.Scheduler/jobCollections",
        "name": "jc1",
        "location": "West US",
        "tags": {"a": "b"},
        "properties": {
            "sku": {"name": "Standard"},
            "state": "Enabled",
            "quota": {"maxJobCount": 5, "maxRecurrence": {"frequency": "minute", "interval": 1}},
        },
    }


async def test_a_patch_answers_with_the_whole_collection(arm: Arm):
    await arm.made("jc1", quota={"maxJobCount": 5})

    patched = await arm.patch("/jc1", {"tags": {"department": "x"}})

    assert patched.status == 200
    assert patched.json["tags"] == {"department": "x"}
    assert patched.json["properties"]["quota"] == {"maxJobCount": 5}
    assert patched.json == (await arm.get("/jc1")).json


async def test_a_put_replaces_a_collection(arm: Arm):
    await arm.made("jc1", quota={"maxJobCount": 5}, state="Suspended")

    replaced = await arm.put("/jc1", MINIMAL)

    assert replaced.json["properties"] == {"sku": {"name": "Standard"}, "state": "Enabled"}


async def test_collections_are_listed_by_group_then_name(arm: Arm):
    for group, name in [("b", "one"), ("A", "two"), ("b", "Two"), ("A", "one")]:
        root = ROOT.replace("/RG/", f"/{group}/")
        assert (await arm.put(f"/{name}", MINIMAL, root=root)).status == 201
    elsewhere = ROOT.replace("/S/", "/other/")
    await arm.put("/hidden", MINIMAL, root=elsewhere)

    all_of_them = await arm.get(root="/subscriptions/S/providers/Microsoft.Scheduler/jobCollections")
    of_one = await arm.get(root=ROOT.replace("/RG/", "/B/"))

    assert [one["id"].split("/")[4::4] for one in all_of_them.json["value"]] == [
        ["A", "one"],
        ["A", "two"],
        ["b", "one"],
        ["b", "Two"],
    ]
    assert [one["name"] for one in of_one.json["value"]] == ["one", "Two"]
    assert all_of_them.json["nextLink"] is of_one.json["nextLink"] is None
    assert (await arm.get()).json == {"value": [], "nextLink": None}


async def test_a_list_of_more_collections_than_one_answer_holds_says_where_it_goes_on(
    arm: Arm, monkeypatch: pytest.MonkeyPatch
):
    for name in "abc":
        await arm.made(name)
    monkeypatch.setattr("backstay.api.arm.collections.LISTED_MAX", 2)

    first = (await arm.get()).json
    second = await arm.served.get(first["nextLink"])

    assert [one["name"] for one in first["value"]] == ["a", "b"]
    assert second.json == {"value": [(await arm.get("/c")).json], "nextLink": None}


async def test_disabling_and_enabling_is_a_switch_that_leaves_jobs_their_own_state(arm: Arm):
    await arm.made("jc1")
    await arm.put("/jc1/jobs/on", body())
    await arm.put("/jc1/jobs/off", body(state="Disabled"))

    disabled = await arm.post("/jc1/disable")
    while_disabled = (await arm.get("/jc1")).json["properties"]["state"]
    states = [one["properties"]["state"] for one in (await arm.get("/jc1/jobs")).json["value"]]
    enabled = await arm.post("/jc1/enable")

    assert is_empty(disabled)
    assert is_empty(enabled)
    assert while_disabled == "Disabled"
    assert states == ["disabled", "enabled"]
    assert (await arm.get("/jc1")).json["properties"]["state"] == "Enabled"


async def test_a_collection_is_deleted_with_its_jobs(arm: Arm):
    await arm.made("jc1")
    await arm.put("/jc1/jobs/j1", body())

    assert is_empty(await arm.delete("/jc1"))
    assert (await arm.get("/jc1")).status == 404
    await arm.made("jc1")
    assert await arm.names("/jc1/jobs") == []


# Limits


async def test_there_is_one_free_collection_in_a_subscription(arm: Arm):
    await arm.made("free", "Free")
    await arm.made("other")

    second = await arm.put("/second", {**MINIMAL, "properties": {"sku": {"name": "free"}}})
    changed = await arm.patch("/other", {"properties": {"sku": {"name": "Free"}}})
    group = await arm.put(
        "/third", {**MINIMAL, "properties": {"sku": {"name": "Free"}}}, root=ROOT.replace("/RG/", "/X/")
    )

    for answer in (second, changed, group):
        status, code, message = error(answer)
        assert (status, code) == (409, "Conflict")
        assert "only one free job collection per subscription" in message
    assert await arm.names() == ["free", "other"]
    assert (await arm.get("/other")).json["properties"]["sku"] == {"name": "Standard"}
    # It is its own.
    assert (await arm.put("/free", {**MINIMAL, "properties": {"sku": {"name": "Free"}}})).status == 201


@pytest.mark.parametrize(
    ("job", "change"),
    [
        (body(), {"quota": {"maxJobCount": 0}}),
        (body(recurrence={"frequency": "minute"}), {"quota": {"maxRecurrence": {"frequency": "hour"}}}),
        (body(recurrence={"frequency": "minute"}), {"sku": {"name": "Free"}}),
        (http(authentication=BASIC), {"sku": {"name": "Free"}}),
    ],
)
async def test_what_is_there_cannot_be_made_too_much(arm: Arm, job: Any, change: Any):
    await arm.made("jc1")
    assert (await arm.put("/jc1/jobs/j1", job)).status == 201
    before = (await arm.get("/jc1")).json

    assert error(await arm.patch("/jc1", {"properties": change}))[:2] == (409, "Conflict")
    assert (await arm.get("/jc1")).json == before
    # An empty one may be changed in any direction.
    await arm.delete("/jc1/jobs/j1")
    assert (await arm.patch("/jc1", {"properties": change})).status == 200


async def test_a_location_cannot_be_changed(arm: Arm):
    await arm.made("jc1")

    assert error(await arm.put("/jc1", {"location": "eastus"}))[:2] == (409, "Conflict")
    assert (await arm.put("/jc1", {"location": "West US"})).status == 201


async def test_a_hundred_who_create_a_free_collection_at_once_get_one(arm: Arm):
    free = {**MINIMAL, "properties": {"sku": {"name": "Free"}}}

    answers = await asyncio.gather(*(arm.put(f"/jc{number}", free) for number in range(100)))

    assert sorted(one.status for one in answers) == [201] + [409] * 99
    assert len(await arm.names()) == 1
