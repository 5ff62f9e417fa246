"""A service that is dead, dies, or makes no sense is asked again, unless it must not be asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backstay import App, Breaker, HttpFailed, HttpUnavailable, Retry, TaskFailed
from backstay.observe import BREAKER_OPENED, STEP_RETRIED, counters
from tests.support.drones import QUICK, Delivery, error_of
from tests.support.running import FAST, ONCE, SOON, comes_true
from tests.support.service import HOST, HttpService, dead_port, http_service, never, says

# Nobody is there


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


# The answer breaks off


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


# Underneath


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
