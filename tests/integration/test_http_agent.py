"""HttpAgent against a real service: what is sent, what an answer does to the step, and what is bounded."""

from __future__ import annotations

import asyncio
import gc
import gzip
import itertools
import logging
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backstay import (
    App,
    Breaker,
    HttpAgent,
    HttpFailed,
    HttpUnavailable,
    InvalidRequest,
    Recovery,
    Retry,
    TaskFailed,
    Transient,
    current_step,
)
from backstay.errors import InvalidDefinition, NotInWorkflow
from backstay.observe import BREAKER_OPENED, STEP_RETRIED, counters
from tests.support.running import eventually
from tests.support.service import HOST, HttpService, dead_port, fine, http_service, never, says

FAST: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "1s", "lease": "10s"}
ONCE = Retry(attempts=1)
QUICK = Retry(attempts=4, first="1ms")
SOON = 10.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'http.db'}"


@pytest.fixture
def app() -> App:
    return App("http")


@pytest.fixture
async def service() -> AsyncIterator[HttpService]:
    async with http_service() as running:
        yield running


async def comes_true(holds: Callable[[], object]) -> None:
    async def look() -> object:
        return holds()

    await eventually(look, bool)


class Delivery:
    """A workflow of one step that schedules a drone, and its undo, which remembers what it was told."""

    def __init__(self, app: App, drone: HttpAgent, *, then: Any = "undo", **step: Any) -> None:
        self.undone: list[str | None] = []

        @drone.step(**step)
        async def schedule(delivery: str, expedited: bool = False) -> str:
            answer = await drone.put(("api", "drones", delivery), json={"expedited": expedited})
            return str(answer.json()["drone_id"])

        @schedule.undo
        async def cancel(delivery: str, expedited: bool) -> None:
            self.undone.append(current_step().outcome)
            await drone.delete(("api", "drones", delivery), ok=(404,))

        @app.workflow(recovery=Recovery(attempts=1, then=then))
        async def deliver(delivery: str) -> str:
            return await schedule(delivery)

        self.schedule = schedule
        self.deliver = deliver


async def error_of(app: App, url: str, workflow: Any, *input: Any) -> dict[str, Any]:
    """The error that a task of ``workflow`` stops with."""
    async with app.run(url, **FAST):
        handle = await app.submit(workflow, *input, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)
    assert failed.value.error is not None
    return failed.value.error


# What is sent


async def test_a_step_sends_its_request_with_key_time_and_body(app: App, url: str, service: HttpService):
    drone = app.http_agent(
        "drone", f"{service.url}/v1", complete_by="5s", headers={"Authorization": "Bearer abc"}
    )
    delivery = Delivery(app, drone)

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "a/b", id="t")
        assert await handle.result(SOON) == "drone-7"

    [asked] = service.asked
    assert (asked.method, asked.raw_path) == ("PUT", "/v1/api/drones/a%2Fb")
    assert await asked.json() == {"expedited": False}
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Authorization"] == "Bearer abc"
    assert asked.headers["Idempotency-Key"] == "t/schedule:1"
    assert 0 < float(asked.headers["Backstay-Remaining"]) < 5
    assert len(asked.headers["Backstay-Remaining"].partition(".")[2]) == 3
    complete_by = datetime.fromisoformat(asked.headers["Backstay-Complete-By"])
    assert timedelta(0) < complete_by - datetime.now(UTC) < timedelta(seconds=5)  # noqa: TID251


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


# Outside a task


async def test_outside_a_task_a_step_is_the_plain_function_and_leaves_no_connection(
    app: App, service: HttpService
):
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="7s"))

    assert await delivery.schedule("d") == "drone-7"

    assert service.headers("Idempotency-Key") == [None]
    assert service.headers("Backstay-Remaining") == ["7.000"]
    await comes_true(lambda: service.open_connections == 0)


async def test_outside_a_task_errors_are_raised_as_they_are(app: App, service: HttpService):
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="7s"))

    service.answers = [says(409, "taken")]
    with pytest.raises(HttpFailed, match="409 Conflict: taken") as failed:
        await delivery.schedule("d")
    assert failed.value.status == 409

    service.answers = [says(429, Retry_After="9")]
    with pytest.raises(HttpUnavailable) as unavailable:
        await delivery.schedule("d")
    assert (unavailable.value.status, unavailable.value.retry_after) == (429, timedelta(seconds=9))


async def test_a_request_in_a_workflow_is_refused(app: App, url: str, service: HttpService):
    drone = app.http_agent("drone", service.url)

    @app.workflow(recovery=Recovery(then="error"))
    async def deliver() -> None:
        await drone.put("/drones")

    error = await error_of(app, url, deliver)

    assert error["type"] == NotInWorkflow.__name__
    assert "belongs into a step" in error["message"]
    assert service.asked == []


# What an answer does to the step


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_status_that_may_pass_is_tried_again(app: App, url: str, service: HttpService, status: int):
    service.answers = [says(status), fine]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d")
        assert await handle.result(SOON) == "drone-7"

    assert len(service.asked) == 2


@pytest.mark.parametrize("status", [301, 303, 400, 401, 403, 404, 409, 410, 422])
async def test_any_other_status_is_final(app: App, url: str, service: HttpService, status: int):
    service.answers = [says(status, "because")]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK), then="error")

    error = await error_of(app, url, delivery.deliver, "d")

    assert len(service.asked) == 1
    assert (error["type"], error["permanent"]) == ("HttpFailed", True)
    assert error["message"].startswith(f"PUT {service.url}/api/drones/d answered {status} ")
    assert error["message"].endswith(": because")


async def test_a_redirect_is_not_followed(app: App, url: str, service: HttpService):
    async with http_service() as elsewhere:
        service.answers = [says(307, "go there", Location=f"{elsewhere.url}/x?token=s3cr3t"), says(404)]
        delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

        error = await error_of(app, url, delivery.deliver, "d")

        assert elsewhere.asked == []
    assert f"which points to {elsewhere.url}/x; redirects are not followed: go there" in error["message"]
    assert "s3cr3t" not in error["message"]
    assert delivery.undone == ["unknown"]  # It may have done its work before it pointed elsewhere.


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


# Time


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


# Connections


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

    @drone.step(complete_by="200ms")
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
        with pytest.raises(TaskFailed, match=r"hurry was not sent: no connection within 1\d\dms"):
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
    delivery = Delivery(app, app.http_agent("drone", service.url))

    async with app.run(url, **FAST):
        for number in range(2):
            handle = await app.submit(delivery.deliver, str(number))
            await handle.result(SOON)

    assert service.headers("Cookie") == [None, None]


# A service that is dead, or dies


async def test_a_refused_connection_is_tried_again_and_certainly_had_no_effect(app: App, url: str):
    port = dead_port()
    delivery = Delivery(app, app.http_agent("drone", f"http://{HOST}:{port}", retry=QUICK))

    retried = counters[STEP_RETRIED]
    error = await error_of(app, url, delivery.deliver, "d")

    assert counters[STEP_RETRIED] - retried == 3
    assert error["type"] == "HttpUnavailable"
    assert error["message"] == (
        f"PUT http://{HOST}:{port}/api/drones/d got no answer:"
        f" no connection to {HOST}:{port}: Connection refused"
    )
    assert delivery.undone == []


async def test_what_was_never_sent_may_be_repeated_even_if_it_must_not_happen_twice(app: App, url: str):
    port = dead_port()
    drone = app.http_agent(
        "drone", f"http://{HOST}:{port}", retry=Retry(attempts=1000, first="5ms", factor=1)
    )
    delivery = Delivery(app, drone, idempotent=False)

    retried = counters[STEP_RETRIED]
    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d")
        await comes_true(lambda: counters[STEP_RETRIED] > retried)
        async with http_service(port=port) as service:
            assert await handle.result(SOON) == "drone-7"

    assert len(service.asked) == 1


@pytest.mark.parametrize("answer", [says(500), never], ids=["500", "silence"])
async def test_what_may_have_happened_is_not_repeated_if_it_must_not_happen_twice_and_is_undone(
    app: App, url: str, service: HttpService, answer: Any
):
    service.answers = [answer, says(404)]
    drone = app.http_agent("drone", service.url, complete_by="400ms", retry=QUICK)
    delivery = Delivery(app, drone, idempotent=False)

    await error_of(app, url, delivery.deliver, "d")

    assert [asked.method for asked in service.asked] == ["PUT", "DELETE"]
    assert delivery.undone == ["unknown"]


async def test_a_refusal_after_a_silence_leaves_the_outcome_unknown(app: App, url: str, service: HttpService):
    """The first try may have taken effect although the second was refused."""
    service.answers = [says(502), says(409), says(404)]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    await error_of(app, url, delivery.deliver, "d")

    assert delivery.undone == ["unknown"]


async def test_a_refusal_at_the_first_try_has_no_effect_to_undo(app: App, url: str, service: HttpService):
    service.answers = [says(409)]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    await error_of(app, url, delivery.deliver, "d")

    assert delivery.undone == []


async def test_a_dead_service_opens_the_breaker_and_is_asked_again_when_it_is_back(app: App, url: str):
    port = dead_port()
    drone = app.http_agent(
        "drone",
        f"http://{HOST}:{port}",
        retry=Retry(attempts=50, first="1ms", factor=1),
        breaker=Breaker(failures=3, open_for="200ms"),
    )
    delivery = Delivery(app, drone)

    opened = counters[BREAKER_OPENED]
    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d")
        await comes_true(lambda: counters[BREAKER_OPENED] > opened)
        async with http_service(port=port):
            assert await handle.result(SOON) == "drone-7"


async def test_a_kept_connection_that_the_service_closes_is_a_failure_like_any_other(app: App, url: str):
    """Each try sends once: whether it is sent again is decided by the agent alone."""
    heard: list[bytes] = []
    body = b'{"drone_id": "drone-7"}'
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first two are answered on one connection; the third is heard, and the line goes dead.
        while head := await until_the_end_of(reader):
            heard.append(head)
            if len(heard) == 3:
                break
            writer.write(whole)
        writer.close()

    server = await asyncio.start_server(converse, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    drone = app.http_agent("drone", f"http://{HOST}:{port}", retry=ONCE)
    delivery = Delivery(app, drone, then="error")

    async with server, app.run(url, **FAST):
        for number in range(2):
            handle = await app.submit(delivery.deliver, "d", id=f"t{number}")
            await handle.result(SOON)
        handle = await app.submit(delivery.deliver, "d", id="t2")
        with pytest.raises(TaskFailed, match="the service closed the connection"):
            await handle.result(SOON)

    assert len(heard) == 3


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "its body broke off or cannot be decoded"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope", "cannot be decoded"),
        (b"SSH-2.0-OpenSSH s3cr3t\r\n\r\n", "what came is not HTTP"),
        (b"", "the service closed the connection"),
    ],
    ids=["cut", "not gzip", "not HTTP", "nothing"],
)
async def test_an_answer_that_breaks_off_or_is_none_may_pass_and_says_nothing_of_its_content(
    app: App, sent: bytes, reason: str
):
    async with one_answer(sent) as drone_url:
        drone = app.http_agent("drone", drone_url)
        with pytest.raises(HttpUnavailable, match=reason) as unavailable:
            await drone.get("/x", params={"token": "s3cr3t"})

    assert (unavailable.value.status, unavailable.value.unsure) == (None, True)
    assert "s3cr3t" not in str(unavailable.value)
    assert unavailable.value.__cause__ is None
    assert unavailable.value.__suppress_context__


async def test_a_refusal_whose_body_breaks_off_is_one_all_the_same(app: App):
    async with one_answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nno") as drone_url:
        drone = app.http_agent("drone", drone_url)
        with pytest.raises(HttpFailed, match="404 Not Found"):
            await drone.get("/x")


async def test_a_host_without_an_address_is_named(app: App):
    drone = app.http_agent("drone", "http://drone.invalid")

    with pytest.raises(HttpUnavailable, match=r"drone\.invalid cannot be resolved") as unavailable:
        await drone.get("/x")

    assert unavailable.value.unsure is False


async def test_a_service_that_does_not_speak_tls_is_not_reached(app: App, service: HttpService):
    drone = app.http_agent("drone", service.url.replace("http:", "https:"))

    with pytest.raises(HttpUnavailable, match="TLS failed") as unavailable:
        await drone.get("/x")

    assert unavailable.value.unsure is False


# The size of an answer


async def test_an_answer_that_is_just_not_too_large_is_read(app: App, service: HttpService):
    service.answers = [says(200, "x" * 1_000)]
    drone = app.http_agent("drone", service.url, response_bytes_max=1_000)

    assert len((await drone.get("/x")).body) == 1_000


async def test_an_answer_that_is_too_large_fails_for_good_and_the_work_is_undone(
    app: App, url: str, service: HttpService
):
    service.answers = [says(200, "x" * 1_001), says(404)]
    delivery = Delivery(app, app.http_agent("drone", service.url, response_bytes_max=1_000, retry=QUICK))

    error = await error_of(app, url, delivery.deliver, "d")

    assert error["message"] == (
        f"PUT {service.url}/api/drones/d answered 200 OK with more than 1,000 bytes"
        " (response_bytes_max of the agent)"
    )
    assert error["permanent"] is True
    assert [asked.method for asked in service.asked] == ["PUT", "DELETE"]
    assert delivery.undone == ["unknown"]


@pytest.mark.parametrize("status", [200, 500])
async def test_a_small_answer_that_unfolds_into_a_large_one_is_not_unfolded(
    app: App, service: HttpService, status: int
):
    bomb = gzip.compress(b"x" * 100_000_000)
    assert len(bomb) < 200_000

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=bomb, headers={"Content-Encoding": "gzip"})

    service.answers = [answer]
    drone = app.http_agent("drone", service.url, response_bytes_max=200_000)

    tracemalloc.start()
    try:
        with pytest.raises((HttpFailed, HttpUnavailable), match=str(status)):
            await drone.get("/x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000_000


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


# Declaring one


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"connections": 0}, "connections is 0; it must lie between 1 and 10,000"),
        ({"connections": 10_001}, "connections is 10001"),
        ({"response_bytes_max": 0}, "response_bytes_max is 0; it must be at least 1"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"complete_by": "soon"}, "complete_by is 'soon'"),
        ({"headers": {"X": "a\nb"}}, "header X has a value that is not one line"),
        ({"url": "drone:8080"}, "url of the service must be http://host"),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused_by_name(app: App, options: dict[str, Any], complaint: str):
    with pytest.raises(InvalidRequest, match=complaint):
        app.http_agent("drone", **{"url": "http://drone", **options})


def test_two_agents_of_one_name_are_refused(app: App):
    app.agent("drone")

    with pytest.raises(InvalidDefinition, match="declared twice"):
        app.http_agent("drone", "http://drone")


# Underneath


def never_ending(status: int) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        await response.write(b"and")
        return await never(request)

    return answer


async def until_the_end_of(reader: asyncio.StreamReader) -> bytes:
    """One request with a short JSON body."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    return head + await reader.readexactly(len(b'{"expedited":false}'))


@asynccontextmanager
async def one_answer(sent: bytes) -> AsyncIterator[str]:
    """A service that says the same bytes to everybody and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, HOST, 0) as server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
