"""Streams over HTTP."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

import pytest

from backstay.api import contents
from backstay.domain.access import Role
from backstay.domain.jsontext import NESTING_MAX
from backstay.domain.stream import APPEND_MAX
from backstay.errors import StoreUnavailable
from backstay.messaging import lines
from backstay.messaging.lines import ERRORS_MAX, LINES_BYTES_MAX
from backstay.messaging.stream import Log
from backstay.producing.lane import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from backstay.web.bodies import MARGIN_BYTES
from tests.integration.http.conftest import Serve
from tests.support.http_streams import EVENTS, NDJSON, sent, sent_lines
from tests.support.running import comes_true
from tests.support.serving import Served

JSON = {"Content_Type": "application/json"}


@pytest.fixture
async def orders(served: Served) -> Served:
    """A server with a stream of two partitions."""
    assert (await served.put("/v1/streams/orders", {"partitions": 2})).status == 201
    return served


async def events_in(served: Served, partition: int, query: str = "") -> list[Any]:
    answer = await served.get(f"/v1/streams/orders/partitions/{partition}/events{query}")
    assert answer.status == 200, answer
    items: list[Any] = answer.json["items"]
    return items


async def everything_in(served: Served) -> list[Any]:
    return [event for partition in range(2) for event in await events_in(served, partition, "?limit=1000")]


# Streams


async def test_a_stream_is_made_once_and_found(served: Served):
    made = await served.put("/v1/streams/orders", {"partitions": 3, "retention": "1d"})
    again = await served.put("/v1/streams/orders", {"partitions": 3})
    without = await served.put("/v1/streams/orders")
    usual = await served.put("/v1/streams/usual")

    assert [one.status for one in (made, again, without, usual)] == [201, 200, 200, 201]
    assert made.json["name"] == "orders"
    assert made.json["retention"] == "1d"
    assert [one["partition"] for one in made.json["partitions"]] == [0, 1, 2]
    assert made.json["partitions"][0].items() >= {"first": 0, "end": 0, "owner": None}.items()
    assert made.json["groups"] == []
    assert len(usual.json["partitions"]) == 32
    listed = (await served.get("/v1/streams?limit=1")).json
    assert [one["name"] for one in listed["items"]] == ["orders"]
    assert listed["items"][0].items() >= {"partitions": 3, "events": 0}.items()
    [second] = (await served.get(f"/v1/streams?cursor={listed['next']}")).json["items"]
    assert second["name"] == "usual"


async def test_another_number_of_partitions_is_a_conflict(orders: Served):
    refused = await orders.put("/v1/streams/orders", {"partitions": 3})

    assert (refused.status, refused.problem) == (409, "conflict")
    assert len((await orders.get("/v1/streams/orders")).json["partitions"]) == 2


@pytest.mark.parametrize(
    "terms",
    [{"partitions": 0}, {"partitions": 1025}, {"retention": "0s"}, {"dedup": "8d"}, {"colour": "red"}],
)
async def test_a_stream_is_not_made_of_bad_terms(served: Served, terms: Any):
    refused = await served.put("/v1/streams/orders", terms)

    assert refused.status == 422
    assert (await served.get("/v1/streams/orders")).status == 404


async def test_an_unknown_stream_says_how_to_make_it(served: Served):
    answers = [
        await served.get("/v1/streams/orders"),
        await served.post(EVENTS, {"a": 1}),
        await served.post(EVENTS, data=b'{"body": 1}', **NDJSON),
        await served.post(EVENTS, data=b"nothing good", **NDJSON),
        await served.get("/v1/streams/orders/partitions/0/events"),
        await served.get("/v1/streams/orders/quarantine"),
        await served.post("/v1/streams/orders/quarantine/1/resubmit"),
        await served.post("/v1/streams/orders/quarantine/resubmit"),
    ]

    assert {(one.status, one.problem) for one in answers} == {(404, "unknown-stream")}
    assert "PUT /v1/streams/orders" in answers[0].detail
    assert (await served.get("/v1/streams")).json["items"] == []


# One event


async def test_an_event_is_in_its_partition_once_it_is_accepted(orders: Served):
    first = await sent(orders, {"b": [1, None], "a": "é"}, Backstay_Key="ann", Backstay_Id="e1")
    second = await sent(orders, None, "?key=ann&id=e2")

    assert first == {"partition": first["partition"], "offset": 0, "duplicate": False}
    assert second == {"partition": first["partition"], "offset": 1, "duplicate": False}
    one, two = await events_in(orders, first["partition"])
    assert one == {
        "offset": 0,
        "key": "ann",
        "id": "e1",
        "body": {"b": [1, None], "a": "é"},
        "enqueued_at": "2030-01-01T00:00:00Z",
        "headers": {},
    }
    assert (two["body"], two["id"]) == (None, "e2")


async def test_events_without_a_key_go_to_every_partition(orders: Served):
    places = [await sent(orders, number) for number in range(10)]

    assert sorted(place["partition"] for place in places) == [0] * 5 + [1] * 5


async def test_an_event_that_is_sent_again_is_there_once(orders: Served):
    first = await sent(orders, {"a": 1, "b": 2}, "?id=e1")
    again = await orders.post(f"{EVENTS}?id=e1", data=b' {"b": 2, "a":1}', **JSON)

    assert again.json == {**first, "duplicate": True}
    assert len(await everything_in(orders)) == 1


@pytest.mark.parametrize(("body", "query"), [({"a": 2}, "?id=e1&key=k"), ({"a": 1}, "?id=e1&key=other")])
async def test_the_id_of_another_event_is_a_conflict(orders: Served, body: Any, query: str):
    await sent(orders, {"a": 1}, "?id=e1&key=k")

    refused = await orders.post(f"{EVENTS}{query}", body)

    assert (refused.status, refused.problem) == (409, "event-conflict")
    assert "'e1'" in refused.detail
    assert len(await everything_in(orders)) == 1


@pytest.mark.parametrize(
    ("data", "headers", "status", "said"),
    [
        (b"", JSON, 400, "the body is empty"),
        (b"", {}, 400, "the body is empty"),
        (b"", NDJSON, 400, "the body is empty"),
        (b"{", JSON, 400, "one JSON value"),
        (b"NaN", JSON, 400, "one JSON value"),
        (b"1\n2", JSON, 400, "one JSON value"),
        (b"\xff", JSON, 400, "one JSON value"),
        (b'"\\ud800"', JSON, 400, "one JSON value"),
        (b'{"a": 1, "a": 2}', JSON, 422, "twice"),
        (b'"\\u0000"', JSON, 422, "NUL"),
        (b"1e999", JSON, 422, "number"),
        (b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1), JSON, 422, "nested"),
        (b"1", {"Content_Type": "text/plain"}, 415, "application/x-ndjson"),
        (b"1", {"Content_Type": ""}, 415, "application/x-ndjson"),
        (b"1", {**JSON, "Content_Encoding": "gzip"}, 415, "Content-Encoding"),
        (b"1", {**JSON, "Backstay_Id": "a b"}, 422, "Backstay-Id"),
        (b"1", {**JSON, "Backstay_Key": "k" * 201}, 422, "Backstay-Key"),
    ],
)
async def test_a_bad_event_changes_nothing(
    orders: Served, data: bytes, headers: dict[str, str], status: int, said: str
):
    refused = await orders.post(EVENTS, data=data, **headers)

    assert refused.status == status, refused
    assert said in refused.detail
    assert await everything_in(orders) == []


@pytest.mark.parametrize(
    "query", ["?key=", f"?key={'k' * 201}", "?id=a%20b", "?id=", "?partition=1", "?key=%00"]
)
async def test_a_bad_parameter_changes_nothing(orders: Served, query: str):
    refused = await orders.post(f"{EVENTS}{query}", 1)

    assert refused.status == 422
    assert await everything_in(orders) == []


async def test_a_key_is_said_once(orders: Served):
    refused = await orders.post(f"{EVENTS}?key=a", 1, Backstay_Key="a")

    assert (refused.status, "both given" in refused.detail) == (422, True)


async def test_an_event_may_be_as_large_as_the_setting_says(serve: Serve):
    async with serve(payload_bytes_max=1024, inline_bytes_max=1024) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        answers = [
            await served.post(EVENTS, "x" * 1022),
            await served.post(EVENTS, "x" * 1023),
            await served.post(EVENTS, data=b" " * (1024 + MARGIN_BYTES) + b"1", **JSON),
            await sent_lines(served, {"body": "x" * 1022}, {"body": "x" * 1023}),
        ]

        assert [one.status for one in answers] == [202, 413, 413, 202]
        assert "limit is 1,024 bytes (setting payload_bytes_max)" in answers[1].detail
        [rejected] = answers[3].json["errors"]
        assert rejected["type"] == "urn:backstay:problem:payload-too-large"
        assert len(await everything_in(served)) == 2


async def test_a_full_stream_refuses_and_says_when_to_come_again(serve: Serve):
    async with serve(stream_bytes_max=1024 * 1024) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        answers = [await served.post(EVENTS, "x" * 700_000) for _ in range(3)]
        refused = answers[-1]
        many = await sent_lines(served, {"body": "x" * 700_000})

        assert answers[0].status == 202
        for one in (refused, many):
            assert (one.status, one.problem, one.headers["Retry-After"]) == (503, "stream-full", "1")
        assert "stream_bytes_max" in refused.detail


# Lines


async def test_lines_are_appended_in_their_order(orders: Served):
    lines = [
        {"body": number, "key": "k", "id": f"e{number}", "headers": {"n": str(number)}} for number in range(5)
    ]

    answer = await sent_lines(orders, *lines)

    [span] = answer.json["ranges"]
    assert answer.status == 202
    assert answer.json == {
        "accepted": 5,
        "rejected": 0,
        "ranges": [{"partition": span["partition"], "first": 0, "last": 4}],
        "errors": [],
    }
    found = await events_in(orders, span["partition"])
    assert [(one["body"], one["id"], one["headers"]) for one in found] == [
        (number, f"e{number}", {"n": str(number)}) for number in range(5)
    ]


async def test_a_bad_line_is_told_and_the_good_ones_are_in(orders: Served):
    await sent(orders, "first", "?id=taken")

    answer = await sent_lines(
        orders,
        {"body": 1, "id": "a"},
        b"{oops",
        b"",
        {"body": 2, "id": "taken"},
        {"body": 3, "x": 1},
        {"body": 4},
    )

    assert answer.status == 202
    assert (answer.json["accepted"], answer.json["rejected"]) == (2, 3)
    assert [(one["line"], one["type"].rpartition(":")[2]) for one in answer.json["errors"]] == [
        (2, "not-json"),
        (4, "event-conflict"),
        (5, "invalid-input"),
    ]
    assert "unknown field `x`" in answer.json["errors"][2]["detail"]
    assert sorted(str(one["body"]) for one in await everything_in(orders)) == ["1", "4", "first"]


async def test_the_same_lines_again_add_nothing_and_are_answered_alike(orders: Served):
    lines = [{"body": number, "id": f"e{number}"} for number in range(10)]
    first = await sent_lines(orders, *lines, b"bad")
    again = await sent_lines(orders, *lines, b"bad")

    assert again.json == first.json
    assert len(await everything_in(orders)) == 10


@pytest.mark.parametrize("data", [b"{", b'{"key": "a"}\n\n[]', b'{"body": 1, "id": "taken"}'])
async def test_when_no_line_is_good_nothing_is_changed(orders: Served, data: bytes):
    await sent(orders, "first", "?id=taken")

    refused = await orders.post(EVENTS, data=data, **NDJSON)

    assert (refused.status, refused.problem) == (400, "no-good-line")
    assert refused.json["errors"][0]["line"] == 1
    assert "line 1: " in refused.detail
    assert len(await everything_in(orders)) == 1


async def test_blank_lines_are_no_events(orders: Served):
    refused = await orders.post(EVENTS, data=b"\n \r\n", **NDJSON)

    assert (refused.status, refused.problem) == (400, "not-json")


async def test_of_bad_lines_all_are_counted_and_many_told(orders: Served):
    answer = await sent_lines(orders, *[b"bad"] * (ERRORS_MAX + 7), {"body": 1})

    assert (answer.json["accepted"], answer.json["rejected"]) == (1, ERRORS_MAX + 7)
    assert len(answer.json["errors"]) == ERRORS_MAX


async def test_the_key_of_a_line_stands_on_it(orders: Served):
    for options in ({"path": f"{EVENTS}?key=a"}, {"path": EVENTS, "Backstay_Id": "a"}):
        refused = await orders.post(options.pop("path"), data=b'{"body": 1}', **NDJSON, **options)

        assert (refused.status, "each says its own key and id" in refused.detail) == (422, True)


async def test_more_lines_than_may_come_at_once_are_refused(orders: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "LINES_MAX", 3)
    good = b'{"body": 1}\n'

    refused = await orders.post(EVENTS, data=good * 4 + b'{"body": 5}', **NDJSON)

    assert (refused.status, "send the rest after them" in refused.detail) == (422, True)
    assert (await orders.post(EVENTS, data=good * 3, **NDJSON)).json["accepted"] == 3


async def test_a_body_of_lines_has_a_bound_of_its_own(orders: Served):
    announced = await orders.exactly(
        "POST", EVENTS, "Content-Type: application/x-ndjson", f"Content-Length: {LINES_BYTES_MAX + 1}"
    )

    async def endless() -> Any:
        for _ in range(LINES_BYTES_MAX // 1_000_000 + 2):
            yield b" " * 999_999 + b"\n"

    sent = await orders.post(EVENTS, data=endless(), **NDJSON)
    large = await orders.post(EVENTS, data=BytesIO(b'{"body": 1}\n' + b"\n" * 2_000_000), **NDJSON)

    assert announced == 413
    assert (sent.status, "send fewer lines at once" in sent.detail) == (413, True)
    assert large.status == 422  # Too many lines, not too many bytes.
    assert await everything_in(orders) == []


async def test_lines_in_several_parts_are_one_answer(orders: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "PART_LINES", 2)
    monkeypatch.setattr(lines, "APPENDED_AT_ONCE", 3)

    answer = await sent_lines(
        orders, *[{"body": n, "key": "k"} for n in range(4)], b"bad", {"body": 4, "key": "k"}
    )

    [span] = answer.json["ranges"]
    assert (answer.json["accepted"], span["first"], span["last"]) == (5, 0, 4)
    assert [one["line"] for one in answer.json["errors"]] == [5]
    assert [one["body"] for one in await events_in(orders, span["partition"])] == [0, 1, 2, 3, 4]


async def test_when_the_stream_fills_up_among_lines_the_rest_is_told(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lines, "APPENDED_AT_ONCE", 1)
    async with serve(stream_bytes_max=1024 * 1024) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        answer = await sent_lines(served, *[{"body": "x" * 700_000}] * 5)

        assert answer.status == 202
        assert answer.json["accepted"] == len(await everything_in(served)) > 0
        assert {one["type"] for one in answer.json["errors"]} == {"urn:backstay:problem:stream-full"}


async def test_what_was_kept_out_is_not_overtaken_by_what_comes_after(
    orders: Served, log: Log, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lines, "APPENDED_AT_ONCE", 1)
    monkeypatch.setattr(lines, "PART_LINES", 1)
    append, calls = log.append, 0

    async def fails_once(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreUnavailable("/secret/place/streams.db does not answer")
        return await append(*args, **options)

    monkeypatch.setattr(log, "append", fails_once)
    answer = await sent_lines(orders, *[{"body": number, "key": "k"} for number in range(4)])

    assert (answer.json["accepted"], answer.json["rejected"]) == (1, 3)
    assert [one["body"] for one in await everything_in(orders)] == [0]
    assert b"secret" not in answer.body


async def test_only_so_many_large_bodies_are_in_hand(orders: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contents, "LARGE_BYTES", 10)
    # What is large goes past no layer.
    monkeypatch.setattr(orders.fast_lane, "_body_bytes_max", 10)
    begun, most, go_on = 0, 0, asyncio.Event()
    append = orders.client.streams.append_events

    async def slowly(stream: str, events: Any) -> Any:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        await go_on.wait()
        begun -= 1
        return await append(stream, events)

    monkeypatch.setattr(orders.client.streams, "append_events", slowly)
    asking = [asyncio.create_task(sent_lines(orders, {"body": "x" * 20})) for _ in range(12)]
    await comes_true(lambda: begun == contents.LARGE_AT_ONCE)
    await asyncio.sleep(0.05)
    go_on.set()

    assert {(await one).status for one in asking} == {202}
    assert most == contents.LARGE_AT_ONCE


# Only what is durable is accepted


async def test_nothing_is_accepted_before_it_is_durable(
    orders: Served, log: Log, monkeypatch: pytest.MonkeyPatch
):
    committed = asyncio.Event()
    append = log.append

    async def held(*args: Any, **options: Any) -> Any:
        answers = await append(*args, **options)
        await committed.wait()
        return answers

    monkeypatch.setattr(log, "append", held)
    # By the fast lane: tests/integration/http/test_fast_lane_bounds.py
    monkeypatch.setattr(orders.fast_lane, "may_take", lambda _head: False)
    asking = asyncio.create_task(orders.post(EVENTS, 1))
    done, _ = await asyncio.wait([asking], timeout=0.2)
    assert not done

    committed.set()
    assert (await asking).status == 202


# Reading


async def test_events_are_read_page_by_page(orders: Served):
    await sent_lines(orders, *[{"body": number, "key": "k"} for number in range(5)])
    [partition] = [
        one["partition"] for one in (await orders.get("/v1/streams/orders")).json["partitions"] if one["end"]
    ]
    path = f"/v1/streams/orders/partitions/{partition}/events"

    first = (await orders.get(f"{path}?limit=2")).json
    second = (await orders.get(f"{path}?limit=3&from={first['next']}")).json
    end = (await orders.get(f"{path}?from=5")).json

    assert ([one["body"] for one in first["items"]], first["next"]) == ([0, 1], 2)
    assert ([one["offset"] for one in second["items"]], second["next"]) == ([2, 3, 4], None)
    assert end == {"items": [], "next": None}


@pytest.mark.parametrize(
    ("where", "status"),
    [
        ("0/events?from=1", 409),
        ("2/events", 404),
        ("-1/events", 422),
        ("x/events", 422),
        ("0/events?from=-1", 422),
        ("0/events?limit=0", 422),
        ("0/events?limit=1001", 422),
        ("0/events?form=1", 422),
    ],
)
async def test_a_bad_place_to_read_from_is_refused(orders: Served, where: str, status: int):
    assert (await orders.get(f"/v1/streams/orders/partitions/{where}")).status == status


# Who may


async def test_who_may_submit_may_append_and_nothing_else(orders: Served):
    token = await orders.token("producer", Role.SUBMIT)
    reader = await orders.token("reader", Role.READ)

    assert (await orders.post(EVENTS, 1, token=token)).status == 202
    assert (await orders.post(EVENTS, 1, token=reader)).status == 403
    assert (await orders.get("/v1/streams", token=reader)).status == 200
    for method, path in [("PUT", "/v1/streams/new"), ("POST", "/v1/streams/orders/quarantine/resubmit")]:
        assert (await orders.ask(method, path, token=token)).status == 403
    assert (await orders.post(EVENTS, 1)).status == 401


def test_the_bounds_fit_each_other():
    # A producer sends as many events at once as are told one by one; they are appended all, or none.
    assert BATCH_EVENTS_MAX <= ERRORS_MAX <= lines.APPENDED_AT_ONCE <= APPEND_MAX
    assert BATCH_BYTES_MAX + MARGIN_BYTES < LINES_BYTES_MAX
