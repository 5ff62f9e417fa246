"""Handing in tasks over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from backstay.domain.jsontext import NESTING_MAX
from backstay.domain.message import Queue
from backstay.errors import StoreUnavailable
from backstay.web.bodies import MARGIN_BYTES
from tests.integration.http.conftest import Serve
from tests.support.serving import Served

ORDER = {"workflow": "order", "input": {"customer": "ann", "lines": [{"sku": "nail", "count": 3}]}}
ANYTHING = {"workflow": "anything", "input": None}


async def entered(served: Served) -> list[str]:
    return [task["id"] for task in (await served.get("/v1/tasks")).json["items"]]


# As it should be


async def test_a_task_is_accepted_with_its_location(served: Served):
    answer = await served.post("/v1/tasks", ORDER)

    task = answer.json
    assert answer.status == 202
    assert answer.headers["Location"] == f"/v1/tasks/{task['id']}"
    assert (task["workflow"], task["state"], task["input"]) == ("order", "pending", ORDER["input"])
    assert task["created_at"] == "2030-01-01T00:00:00Z"
    assert (await served.get(answer.headers["Location"])).json == task


async def test_everything_that_may_be_said_is_kept(served: Served):
    await served.store.queues.declare(Queue(name="replies"), now=served.clock.now())
    said = {
        **ORDER,
        "id": "order-1",
        "complete_by": "2030-01-02T00:00:00+02:00",
        "reply_to": "queue:replies",
        "attributes": {"customer": "ann"},
    }

    task = (await served.post("/v1/tasks", said)).json

    assert (task["id"], task["attributes"]) == ("order-1", {"customer": "ann"})
    assert task["hard_end"] == "2030-01-01T22:00:00Z"
    assert [one.id for one in await served.store.queues.peek("replies", limit=10)] == ["order-1:received:1"]


async def test_the_same_id_with_the_same_content_is_the_same_task(served: Served):
    first = await served.post("/v1/tasks", {**ORDER, "id": "order-1"})
    second = await served.post("/v1/tasks", {**ORDER, "id": "order-1"})

    assert (first.status, second.status) == (202, 202)
    assert first.json == second.json


async def test_the_same_id_with_other_content_is_a_conflict(served: Served):
    await served.post("/v1/tasks", {**ORDER, "id": "order-1"})

    answer = await served.post("/v1/tasks", {**ORDER, "id": "order-1", "input": {"customer": "bob"}})

    assert (answer.status, answer.problem) == (409, "id-conflict")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_a_content_type_may_have_parameters(served: Served, kind: str):
    answer = await served.post("/v1/tasks", ORDER, Content_Type=kind)

    assert answer.status == 202


# Under an id of the caller's


async def test_put_tells_whether_the_task_is_new(served: Served):
    first = await served.put("/v1/tasks/order-1", ORDER)
    second = await served.put("/v1/tasks/order-1", {**ORDER, "id": "order-1"})
    other = await served.put("/v1/tasks/order-1", ANYTHING)

    assert (first.status, second.status) == (201, 200)
    assert first.headers["Location"] == "/v1/tasks/order-1"
    assert first.json == second.json
    assert (other.status, other.problem) == (409, "id-conflict")


async def test_the_ids_in_path_and_body_must_agree(served: Served):
    answer = await served.put("/v1/tasks/order-1", {**ORDER, "id": "order-2"})

    assert answer.status == 422
    assert answer.detail == "id is 'order-2' in the body and 'order-1' in the path; give it once"
    assert await entered(served) == []


async def test_an_id_in_the_path_is_decoded_once(served: Served):
    assert await served.exactly("PUT", "/v1/tasks/a%7Eb%40c", *_sized(b'{"workflow":"anything"}')) == 201
    assert await served.exactly("GET", "/v1/tasks/a~b@c") == 200
    assert await served.exactly("PUT", "/v1/tasks/a%257Eb", *_sized(b'{"workflow":"anything"}')) == 422


def _sized(body: bytes) -> tuple[str, ...]:
    """The lines of a request with a body, which is the last of them."""
    return ("Content-Type: application/json", f"Content-Length: {len(body)}", "", body.decode())


# Again with a key


async def test_a_key_makes_a_submission_count_once(served: Served):
    first = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")
    again = await served.post("/v1/tasks", dict(reversed(ORDER.items())), Idempotency_Key="k1")
    other = await served.post("/v1/tasks", ORDER, Idempotency_Key="k2")

    assert (first.status, again.status, other.status) == (202, 202, 202)
    assert first.json["id"] == again.json["id"] != other.json["id"]


async def test_a_key_stands_for_one_content_for_a_day(served: Served):
    first = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")

    other = await served.post("/v1/tasks", ANYTHING, Idempotency_Key="k1")
    served.clock.pass_time(timedelta(hours=23))
    still = await served.post("/v1/tasks", ANYTHING, Idempotency_Key="k1")
    served.clock.pass_time(timedelta(hours=2))
    later = await served.post("/v1/tasks", ANYTHING, Idempotency_Key="k1")

    assert (other.status, still.status, later.status) == (422, 422, 202)
    assert "use a new key" in other.detail
    assert later.json["id"] != first.json["id"]


async def test_a_key_is_not_used_up_by_what_was_refused(served: Served):
    refused = await served.post("/v1/tasks", {**ORDER, "input": {}}, Idempotency_Key="k1")
    accepted = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")

    assert (refused.status, accepted.status) == (422, 202)


async def test_a_key_is_not_used_up_by_an_id_that_is_taken(served: Served):
    await served.put("/v1/tasks/taken", ANYTHING)

    refused = await served.post("/v1/tasks", {**ORDER, "id": "taken"}, Idempotency_Key="k1")
    accepted = await served.post("/v1/tasks", {**ORDER, "id": "free"}, Idempotency_Key="k1")
    other = await served.post("/v1/tasks", {**ORDER, "id": "another"}, Idempotency_Key="k1")

    assert (refused.status, refused.problem) == (409, "id-conflict")
    assert (accepted.status, accepted.json["id"]) == (202, "free")
    assert (other.status, sorted(await entered(served))) == (422, ["free", "taken"])


async def test_a_key_in_doubt_is_given_to_nothing_else(served: Served, monkeypatch: pytest.MonkeyPatch):
    async def away(_tasks: object, *, now: object) -> None:
        raise StoreUnavailable("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(served.store, "submit", away)
        in_doubt = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")
    other = await served.post("/v1/tasks", ANYTHING, Idempotency_Key="k1")
    again = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")

    assert (in_doubt.status, other.status, again.status) == (503, 422, 202)
    assert await entered(served) == [again.json["id"]]


async def test_of_many_contents_at_once_with_one_key_one_is_accepted(served: Served):
    bodies = [{**ANYTHING, "input": number} for number in range(20)]

    answers = await asyncio.gather(*(served.post("/v1/tasks", body, Idempotency_Key="k1") for body in bodies))

    assert sorted(answer.status for answer in answers) == [202] + [422] * 19
    assert len(await entered(served)) == 1


async def test_a_key_in_doubt_still_stands_for_the_same_task(served: Served, monkeypatch: pytest.MonkeyPatch):
    submit = served.store.submit

    async def lost(tasks: Any, *, now: Any) -> None:
        await submit(tasks, now=now)
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as broken:
        broken.setattr(served.store, "submit", lost)
        in_doubt = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")
    again = await served.post("/v1/tasks", ORDER, Idempotency_Key="k1")

    assert (in_doubt.status, again.status) == (503, 202)
    assert await entered(served) == [again.json["id"]]


async def test_two_keys_are_refused(served: Served):
    body = msgspec.json.encode(ORDER)
    keys = ("Idempotency-Key: k1", "Idempotency-Key: k1")

    assert await served.exactly("POST", "/v1/tasks", *keys, *_sized(body)) == 422
    assert await entered(served) == []


async def test_many_at_once_with_one_key_are_one_task(served: Served):
    answers = await asyncio.gather(
        *(served.post("/v1/tasks", ORDER, Idempotency_Key="k1") for _ in range(20))
    )

    assert {answer.status for answer in answers} == {202}
    assert len({answer.json["id"] for answer in answers}) == 1


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 201])
async def test_a_key_that_is_none_is_refused(served: Served, key: str):
    answer = await served.post("/v1/tasks", ORDER, Idempotency_Key=key)

    assert answer.status == 422
    assert "Idempotency-Key" in answer.detail


# As it should not be


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({**ORDER, "workflow": "nothing"}, 404, "there is no workflow 'nothing'"),
        ({"input": {}}, 422, "missing required field `workflow`"),
        ({**ORDER, "colour": "red"}, 422, "unknown field `colour`"),
        ({**ORDER, "id": "a b"}, 422, "$.id"),
        ({**ORDER, "id": ""}, 422, "$.id"),
        ({**ORDER, "id": 7}, 422, "$.id"),
        ({**ORDER, "workflow": 7}, 422, "$.workflow"),
        ({**ORDER, "complete_by": "2029-12-31T23:59:59Z"}, 422, "lies in the past"),
        ({**ORDER, "complete_by": "2031-01-01T00:00:00"}, 422, "has no time zone"),
        ({**ORDER, "complete_by": "0001-01-01T00:00:00+14:00"}, 422, "complete_by"),
        ({**ORDER, "complete_by": "9999-12-31T23:59:59-14:00"}, 422, "complete_by"),
        ({**ORDER, "complete_by": "soon"}, 422, "complete_by is 'soon'"),
        ({**ORDER, "reply_to": ""}, 422, "reply_to"),
        ({**ORDER, "reply_to": "kafka:replies"}, 422, "queue:NAME"),
        ({**ORDER, "reply_to": "queue:nobodys"}, 422, "declare it first"),
        ({**ORDER, "attributes": {"a": 1}}, 422, "$.attributes"),
        ({**ORDER, "attributes": {"a": "x" * 201}}, 422, "attribute 'a' is too long"),
        ({**ORDER, "attributes": {"a\0": "x"}}, 422, "NUL"),
        ({**ORDER, "input": {"customer": "a\0b"}}, 422, "NUL"),
        ({**ORDER, "input": {"customer": 7}}, 422, "$.customer"),
        ({**ORDER, "input": {"customer": "a", "colour": 1}}, 422, "unknown field 'colour' at $; known:"),
        (
            {**ORDER, "input": {"customer": "a", "lines": [{"sku": "b", "size": 1}]}},
            422,
            "unknown field 'size' at $.lines[0]; known: sku, count",
        ),
        ([], 422, "Expected `object`"),
        (None, 422, "Expected `object`"),
    ],
)
async def test_what_does_not_fit_is_refused_and_leaves_nothing(
    served: Served, body: Any, status: int, said: str
):
    answer = await served.post("/v1/tasks", body)

    assert answer.status == status, answer
    assert said in answer.detail
    assert answer.problem
    assert await entered(served) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"{} {}", 400),
        (b"\xff", 400),
        (b"\xef\xbb\xbf{}", 400),
        (b'{"workflow":"anything","input":NaN}', 400),
        (b'{"workflow":"anything","input":Infinity}', 400),
        (b'{"workflow":"anything","input":"\x00"}', 400),
        (b'{"workflow":"anything","input":"\\ud800"}', 400),
        (b'{"workflow":"anything","input":"\\ud800x"}', 400),
        (b'{"workflow":"anything","input":"\\udc00"}', 400),
        (b'{"workflow":"anything","input":"\xed\xa0\x80"}', 400),
        (b'{"workflow":"anything","input":"\\u0000"}', 422),
        (b'{"workflow":"anything","input":{"\\u0000":1}}', 422),
        (b'{"workflow":"anything","input":1e400}', 422),
        (b'{"workflow":"anything","input":' + b"9" * 5_000 + b"}", 422),
        (b'{"workflow":"anything","workflow":"anything"}', 422),
        (b'{"workflow":"anything","input":[{"a":1,"\\u0061":2}]}', 422),
        (b'{"workflow":"anything","input":' + b"[" * 101 + b"]" * 101 + b"}", 422),
        (b'{"workflow":"anything","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 422),
        (b"[" * 500_000, 422),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else str(value),
)
async def test_what_is_not_quite_json_is_refused_and_leaves_nothing(served: Served, body: bytes, status: int):
    answer = await served.post("/v1/tasks", data=body, Content_Type="application/json")

    assert answer.status == status, answer
    assert answer.problem
    assert await entered(served) == []


async def test_texts_may_look_like_json(served: Served):
    tricky = {'a":1,"a': '{"b":1,"b":2}', "c\\": '\\"', "d": [":", '":"', "\\"]}

    answer = await served.post("/v1/tasks", {**ANYTHING, "input": tricky})

    assert (answer.status, answer.json["input"]) == (202, tricky)


async def test_as_deep_as_allowed_is_accepted(served: Served):
    # The body itself is the first level.
    value: Any = 1
    for _ in range(NESTING_MAX - 1):
        value = [value]

    assert (await served.post("/v1/tasks", {**ANYTHING, "input": value})).status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": "application/jsonp"},
        {"Content_Type": "application/json", "Content_Encoding": "gzip"},
    ],
)
async def test_another_content_type_is_refused(served: Served, headers: dict[str, str]):
    answer = await served.post("/v1/tasks", data=b'{"workflow":"anything"}', **headers)

    assert (answer.status, answer.problem) == (415, "media-type")


async def test_a_body_without_a_content_type_is_refused(served: Served):
    body = ("Content-Length: 23", "", '{"workflow":"anything"}')

    assert await served.exactly("POST", "/v1/tasks", *body) == 415


# Too much


async def test_an_input_over_the_payload_limit_is_refused(serve: Serve):
    async with serve(payload_bytes_max=1024, inline_bytes_max=1024) as served:
        fits = await served.post("/v1/tasks", {**ANYTHING, "input": "x" * 1022})
        is_larger = await served.post("/v1/tasks", {**ANYTHING, "input": "x" * 1023})

    assert fits.status == 202
    assert (is_larger.status, is_larger.problem) == (413, "payload-too-large")


async def test_a_body_is_not_read_further_than_it_may_be_long(serve: Serve):
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 64 * 1024
            yield b" " * 64 * 1024

    async with serve(payload_bytes_max=1024, inline_bytes_max=1024) as served:
        answer = await served.post("/v1/tasks", data=chunks(), Content_Type="application/json")

    assert (answer.status, answer.problem) == (413, "body-too-large")
    assert sent < 500 * 64 * 1024


async def test_a_body_that_is_announced_too_long_is_not_read_at_all(served: Served):
    limit = 1024 * 1024 + MARGIN_BYTES
    line = f"Content-Length: {limit + 1}"

    # Nothing of the body is ever sent.
    status = await served.exactly("POST", "/v1/tasks", "Content-Type: application/json", line)

    assert status == 413


async def test_over_the_backlog_limit_tasks_are_turned_away_for_a_while(serve: Serve):
    async with serve(backlog_limit=3) as served:
        before = [(await served.post("/v1/tasks", ANYTHING)).status for _ in range(3)]
        full = await served.post("/v1/tasks", ANYTHING)
        full_as_well = await served.put("/v1/tasks/mine", ANYTHING)
        for task_id in await entered(served):
            await served.post(f"/v1/tasks/{task_id}/cancel")
        at_once = await served.post("/v1/tasks", ANYTHING)
        served.clock.pass_time(timedelta(seconds=1))
        after = await served.post("/v1/tasks", ANYTHING)

    assert before == [202, 202, 202]
    assert (full.status, full.problem, full.headers["Retry-After"]) == (429, "overloaded", "1")
    assert "backlog_limit" in full.detail
    assert (full_as_well.status, at_once.status, after.status) == (429, 429, 202)


async def test_what_is_refused_takes_no_room_in_the_backlog(serve: Serve):
    async with serve(backlog_limit=2) as served:
        for _ in range(5):
            await served.post("/v1/tasks", {**ANYTHING, "colour": "red"})
            await served.post("/v1/tasks", {**ORDER, "input": {}})

        assert (await served.post("/v1/tasks", ANYTHING)).status == 202
