"""A service that hangs is cut off in time, and one that wants a pause gets it, if there is time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from aiohttp import web

from backstay import App, HttpFailed, HttpUnavailable, Transient
from tests.support.drones import QUICK, Delivery, error_of
from tests.support.running import FAST, SOON, comes_true
from tests.support.service import HttpService, fine, never, says

# Retry-After


@pytest.mark.parametrize(
    ("status", "when"), [(429, "1"), (503, "Mon, 01 Jan 2001 00:00:01 GMT")], ids=["seconds", "instant"]
)
async def test_a_service_is_not_asked_again_before_it_wants_to_be(
    app: App, url: str, service: HttpService, status: int, when: str
):
    at: list[float] = []

    async def busy(_request: web.Request) -> web.Response:
        at.append(time.monotonic())
        there = "Mon, 01 Jan 2001 00:00:00 GMT"  # by a clock that is years behind
        return web.Response(status=status, headers={"Retry-After": when, "Date": there})

    async def ready(request: web.Request) -> web.Response:
        at.append(time.monotonic())
        return await fine(request)

    service.answers = [busy, ready]
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="5s", retry=QUICK))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d")
        assert await handle.result(SOON) == "drone-7"

    asked, again = at
    assert again - asked >= 1


async def test_a_pause_that_does_not_fit_before_the_complete_by_ends_the_attempt_at_once(
    app: App, url: str, service: HttpService
):
    service.answers = [says(429, "quota", Retry_After="60")]
    drone = app.http_agent("drone", service.url, complete_by="20s", retry=QUICK)
    delivery = Delivery(app, drone, then="error")

    error = await error_of(app, url, delivery.deliver, "d")

    assert len(service.asked) == 1
    assert "429 Too Many Requests, to be asked again after 1m: quota" in error["message"]
    assert error["permanent"] is False


async def test_any_step_may_say_when_it_is_to_be_tried_again(app: App, url: str):
    at: list[float] = []
    agent = app.agent("bank", retry=QUICK)

    @agent.step
    async def charge() -> None:
        at.append(time.monotonic())
        if len(at) == 1:
            raise Transient("busy", retry_after=timedelta(milliseconds=200))

    @app.workflow
    async def order() -> None:
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        await handle.result(SOON)

    assert at[1] - at[0] >= 0.2


def test_a_pause_is_a_timedelta():
    with pytest.raises(TypeError, match="retry_after is 5; it must be a timedelta"):
        Transient("busy", retry_after=5)  # type: ignore[arg-type]


# Silence


async def test_a_service_that_hangs_is_cut_off_before_the_complete_by_and_named(
    app: App, url: str, service: HttpService
):
    service.answers = [never]
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="400ms"), then="error")

    started = time.monotonic()
    error = await error_of(app, url, delivery.deliver, "d")

    assert time.monotonic() - started < 5
    assert error["type"] == "HttpUnavailable"
    assert error["message"].startswith(f"PUT {service.url}/api/drones/d got no answer within 3")
    assert error["message"].endswith("ms")
    await comes_true(lambda: service.open_connections == 0)


async def test_a_body_that_never_ends_is_cut_off_too(app: App, url: str, service: HttpService):
    service.answers = [never_ending(200)]
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="400ms"), then="error")

    error = await error_of(app, url, delivery.deliver, "d")

    assert "got no answer within 3" in error["message"]


async def test_a_refusal_is_one_although_its_body_never_ends(app: App, service: HttpService):
    service.answers = [never_ending(404)]
    drone = app.http_agent("drone", service.url, complete_by="20s")

    with pytest.raises(HttpFailed, match="404 Not Found"):
        await drone.get("/x")


async def test_a_timeout_of_its_own_leaves_time_for_another_try(app: App, url: str, service: HttpService):
    service.answers = [never, fine]
    drone = app.http_agent("drone", service.url, complete_by="10s", retry=QUICK)

    @drone.step
    async def fetch() -> int:
        return (await drone.get("/x", timeout="100ms")).status

    @app.workflow
    async def read() -> int:
        return await fetch()

    async with app.run(url, **FAST):
        handle = await app.submit(read)
        assert await handle.result(SOON) == 200

    assert service.headers("Backstay-Remaining") == ["0.100"] * 2


async def test_nothing_is_sent_when_no_time_remains(app: App, service: HttpService):
    drone = app.http_agent("drone", service.url)

    with pytest.raises(HttpUnavailable, match=r"was not sent: no time remains") as unavailable:
        await drone.get("/x", timeout="0s")

    assert unavailable.value.unsure is False
    assert service.asked == []


# Underneath


def never_ending(status: int) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        await response.write(b"and")
        return await never(request)

    return answer
