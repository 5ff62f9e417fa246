"""Queues over HTTP: full ones, deleted ones, other ways to receive, callers who hang up, and metrics."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.support.http_queues import LOCK, received, sent, settled
from tests.support.running import eventually
from tests.support.serving import HOST, Served

# Full


async def test_a_full_queue_says_when_to_try_again(served: Served):
    """SB-13."""
    made = await served.put("/v1/queues/orders", {"max_messages": 1})
    assert made.json["max_messages"] == 1
    await sent(served, "a")

    answer = await served.post("/v1/queues/orders/messages", {"body": "b"})

    assert (answer.status, answer.problem, answer.headers["Retry-After"]) == (429, "queue-full", "1")
    [message] = await received(served)
    await settled(served, message, "complete")
    await sent(served, "b")


async def test_a_full_subscription_refuses_what_is_sent_to_its_topic(served: Served):
    await served.put("/v1/topics/prices")
    await served.put("/v1/topics/prices/subscriptions/one", {"max_messages": 1})
    assert (await served.post("/v1/topics/prices/messages", {"body": 1})).status == 201

    answer = await served.post("/v1/topics/prices/messages", {"body": 2})

    assert (answer.status, answer.problem) == (429, "queue-full")
    assert "prices:one" in answer.detail


async def test_a_full_queue_and_dead_letters_are_among_the_alerts(served: Served):
    await served.put("/v1/queues/orders", {"max_messages": 1, "max_deliveries": 1})
    await sent(served, id="m1")
    await served.post("/v1/queues/orders/messages", {"body": "b"})
    [message] = await received(served)
    await settled(served, message, "abandon")

    alerts = (await served.get("/v1/alerts")).json["items"]

    assert [(one["kind"], one["target"]) for one in alerts] == [
        ("dead_letter", "queue:orders"),
        ("queue_full", "queue:orders"),
    ]
    assert "m1" in alerts[0]["message"]


# Deleted


async def test_a_queue_is_deleted_when_it_is_empty_or_by_force(orders: Served):
    await sent(orders)

    refused = await orders.ask("DELETE", "/v1/queues/orders")
    assert (refused.status, refused.problem) == (409, "queue-not-empty")
    gone = await orders.ask("DELETE", "/v1/queues/orders?force=true&reason=moved")
    assert (gone.status, gone.json) == (200, {"name": "orders", "messages": 1})

    assert (await orders.get("/v1/queues/orders")).status == 404
    assert (await orders.ask("DELETE", "/v1/queues/orders")).status == 404
    trail = (await orders.get("/v1/audit?target=queue:orders")).json["items"]
    assert [(one["action"], one["reason"]) for one in trail] == [
        ("delete", "moved"),
        ("drop messages", "moved"),
    ]


async def test_a_subscription_is_deleted_with_its_queue(served: Served):
    await served.put("/v1/topics/prices")
    await served.put("/v1/topics/prices/subscriptions/euros")
    await served.post("/v1/topics/prices/messages", {"body": 1})

    path = "/v1/topics/prices/subscriptions/euros"
    assert (await served.ask("DELETE", path)).status == 409
    assert (await served.ask("DELETE", f"{path}?force=true")).json["messages"] == 1

    [topic] = (await served.get("/v1/topics")).json["items"]
    assert topic["subscriptions"] == []
    assert (await served.ask("DELETE", path)).status == 404


async def test_dead_letters_are_dropped_for_good(orders: Served):
    for number in range(3):
        await sent(orders, number, id=f"m{number}")
    for message in await received(orders):
        await settled(orders, message, "dead-letter")

    one = await orders.ask("DELETE", "/v1/queues/orders/dead/m1?reason=nonsense")
    again = await orders.ask("DELETE", "/v1/queues/orders/dead/m1")
    rest = await orders.ask("DELETE", "/v1/queues/orders/dead")

    assert (one.json, again.status, rest.json) == ({"discarded": 1}, 404, {"discarded": 2})
    assert (await orders.get("/v1/queues/orders/dead")).json["items"] == []


# Other ways to receive


async def test_a_deferred_message_is_received_by_its_number(orders: Served):
    """SB-01."""
    await sent(orders, "a", id="m1")
    [message] = await received(orders)
    assert (await settled(orders, message, "defer")).status == 204
    orders.clock.pass_time(2 * LOCK)
    assert await received(orders) == []
    assert (await orders.get("/v1/queues/orders")).json["deferred"] == 1

    answer = await orders.post("/v1/queues/orders/receive-deferred", {"sequences": [message["sequence"]]})

    [again] = answer.json["items"]
    assert (again["id"], again["delivery_count"]) == ("m1", 2)
    assert (await settled(orders, again, "complete")).status == 204
    nothing = await orders.post("/v1/queues/orders/receive-deferred", {"sequences": [message["sequence"]]})
    assert nothing.json["items"] == []


async def test_what_is_received_at_most_once_is_gone(orders: Served):
    """SB-01."""
    await sent(orders, "a")

    [message] = await received(orders, "?at_most_once=true")

    assert (message["body"], message["lock_token"], message["locked_until"]) == ("a", "", None)
    assert (await settled(orders, message, "complete")).status == 409
    orders.clock.pass_time(2 * LOCK)
    assert await received(orders) == []


async def test_a_message_is_rewritten_and_so_kept(orders: Served):
    """SQ-03."""
    await sent(orders, {"done": 0})
    [message] = await received(orders)
    orders.clock.pass_time(LOCK / 2)

    answer = await settled(orders, message, "rewrite", body={"done": 7})

    assert (answer.status, answer.headers["Backstay-Locked-Until"]) == (204, "2030-01-01T00:01:30Z")
    orders.clock.pass_time(LOCK)
    refused = await settled(orders, message, "rewrite", body={"done": 9})
    assert (refused.status, refused.problem) == (409, "lock-lost")
    [again] = await received(orders)
    assert again["body"] == {"done": 7}


async def test_sessions_are_listed_with_what_waits_in_them(orders: Served):
    """SC-6."""
    for session in ("a", "b", "b"):
        await sent(orders, session=session)

    page = (await orders.get("/v1/queues/orders/sessions?limit=1")).json
    rest = (await orders.get(f"/v1/queues/orders/sessions?limit=1&cursor={page['next']}")).json

    assert [(one["session"], one["messages"]) for one in page["items"] + rest["items"]] == [
        ("a", 1),
        ("b", 2),
    ]
    assert rest["next"] is None


# Hanging up


async def test_whoever_hangs_up_while_waiting_is_given_nothing(serve: Any):
    async with serve(watchers_max=1) as served:
        await served.put("/v1/queues/orders")
        _reader, writer = await asyncio.open_connection(HOST, served.port)
        head = f"POST /v1/queues/orders/receive?wait=30 HTTP/1.1\r\nHost: {HOST}:{served.port}\r\n"
        writer.write(f"{head}Content-Length: 0\r\n\r\n".encode())
        await writer.drain()
        await eventually(lambda: _status(served), lambda status: status == 429, what="somebody waiting")

        writer.close()
        await writer.wait_closed()
        await eventually(lambda: _status(served), lambda status: status == 200, what="the seat free again")
        await sent(served, "a")

        [message] = await received(served)
        assert message["delivery_count"] == 1


async def _status(served: Served) -> int:
    return (await served.post("/v1/queues/orders/receive?wait=1ms")).status


# Metrics


async def test_metrics_tell_how_full_queues_are_and_how_long_messages_wait(orders: Served):
    """PQ-4, QL-2, IC-6."""
    before = await _metrics(orders)
    for number in range(6):
        await sent(orders, number, id=f"m{number}")
    await sent(orders, "again", id="m0")
    await sent(orders, "high", priority=2)
    await sent(orders, "later", at="1h")
    high, first, second, _third = await received(orders, "?max=4")
    assert high["body"] == "high"
    await settled(orders, first, "defer")
    await settled(orders, second, "dead-letter")
    assert 'backstay_queue_ready{queue="orders",priority="0"}' not in before
    orders.clock.pass_time(timedelta(seconds=30))

    after = await _metrics(orders)

    def messages(state: str) -> float:
        return after[f'backstay_queue_messages{{queue="orders",state="{state}"}}']

    assert [messages(one) for one in ("ready", "locked", "scheduled", "deferred", "dead")] == [3, 2, 1, 1, 1]
    assert after['backstay_queue_ready{queue="orders",priority="0"}'] == 3
    assert after['backstay_queue_oldest_ready_seconds{queue="orders",priority="0"}'] == 30
    name = "backstay_message_duplicates_total"
    assert after[name] == before[name] + 1


async def test_queues_are_counted_now_and_then_however_often_somebody_asks(orders: Served):
    name = 'backstay_queue_messages{queue="orders",state="ready"}'
    assert (await _metrics(orders))[name] == 0
    await sent(orders)

    assert (await _metrics(orders))[name] == 0
    orders.clock.pass_time(timedelta(seconds=10))
    assert (await _metrics(orders))[name] == 1


async def _metrics(served: Served) -> dict[str, float]:
    lines = (await served.get("/metrics")).body.decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


# Bad input always gets a 4xx and changes nothing


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("DELETE", "/v1/queues/nowhere", None, 404),
        ("DELETE", "/v1/queues/orders?force=maybe", None, 422),
        ("DELETE", "/v1/queues/orders?colour=red", None, 422),
        ("DELETE", "/v1/queues/nowhere/dead", None, 404),
        ("DELETE", "/v1/queues/orders/dead/m1", None, 404),
        ("DELETE", "/v1/topics/prices/subscriptions/one", None, 404),
        ("GET", "/v1/queues/nowhere/sessions", None, 404),
        ("POST", "/v1/queues/nowhere/receive-deferred", {"sequences": [1]}, 404),
        ("POST", "/v1/queues/orders/receive-deferred", {"sequences": []}, 422),
        ("POST", "/v1/queues/orders/receive-deferred", {"sequences": [0]}, 422),
        ("POST", "/v1/queues/orders/receive-deferred", {"sequences": [2**64]}, 422),
        ("POST", "/v1/queues/orders/receive-deferred", {"sequences": ["1"]}, 422),
        ("POST", "/v1/queues/orders/receive-deferred", {}, 422),
        ("POST", "/v1/queues/orders/receive?at_most_once=perhaps", {}, 422),
        ("POST", "/v1/queues/orders/messages/m1/defer", {"lock_token": "1.x"}, 409),
        ("POST", "/v1/queues/orders/messages/m1/rewrite", {"lock_token": "1.x", "body": 1}, 409),
        ("POST", "/v1/queues/orders/messages/m1/rewrite", {"lock_token": "1.x"}, 422),
        ("PUT", "/v1/queues/others", {"max_messages": 0}, 422),
        ("PUT", "/v1/queues/others", {"max_messages": 10**9}, 422),
    ],
)
async def test_bad_input_is_refused(orders: Served, method: str, path: str, body: Any, status: int):
    await sent(orders, "a")

    answer = await (orders.ask(method, path) if body is None else orders.ask(method, path, body))

    assert answer.status == status, answer
    assert answer.problem
    assert [one["body"] for one in await received(orders)] == ["a"]
    assert [one["name"] for one in (await orders.get("/v1/queues")).json["items"]] == ["orders"]


async def test_what_a_message_cannot_hold_is_not_written_into_it(serve: Any):
    async with serve(payload_bytes_max=1024, inline_bytes_max=100) as served:
        await served.put("/v1/queues/orders")
        await sent(served, "a")
        [message] = await received(served)

        answer = await settled(served, message, "rewrite", body="x" * 1023)

        assert (answer.status, answer.problem) == (413, "payload-too-large")
        served.clock.pass_time(LOCK)
        assert [one["body"] for one in await received(served)] == ["a"]
