"""Connections are bounded, kept while the app runs, closed with it, and carry no cookies."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backstay import App, HttpAgent, Recovery, TaskFailed
from tests.support.drones import Delivery
from tests.support.running import FAST, ONCE, SOON, comes_true
from tests.support.service import HOST, HttpService, dead_port, fine, http_service, never, says


async def test_requests_share_a_bounded_number_of_connections(app: App, url: str, service: HttpService):
    gate = asyncio.Event()
    peers: set[Any] = set()

    async def slow(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        await gate.wait()
        return await fine(request)

    service.answers = [slow]
    delivery = Delivery(app, app.http_agent("drone", service.url, connections=3, concurrency=12))

    async with app.run(url, **FAST):
        handles = [await app.submit(delivery.deliver, str(number)) for number in range(12)]
        await comes_true(lambda: service.inside == 3)
        gate.set()
        assert [await handle.result(SOON) for handle in handles] == ["drone-7"] * 12

    assert (service.inside_most, len(peers), len(service.asked)) == (3, 3, 12)


async def test_by_default_steps_wait_for_a_connection_where_their_time_does_not_run(app: App):
    assert app.http_agent("few", "http://drone", connections=7).concurrency == 7
    assert app.http_agent("many", "http://drone", connections=7, concurrency=50).concurrency == 50


async def test_waiting_for_a_connection_counts_and_has_no_effect(app: App, url: str, service: HttpService):
    undone: list[str] = []
    service.answers = [never]
    drone = app.http_agent("drone", service.url, connections=1, concurrency=2, retry=ONCE)

    @drone.step
    async def hold() -> None:
        await drone.post("/hold")

    @drone.step(complete_by="1s")
    async def hurry() -> None:
        await drone.post("/hurry")

    @hurry.undo
    async def calm_down() -> None:
        undone.append("hurry")

    @app.workflow
    async def wait() -> None:
        await hold()

    @app.workflow(recovery=Recovery(attempts=1))
    async def go() -> None:
        await hurry()

    async with app.run(url, **FAST):
        await app.submit(wait)
        await comes_true(lambda: service.inside == 1)
        handle = await app.submit(go)
        with pytest.raises(TaskFailed, match=r"hurry was not sent: no connection within \d{3}ms"):
            await handle.result(SOON)

    assert [asked.path for asked in service.asked] == ["/hold"]
    assert undone == []


async def test_connections_are_kept_while_the_app_runs_and_closed_when_it_stops(
    app: App, url: str, service: HttpService
):
    drone = app.http_agent("drone", service.url)
    delivery = Delivery(app, drone)

    for turn in ("first", "second"):
        async with app.run(url, **FAST):
            for number in range(3):
                handle = await app.submit(delivery.deliver, "d", id=f"{turn}-{number}")
                await handle.result(SOON)
            assert service.open_connections == 1
        await comes_true(lambda: service.open_connections == 0)
    gc.collect()  # An unclosed session would warn here, and warnings are errors.


async def test_connections_are_closed_when_the_app_fails(app: App, url: str, service: HttpService):
    delivery = Delivery(app, app.http_agent("drone", service.url))

    async def run() -> None:
        async with app.run(url, **FAST):
            handle = await app.submit(delivery.deliver, "d")
            await handle.result(SOON)
            raise LookupError("the body failed")

    with pytest.raises(LookupError):
        await run()
    await comes_true(lambda: service.open_connections == 0)
    gc.collect()


async def test_what_an_agent_raises_when_it_closes_does_not_keep_the_others_open(
    app: App, url: str, service: HttpService
):
    class Stubborn(HttpAgent):
        async def close(self) -> None:
            await super().close()
            raise OSError("the door is stuck")

    delivery = Delivery(app, app.http_agent("drone", service.url))
    app.http_agent("other", service.url).__class__ = Stubborn

    async def run() -> None:
        async with app.run(url, **FAST):
            handle = await app.submit(delivery.deliver, "d")
            await handle.result(SOON)

    with pytest.raises(OSError, match="the door is stuck"):
        await run()
    await comes_true(lambda: service.open_connections == 0)
    gc.collect()


def test_an_app_may_run_on_one_event_loop_after_the_other(app: App, tmp_path: Path):
    async def run(number: int) -> str:
        async with http_service(port=port) as service:
            async with app.run(f"sqlite:///{tmp_path / 'loops.db'}", **FAST):
                handle = await app.submit(delivery.deliver, "d", id=f"t{number}")
                result = await handle.result(SOON)
            assert len(service.asked) == 1
        return str(result)

    port = dead_port()
    delivery = Delivery(app, app.http_agent("drone", f"http://{HOST}:{port}"))

    assert [asyncio.run(run(number)) for number in range(2)] == ["drone-7"] * 2
    gc.collect()


async def test_tasks_do_not_see_one_anothers_cookies(app: App, url: str, service: HttpService):
    service.answers = [says(200, '{"drone_id": "x"}', Set_Cookie="session=abc; Path=/")]
    # Of an address in numbers aiohttp would keep no cookie anyway.
    delivery = Delivery(app, app.http_agent("drone", f"http://localhost:{service.port}"))

    async with app.run(url, **FAST):
        for number in range(2):
            handle = await app.submit(delivery.deliver, str(number))
            await handle.result(SOON)

    assert service.headers("Cookie") == [None, None]
