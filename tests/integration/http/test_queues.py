"""Queues and topics over HTTP."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.support.http_queues import LOCK, received, sent, settled
from tests.support.serving import Served

# The way of a message


async def test_a_message_is_sent_received_and_completed(orders: Served):
    told = await sent(orders, {"item": 7}, id="m1", properties={"kind": "book"}, session="s", priority=2)

    [message] = await received(orders)

    assert told == {"id": "m1", "sequence": message["sequence"], "duplicate": False}
    assert {"id", "body", "properties", "delivery_count", "lock_token", "locked_until"} <= set(message)
    assert (message["body"], message["properties"]) == ({"item": 7}, {"kind": "book"})
    assert message["delivery_count"] == 1
    assert message["locked_until"] == "2030-01-01T00:01:00Z"
    done = await settled(orders, message, "complete")
    assert (done.status, done.body) == (204, b"")
    assert await received(orders) == []


async def test_a_lost_lock_is_a_conflict(orders: Served):
    await sent(orders, id="m1")
    [message] = await received(orders)
    orders.clock.pass_time(LOCK)

    for how in ("complete", "abandon", "renew", "dead-letter"):
        answer = await settled(orders, message, how)
        assert (answer.status, answer.problem) == (409, "lock-lost"), how
        assert "m1" in answer.detail


async def test_a_renewed_lock_says_until_when_it_holds(orders: Served):
    await sent(orders)
    [message] = await received(orders)
    orders.clock.pass_time(LOCK / 2)

    answer = await settled(orders, message, "renew")

    assert (answer.status, answer.headers["Backstay-Locked-Until"]) == (204, "2030-01-01T00:01:30Z")


async def test_an_abandoned_message_comes_again_after_its_delay(orders: Served):
    await sent(orders)
    [message] = await received(orders)
    assert (await settled(orders, message, "abandon", delay="5s", reason="busy")).status == 204

    assert await received(orders) == []
    orders.clock.pass_time(timedelta(seconds=5))
    [again] = await received(orders)
    assert again["delivery_count"] == 2


async def test_who_waits_is_answered_as_soon_as_something_comes(orders: Served):
    waiting = asyncio.create_task(received(orders, "?wait=20s"))
    await asyncio.sleep(0.05)
    await sent(orders, "now")

    async with asyncio.timeout(10):
        assert [one["body"] for one in await waiting] == ["now"]
    async with asyncio.timeout(10):
        assert await received(orders, "?wait=0.05") == []
        assert await received(orders, "?wait=50ms&max=3") == []


async def test_so_many_may_wait_and_no_more(serve: Any):
    async with serve(watchers_max=1) as served:
        await served.put("/v1/queues/orders")
        first = asyncio.create_task(received(served, "?wait=20"))
        await asyncio.sleep(0.1)

        answer = await served.post("/v1/queues/orders/receive?wait=20")

        assert (answer.status, answer.problem) == (429, "too-many-watchers")
        await sent(served)
        assert len(await first) == 1
        assert await received(served, "?wait=10ms") == []


# What was set aside


async def test_dead_letters_are_listed_and_resubmitted(orders: Served):
    for number in range(3):
        await sent(orders, number, id=f"m{number}")
    for message in await received(orders):
        assert (await settled(orders, message, "dead-letter", reason="bad address")).status == 204

    page = (await orders.get("/v1/queues/orders/dead?limit=2")).json
    rest = (await orders.get(f"/v1/queues/orders/dead?limit=2&cursor={page['next']}")).json
    assert [one["id"] for one in page["items"] + rest["items"]] == ["m0", "m1", "m2"]
    assert rest["next"] is None
    assert (page["items"][0]["reason"], page["items"][0]["body"]) == ("bad address", 0)

    one = await orders.post("/v1/queues/orders/dead/m1/resubmit", {"reason": "the street is there now"})
    assert (one.status, one.json["resubmitted"]) == (200, 1)
    everything = await orders.post("/v1/queues/orders/dead/resubmit")
    assert (everything.status, everything.json["resubmitted"]) == (200, 2)
    assert [message["id"] for message in await received(orders)] == ["m1", "m0", "m2"]
    missing = await orders.post("/v1/queues/orders/dead/m1/resubmit")
    assert (missing.status, missing.problem) == (404, "unknown-message")
    [_, act] = (await orders.get("/v1/audit?target=queue:orders")).json["items"]
    assert (act["action"], act["reason"]) == ("resubmit m1", "the street is there now")


async def test_a_message_without_a_reason_is_set_aside_all_the_same(orders: Served):
    await sent(orders)
    [message] = await received(orders)

    assert (await settled(orders, message, "dead-letter")).status == 204

    [dead] = (await orders.get("/v1/queues/orders/dead")).json["items"]
    assert dead["reason"]


# Queues


async def test_a_queue_is_made_once_and_its_terms_may_change(served: Served):
    made = await served.put("/v1/queues/orders", {"lock": "5s", "max_deliveries": 3, "ttl": "1h"})
    again = await served.put("/v1/queues/orders", {"sessions": True})

    assert (made.status, again.status) == (201, 200)
    assert made.json["lock"] == "5s"
    assert (made.json["max_deliveries"], made.json["ttl"]) == (3, "1h")
    assert (again.json["lock"], again.json["sessions"]) == ("1m", True)


async def test_queues_are_listed_with_what_is_in_them(orders: Served):
    await orders.put("/v1/queues/others")
    await sent(orders)
    await sent(orders, session="s")
    await sent(orders, session="s")
    await sent(orders, at="1h")
    await received(orders, "?max=1")

    [first] = (page := (await orders.get("/v1/queues?limit=1")).json)["items"]
    [second] = (await orders.get(f"/v1/queues?limit=1&cursor={page['next']}")).json["items"]

    assert (first["name"], second["name"]) == ("orders", "others")
    assert {name: first[name] for name in ("ready", "locked", "scheduled", "dead")} == {
        "ready": 2,
        "locked": 1,
        "scheduled": 1,
        "dead": 0,
    }
    assert (await orders.get("/v1/queues/orders")).json == first


async def test_a_look_locks_nothing(orders: Served):
    await sent(orders, "a")

    [seen] = (await orders.get("/v1/queues/orders/messages")).json["items"]

    assert (seen["body"], seen["state"], seen["delivery_count"]) == ("a", "ready", 0)
    assert "lock_token" not in seen
    assert len(await received(orders)) == 1


# Topics


async def test_a_topic_copies_to_the_subscriptions_that_match(served: Served):
    assert (await served.put("/v1/topics/prices")).status == 201
    assert (await served.put("/v1/topics/prices")).status == 200
    made = await served.put("/v1/topics/prices/subscriptions/euros", {"where": {"currency": "EUR"}})
    assert (made.status, made.json["name"]) == (201, "prices:euros")

    for currency in ("EUR", "USD"):
        answer = await served.post(
            "/v1/topics/prices/messages", {"body": currency, "properties": {"currency": currency}}
        )
        assert answer.status == 201

    messages = (await served.post("/v1/queues/prices:euros/receive?max=9")).json["items"]
    assert [message["body"] for message in messages] == ["EUR"]
    [topic] = (await served.get("/v1/topics")).json["items"]
    assert topic["subscriptions"] == [
        {"name": "euros", "queue": "prices:euros", "where": {"currency": "EUR"}}
    ]


# Bad input always gets a 4xx and changes nothing


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/queues/nowhere", None, 404),
        ("GET", "/v1/queues/nowhere/dead", None, 404),
        ("GET", "/v1/queues/nowhere/messages", None, 404),
        ("POST", "/v1/queues/nowhere/receive", {}, 404),
        ("POST", "/v1/queues/nowhere/messages", {"body": 1}, 404),
        ("POST", "/v1/topics/nowhere/messages", {"body": 1}, 404),
        ("PUT", "/v1/topics/nowhere/subscriptions/one", {}, 404),
        ("POST", "/v1/queues/nowhere/messages/m1/complete", {"lock_token": "1.x"}, 409),
        ("POST", "/v1/queues/orders/messages/m1/complete", {"lock_token": ""}, 409),
        ("POST", "/v1/queues/orders/messages/m1/complete", {}, 422),
        ("POST", "/v1/queues/orders/messages/m1/abandon", {"lock_token": "1.x", "delay": "soon"}, 422),
        ("POST", "/v1/queues/orders/messages", {}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "colour": "red"}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "priority": 11}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "properties": {"a": {}}}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "id": "two words"}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "at": "tomorrow"}, 422),
        ("POST", "/v1/queues/orders/messages", {"body": 1, "ttl": "0s"}, 422),
        ("POST", "/v1/queues/orders/receive?max=0", {}, 422),
        ("POST", "/v1/queues/orders/receive?max=1001", {}, 422),
        ("POST", "/v1/queues/orders/receive?wait=31s", {}, 422),
        ("POST", "/v1/queues/orders/receive?wait=never", {}, 422),
        ("PUT", "/v1/queues/others", {"lock": "1ms"}, 422),
        ("PUT", "/v1/queues/others", {"max_deliveries": 0}, 422),
        ("PUT", "/v1/queues/two%20words", {}, 422),
        ("POST", "/v1/queues/orders/dead/m1/resubmit", {}, 404),
    ],
)
async def test_bad_input_is_refused(orders: Served, method: str, path: str, body: Any, status: int):
    answer = await (orders.get(path) if body is None else orders.ask(method, path, body))

    assert answer.status == status, answer
    assert answer.problem
    assert await received(orders) == []
    assert [one["name"] for one in (await orders.get("/v1/queues")).json["items"]] == ["orders"]


async def test_a_body_that_is_too_large_is_refused(serve: Any):
    async with serve(payload_bytes_max=1024, inline_bytes_max=100) as served:
        await served.put("/v1/queues/orders")

        answer = await served.post("/v1/queues/orders/messages", {"body": "x" * 1023})

        assert (answer.status, answer.problem) == (413, "payload-too-large")
        assert await sent(served, "x" * 1022)
