"""Looking at tasks over HTTP."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import UndoKind
from backstay.testing.promises.holder import Holder
from backstay.testing.records import a_step
from tests.integration.http.conftest import held
from tests.support.serving import Served


async def enter(served: Served, *ids: str, workflow: str = "anything", **fields: object) -> None:
    for one in ids:
        body = {"workflow": workflow, "input": None, **fields}
        assert (await served.put(f"/v1/tasks/{one}", body)).status == 201
        served.clock.pass_time(timedelta(seconds=1))


async def listed(served: Served, query: str) -> list[str]:
    answer = await served.get(f"/v1/tasks{query}")
    assert answer.status == 200, answer
    return [task["id"] for task in answer.json["items"]]


async def test_a_listing_is_newest_first_and_leaves_values_out(served: Served):
    await enter(served, "a", "b", "c")

    answer = await served.get("/v1/tasks")

    assert [task["id"] for task in answer.json["items"]] == ["c", "b", "a"]
    assert answer.json["next"] is None
    assert not {"input", "output"} & set(answer.json["items"][0])


async def test_pages_lead_to_each_other(served: Served):
    await enter(served, "a", "b", "c")

    first = await served.get("/v1/tasks?limit=2")
    second = await served.get(f"/v1/tasks?limit=2&cursor={first.json['next']}")

    assert [task["id"] for task in first.json["items"]] == ["c", "b"]
    assert [task["id"] for task in second.json["items"]] == ["a"]
    assert second.json["next"] is None


async def test_a_listing_is_narrowed_down(served: Served):
    await enter(served, "a", "b", "c", attributes={"customer": "ann:lee"})
    await enter(served, "o", workflow="order", input={"customer": "bob"})
    await served.post("/v1/tasks/b/cancel")

    assert await listed(served, "?state=cancelled") == ["b"]
    assert await listed(served, "?state=cancelled&state=pending") == ["o", "c", "b", "a"]
    assert await listed(served, "?state=processed") == []
    assert await listed(served, "?workflow=order") == ["o"]
    assert await listed(served, "?attribute=customer:ann:lee&state=pending") == ["c", "a"]
    assert await listed(served, "?attribute=customer:") == []
    assert await listed(served, "?created_after=2030-01-01T00:00:02Z") == ["o"]
    assert await listed(served, "?created_before=2030-01-01T01:00:02%2B01:00") == ["b", "a"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?colour=red", "colour"),
        ("?state=happy", "$.state"),
        ("?state=", "$.state"),
        ("?limit=0", "$.limit"),
        ("?limit=1001", "$.limit"),
        ("?limit=ten", "$.limit"),
        ("?limit=1.0", "$.limit"),
        ("?limit=", "$.limit"),
        ("?limit=1&limit=2", "parameter limit is given twice"),
        ("?cursor=x", "$.cursor"),
        ("?cursor=0", "$.cursor"),
        ("?cursor=9223372036854775808", "$.cursor"),
        ("?created_after=yesterday", "$.created_after"),
        ("?created_after=1700000000", "$.created_after"),
        ("?created_after=2030-01-01T00:00:00", "$.created_after"),
        ("?created_before=0001-01-01T00:00:00%2B14:00", "parameter created_before"),
        ("?attribute=customer", "$.attribute"),
        ("?attribute=:ann", "$.attribute"),
        ("?workflow=a%00b", "parameter workflow holds NUL"),
        ("?workflow=%ff", "the query cannot be read"),
        ("?" + "&".join(["state=error"] * 101), "the query cannot be read"),
    ],
)
async def test_a_query_that_means_nothing_is_refused_by_name(served: Served, query: str, said: str):
    answer = await served.get(f"/v1/tasks{query}")

    assert answer.status == 422, answer
    assert said in answer.detail


@pytest.mark.parametrize("below", ["", "/steps", "/why", "/undo", "/events"])
async def test_of_a_task_that_does_not_exist_there_is_nothing_to_see(served: Served, below: str):
    unknown = await served.get(f"/v1/tasks/none{below}")
    impossible = await served.get(f"/v1/tasks/not%20an%20id{below}")

    assert (unknown.status, unknown.problem) == (404, "unknown-task")
    assert (impossible.status, impossible.problem) == (422, "invalid-input")
    assert "$.id" in impossible.detail


async def test_the_steps_of_a_task_are_shown_with_their_values(served: Served, alice: Holder):
    task = await held(served, alice)
    await alice.write(task, steps=[a_step(StepState.COMPLETED, undo=UndoKind.MANUAL)])

    steps = (await served.get("/v1/tasks/t/steps")).json
    plan = (await served.get("/v1/tasks/t/undo")).json
    why = (await served.get("/v1/tasks/t/why")).json

    assert steps["next"] is None
    assert [(step["key"], step["state"], step["output"]) for step in steps["items"]] == [
        ("charge:1", "completed", 7)
    ]
    assert plan == {
        "task_id": "t",
        "state": "processing",
        "steps": [{"key": "charge:1", "agent": "bank", "outcome": "completed", "manual": True}],
    }
    assert set(why) == {"reason", "command"}


async def test_the_steps_of_a_task_come_page_by_page(served: Served, alice: Holder):
    task = await held(served, alice)
    keys = [f"charge:{number}" for number in range(1, 6)]
    steps = [a_step(key=key, position=place) for place, key in enumerate(keys, start=1)]
    assert await alice.write(task, steps=steps) is None

    pages = [(await served.get("/v1/tasks/t/steps?limit=2")).json]
    while (cursor := pages[-1]["next"]) is not None:
        pages.append((await served.get(f"/v1/tasks/t/steps?limit=2&cursor={cursor}")).json)

    assert [[step["key"] for step in page["items"]] for page in pages] == [keys[:2], keys[2:4], keys[4:]]
    assert (await served.get("/v1/tasks/t/steps?limit=5")).json["next"] is None
    assert (await served.get("/v1/tasks/t/steps?cursor=99")).json == {"items": [], "next": None}


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?cursor=0", "?cursor=x", "?colour=red"])
async def test_a_query_for_steps_that_means_nothing_is_refused(served: Served, query: str):
    assert (await served.get(f"/v1/tasks/t/steps{query}")).status == 422


async def test_an_id_has_no_line_break_at_its_end(served: Served):
    answer = await served.get("/v1/tasks/t%0A")

    assert (answer.status, answer.problem) == (422, "invalid-input")
    assert "$.id" in answer.detail


async def test_a_task_that_ended_shows_its_result(served: Served, alice: Holder):
    task = await held(served, alice)
    await alice.leave(task, TaskState.PROCESSED, output=b'{"total":7}')

    shown = (await served.get("/v1/tasks/t")).json

    assert (shown["state"], shown["input"], shown["output"]) == (
        "processed",
        {"customer": "ann"},
        {"total": 7},
    )
