"""What an agent sends, what it refuses to send, and what nobody is told of it."""

from __future__ import annotations

import itertools
import logging
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from backstay import App, InvalidRequest, Recovery, TaskFailed
from tests.support.drones import QUICK, Delivery, error_of
from tests.support.running import FAST, SOON
from tests.support.service import HOST, HttpService, fine, says

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

# What is sent


async def test_a_step_sends_its_request_with_key_time_and_body(app: App, url: str, service: HttpService):
    drone = app.http_agent(
        "drone", f"{service.url}/v1", complete_by="5s", headers={"Authorization": "Bearer abc"}
    )
    delivery = Delivery(app, drone)

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "a/b", id="t", attributes={"traceparent": TRACE})
        assert await handle.result(SOON) == "drone-7"

    [asked] = service.asked
    assert asked.headers["Traceparent"] == TRACE
    assert (asked.method, asked.raw_path) == ("PUT", "/v1/api/drones/a%2Fb")
    assert await asked.json() == {"expedited": False}
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Authorization"] == "Bearer abc"
    assert asked.headers["Idempotency-Key"] == "t/schedule:1"
    assert 0 < float(asked.headers["Backstay-Remaining"]) < 5
    assert len(asked.headers["Backstay-Remaining"].partition(".")[2]) == 3
    complete_by = datetime.fromisoformat(asked.headers["Backstay-Complete-By"])
    assert timedelta(0) < complete_by - datetime.now(UTC) < timedelta(seconds=5)  # noqa: TID251


async def test_a_trace_that_is_none_is_not_sent(app: App, url: str, service: HttpService):
    delivery = Delivery(app, app.http_agent("drone", service.url))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "a", attributes={"traceparent": f"{TRACE}\r\nEvil: 1"})
        await handle.result(SOON)

    assert service.headers("Traceparent") == service.headers("Evil") == [None]


async def test_the_key_stays_and_the_time_runs_from_try_to_try(app: App, url: str, service: HttpService):
    service.answers = [says(503), says(429), says(500), fine]
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="5s", retry=QUICK))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d", id="t")
        assert await handle.result(SOON) == "drone-7"

    assert service.headers("Idempotency-Key") == ["t/schedule:1"] * 4
    remaining = [float(one or "nan") for one in service.headers("Backstay-Remaining")]
    assert all(later < earlier for earlier, later in itertools.pairwise(remaining))
    assert len(set(service.headers("Backstay-Complete-By"))) == 1


async def test_an_undo_sends_a_key_of_its_own_and_may_take_a_404_for_success(
    app: App, url: str, service: HttpService
):
    service.answers = [says(200, "no json"), says(503), says(404)]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d", id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)

    assert failed.value.state == "undone"
    assert [asked.method for asked in service.asked] == ["PUT", "DELETE", "DELETE"]
    assert service.headers("Idempotency-Key") == ["t/schedule:1", *["t/schedule:1/undo"] * 2]


async def test_all_methods_and_options(app: App, service: HttpService):
    drone = app.http_agent("drone", service.url)

    await drone.get("/a", params={"q": "x y"}, headers={"X-Trace": "1", "Idempotency-Key": "mine"})
    await drone.post("/a", json=[1])
    await drone.patch("/a", json={})
    await drone.delete("/a")
    answer = await drone.request("OPTIONS", "/a")

    assert [asked.method for asked in service.asked] == ["GET", "POST", "PATCH", "DELETE", "OPTIONS"]
    first = service.asked[0]
    assert first.query == {"q": "x y"}
    assert (first.headers["X-Trace"], first.headers["Idempotency-Key"]) == ("1", "mine")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json; charset=utf-8")


# What is refused


async def test_a_path_that_would_lead_elsewhere_is_refused_and_nothing_is_sent(
    app: App, url: str, service: HttpService
):
    drone = app.http_agent("drone", service.url, retry=QUICK)

    @drone.step
    async def fetch(path: str) -> None:
        await drone.get(path)

    @app.workflow(recovery=Recovery(then="error"))
    async def read(path: str) -> None:
        await fetch(path)

    error = await error_of(app, url, read, f"//{HOST}:{service.port}/admin")

    assert (error["type"], error["permanent"]) == ("InvalidHttpRequest", True)
    assert "must begin with one slash" in error["message"]
    assert service.asked == []
    with pytest.raises(InvalidRequest):
        await fetch("http://elsewhere/")


# Secrets


async def test_no_secret_is_in_errors_or_logs(
    app: App, url: str, service: HttpService, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=500, text=f"{request.headers} {request.query_string and '?…'}")

    service.answers = [echo]
    drone = app.http_agent(
        "drone",
        service.url.replace("://", "://bob:pa55word-of-bob@"),
        headers={"X-Api-Key": "s3cr3t-key"},
        retry=QUICK,
    )

    @drone.step
    async def fetch() -> None:
        await drone.get("/x", params={"token": "s3cr3t-token"}, headers={"Cookie": "session=s3cr3t-cookie"})

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def read() -> None:
        await fetch()

    error = await error_of(app, url, read)

    said = f"{error} {caplog.text} {drone!r}"
    assert "X-Api-Key" in said  # It was echoed; only its value was not.
    secrets = ("s3cr3t-key", "s3cr3t-token", "s3cr3t-cookie", "pa55word-of-bob", "Ym9iOnBhNTV3b3JkLW9mLWJvYg")
    assert [secret for secret in secrets if secret in said] == []
