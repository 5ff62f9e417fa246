"""What comes with an input is checked at the call: id, content, complete-by, attributes, reply_to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import Client, IdConflict
from backstay.errors import InvalidId, InvalidInput, UnknownTask
from tests.integration.bad_input.conftest import Package
from tests.support.databases import Database

# The id


@pytest.mark.parametrize(
    "task_id", ["", "a b", "a/b", "ü", "a\n", "a\0", "x" * 201, 5, b"a", ["a"], "{}"], ids=repr
)
async def test_an_id_outside_the_pattern_is_refused(client: Client, refused: Any, task_id: Any):
    match = "id is .*1 to 200 characters out of letters, digits and"
    await refused(InvalidId, match, client.submit("idle", id=task_id))
    for look in (client.task, client.steps, client.undo, client.cancel, client.resubmit, client.why):
        await refused(InvalidId, match, look(task_id))


@pytest.mark.parametrize("task_id", ["a", "x" * 200, "order:17@shop~2030-01.x_y"])
async def test_an_id_within_the_pattern_is_good(client: Client, task_id: str):
    await client.submit("idle", id=task_id)

    assert (await client.task(task_id)).id == task_id


async def test_an_unknown_task_is_named(client: Client, refused: Any):
    for call in (
        client.task("nobody"),
        client.steps("nobody"),
        client.why("nobody"),
        client.undo("nobody"),
        client.cancel("nobody"),
        client.resubmit("nobody"),
        client.signal("nobody", "go"),
        client.complete_step("nobody", "echo:1", 1),
    ):
        await refused(UnknownTask, "no task 'nobody'", call)


# Again


async def test_the_same_content_twice_is_one_task(client: Client, database: Database):
    """Also when the second time comes as JSON, in another order, or without what is the default anyway."""
    first = await client.submit("ship", Package(size=1, label="plain"), id="t")
    before = database.content()

    for again in (Package(1), {"size": 1}, {"label": "plain", "size": 1}, {"size": 1, "label": "plain"}):
        handle = await client.submit("ship", again, id="t")
        assert handle.id == first.id
    assert database.content() == before


async def test_arguments_by_position_and_by_name_are_the_same_content(client: Client, database: Database):
    await client.submit("add", 1, 2, id="t")
    before = database.content()

    for again in ((1,), ({"second": 2, "first": 1},), ({"first": 1},)):
        await client.submit("add", *again, id="t")
    assert database.content() == before


@pytest.mark.parametrize(
    ("workflow", "input"),
    [("ship", {"size": 2}), ("ship", {"size": 1, "label": "red"}), ("store", {"size": 1})],
)
async def test_a_known_id_with_other_content_is_a_conflict(
    client: Client, refused: Any, workflow: str, input: Any
):
    await client.submit("ship", {"size": 1}, id="t")

    error = await refused(
        IdConflict,
        r"task 't' exists already with other content \(workflow 'ship', state pending\)",
        client.submit(workflow, input, id="t"),
    )
    assert error.task_id == "t"


# complete_by


@pytest.mark.parametrize(
    ("complete_by", "match"),
    [
        ("0s", "lies in the past"),
        (timedelta(0), "lies in the past"),
        ("2020-01-01T00:00:00Z", "lies in the past; now is 20"),
        (datetime(2020, 1, 1, tzinfo=UTC), "lies in the past"),
        ("2090-01-01T00:00:00", "has no time zone"),
        ("2090-01-01", "has no time zone"),
        (datetime(2090, 1, 1), "has no time zone"),  # noqa: DTZ001
        (timedelta(seconds=-1), "complete_by is"),
        ("-5s", "complete_by is '-5s'"),
        ("soon", "complete_by is 'soon'"),
        ("", "complete_by is ''"),
        ("5", "complete_by is '5'"),
        (5, "complete_by is 5"),
        (True, "complete_by is True"),
        ("101000d", "complete_by is 101000d; it must lie between 0ms and 100 years"),
        (timedelta(days=101_000), "complete_by is .*100 years"),
        ("9999-12-31T23:59:59-23:00", "complete_by 9999-12-31T23:59:59-23:00 .*100 years"),
        (datetime.max.replace(tzinfo=UTC), "complete_by 9999-12-31.* .*100 years"),
        ("2300-01-01T00:00:00Z", "complete_by 2300-01-01.* .*100 years"),
    ],
    ids=str,
)
async def test_a_complete_by_that_cannot_be_kept_is_refused(
    client: Client, refused: Any, complete_by: Any, match: str
):
    await refused(InvalidInput, match, client.submit("idle", complete_by=complete_by))


@pytest.mark.parametrize("complete_by", ["30s", timedelta(seconds=30), "0.5m"])
async def test_a_duration_counts_from_now(client: Client, complete_by: Any):
    handle = await client.submit("idle", complete_by=complete_by)
    task = await client.task(handle.id)

    assert task.hard_end is not None
    assert timedelta(seconds=29) < task.hard_end - task.created_at <= timedelta(seconds=30)


@pytest.mark.parametrize(
    "complete_by",
    [
        "2090-01-01T00:00:00Z",
        "2090-01-01T02:00:00+02:00",
        datetime(2090, 1, 1, tzinfo=UTC),
        datetime.fromisoformat("2089-12-31T19:00:00-05:00"),
    ],
    ids=str,
)
async def test_an_instant_is_kept_in_utc(client: Client, complete_by: Any):
    handle = await client.submit("idle", complete_by=complete_by)
    task = await client.task(handle.id)

    assert task.hard_end == datetime(2090, 1, 1, tzinfo=UTC)
    assert task.hard_end.utcoffset() == timedelta(0)


# What else comes with a submission


@pytest.mark.parametrize(
    ("attributes", "match"),
    [
        ({f"a{number}": "" for number in range(33)}, "attributes has 33 entries; 32 are allowed"),
        ({"a" * 201: "x"}, "attribute 'aaa.* too long; 200 characters"),
        ({"a": "x" * 201}, "attribute 'a' is too long; 200 characters"),
        ({"": "x"}, "attribute ''"),
        ({"a": 5}, "attribute 'a': names and values must be text"),
        ({5: "a"}, "attribute 5: names and values must be text"),
        ({"a": None}, "attribute 'a': names and values must be text"),
        ({"a": "\ud800"}, "attribute 'a'"),
        ({"\ud800": "a"}, "attribute"),
        ({"a": "b\0"}, "attribute 'a': names and values must be text"),
        ({"a\0": "b"}, "attribute .*: names and values must be text"),
        (["a"], "attributes is .*; it must be an object of texts"),
        ("a", "attributes is .*; it must be an object of texts"),
    ],
    ids=lambda one: str(one)[:30].encode("unicode_escape").decode(),
)
async def test_attributes_have_limits(client: Client, refused: Any, attributes: Any, match: str):
    await refused(InvalidInput, match, client.submit("idle", attributes=attributes))


async def test_attributes_at_their_limits_are_kept(client: Client):
    attributes = {"k" * 200: "v" * 200, **{f"a{number}": "" for number in range(31)}}
    handle = await client.submit("idle", attributes=attributes)

    assert (await client.task(handle.id)).attributes == attributes


@pytest.mark.parametrize(
    "reply_to",
    ["", "desk", "x" * 201, 5, b"queue:a", "\ud800", "queue", "queue:", "queue:a\0", "kafka:a", "topic:a b"],
    ids=ascii,
)
async def test_reply_to_names_a_queue_or_a_topic(client: Client, refused: Any, reply_to: Any):
    await refused(InvalidInput, "reply_to", client.submit("idle", reply_to=reply_to))


@pytest.mark.parametrize("kind", ["queue", "topic"])
async def test_reply_to_leads_to_something_that_is_there(client: Client, refused: Any, kind: str):
    remedy = rf"there is no {kind} 'desk'; declare it first, with app\.{kind}\('desk'\)"
    await refused(InvalidInput, remedy, client.submit("idle", reply_to=f"{kind}:desk"))
