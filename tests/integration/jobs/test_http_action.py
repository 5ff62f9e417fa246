"""Requests of jobs to real receivers: what is a success, and what a bad receiver costs."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import trustme
from aiohttp import web

from backstay.domain.jobs.messages import ADDRESS_REFUSED, EXCERPT_LENGTH_MAX
from backstay.domain.outbound import Outbound
from backstay.jobs import http_action
from backstay.jobs.http_action import EXCERPT_BYTES_MAX, HttpAction
from backstay.jobs.http_request import HttpRequest
from backstay.jobs.oauth import Grant
from tests.support.service import HOST, Answer, HttpService, dead_port, http_service, never, says

SOON = timedelta(seconds=10)
SHORT = timedelta(milliseconds=200)
MIB = 1024 * 1024
GRANT = Grant(tenant="t", audience="a", client_id="c", secret="hunter2")


@asynccontextmanager
async def action(
    timeout: timedelta = SOON, *, connections: int = 10, authority: str = "", allow: str = "loopback"
) -> AsyncIterator[HttpAction]:
    made = HttpAction(
        timeout=timeout, connections=connections, outbound=Outbound((allow,)), authority=authority
    )
    try:
        yield made
    finally:
        await made.close()


def to(url: str, method: str = "GET", *, body: bytes | None = None, **theirs: str) -> HttpRequest:
    return HttpRequest(method=method, url=url, body=body, theirs=theirs, ours={"x-ms-scheduler-jobid": "j"})


@pytest.mark.parametrize(("status", "name"), [(200, "OK"), (202, "Accepted"), (204, "NoContent")])
async def test_any_answer_of_2xx_is_a_success_and_nothing_is_polled(
    service: HttpService, status: int, name: str
):
    service.answers = [says(status, Location=f"{service.url}/later")]

    async with action() as sending:
        tried = await sending.send(to(f"{service.url}/orders"))

    assert tried.succeeded
    assert f"Response from host '{HOST}': '{name}' Response Headers: Location: " in tried.message
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("status", "name"), [(404, "NotFound"), (503, "ServiceUnavailable"), (304, "NotModified")]
)
async def test_any_other_is_a_failure_that_is_told_with_what_it_said(
    service: HttpService, status: int, name: str
):
    service.answers = [says(status, "" if status == 304 else "not now")]

    async with action() as sending:
        tried = await sending.send(to(service.url))

    assert not tried.succeeded
    assert f"'{name}'" in tried.message
    assert status == 304 or tried.message.endswith("Body: not now")


async def test_the_request_is_what_the_job_says(service: HttpService):
    async with action() as sending:
        await sending.send(
            to(f"{service.url}/a%2db?c=%7e", "PUT", body="grüezi".encode(), **{"X-Color": "red"})
        )

    [asked] = service.asked
    assert (asked.method, asked.raw_path, await asked.text()) == ("PUT", "/a%2db?c=%7e", "grüezi")
    assert asked.headers["X-Color"] == "red"
    assert asked.headers["x-ms-scheduler-jobid"] == "j"
    assert asked.headers["Content-Length"] == "7"
    assert "Content-Type" not in asked.headers


async def test_a_redirect_is_followed_to_where_it_leads(service: HttpService):
    service.answers = [says(302, Location="/there"), says(200, "here")]

    async with action() as sending:
        tried = await sending.send(to(f"{service.url}/here", "POST", body=b"x"))

    assert tried.succeeded
    assert [(one.method, one.path) for one in service.asked] == [("POST", "/here"), ("GET", "/there")]


async def test_a_receiver_that_sends_in_circles_is_left_after_a_while(service: HttpService):
    service.answers = [says(307, Location="/again")]

    async with action() as sending:
        tried = await sending.send(to(service.url))

    assert "ProtocolError Too many automatic redirections were attempted." in tried.message
    assert len(service.asked) == 6


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://no-such-host.invalid/", "could not be resolved: 'no-such-host.invalid'"),
        (f"http://{HOST}:1/", f"host '{HOST}' failed: ConnectFailure Unable to connect"),
        (
            f"http://{'a' * 64}.example/",
            f"'{'a' * 64}.example' failed: UnknownError The address cannot be read",
        ),
        ("http://a\udcff/", "host 'a\ufffd' failed: UnknownError The address cannot be read"),
        ("ftp://a\udcff/", "host 'a\ufffd' failed: UnknownError The address is none of http or https"),
    ],
)
async def test_a_redirect_that_leads_nowhere_is_told_with_where_it_led(location: str, said: str):
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"

    async def leads_nowhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode("utf-8", "surrogateescape"))
        writer.close()

    server = await asyncio.start_server(leads_nowhere, HOST, 0)
    async with server, action() as sending:
        tried = await sending.send(to(f"http://localhost:{server.sockets[0].getsockname()[1]}/"))

    assert not tried.succeeded
    assert said in tried.message


async def test_a_receiver_that_hangs_costs_the_timeout(service: HttpService):
    service.answers = [never]

    async with action(SHORT) as sending:
        tried = await sending.send(to(service.url))

    assert tried.message == (
        f"Http Action - Request to host '{HOST}' failed: Timeout The operation has timed out"
    )


async def test_the_timeout_covers_all_redirects(service: HttpService):
    service.answers = [says(302, Location="/"), never]

    async with action(SHORT) as sending:
        tried = await sending.send(to(service.url))

    assert "Timeout" in tried.message


async def test_nobody_at_the_port_is_a_failure_to_connect():
    async with action() as sending:
        tried = await sending.send(to(f"http://{HOST}:{dead_port()}/"))

    assert tried.message.endswith("failed: ConnectFailure Unable to connect to the remote server")


async def test_a_name_that_nobody_knows_is_said():
    async with action() as sending:
        tried = await sending.send(to("http://no-such-host.invalid/"))

    assert tried.message.endswith(
        "NameResolutionFailure The remote name could not be resolved: 'no-such-host.invalid'"
    )


async def test_a_receiver_that_resets_the_connection_is_a_failure():
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(reset, HOST, 0)
    async with server, action() as sending:
        tried = await sending.send(to(f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"))

    assert not tried.succeeded
    assert "The underlying connection was closed" in tried.message


async def test_what_is_no_http_is_a_failure():
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"hello\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, HOST, 0)
    async with server, action() as sending:
        tried = await sending.send(to(f"http://{HOST}:{server.sockets[0].getsockname()[1]}/"))

    assert "ServerProtocolViolation" in tried.message


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = 100 * 1024 * MIB
    await response.prepare(request)
    while True:
        await response.write(b"x" * MIB)


async def test_a_receiver_that_answers_gigabytes_costs_a_few_kilobytes(service: HttpService):
    service.answers = [endless]
    async with action() as sending:
        tracemalloc.start()
        try:
            tried = await sending.send(to(service.url))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert tried.succeeded
    assert tried.message.endswith("Body: " + "x" * EXCERPT_LENGTH_MAX)
    assert most < 16 * MIB  # The receiver's own chunks are in it.


@pytest.mark.parametrize("repeated", ["{0}", "{0} {0} {0}", "x{0}"])
async def test_half_a_secret_at_the_end_of_what_is_read_is_hidden_too(service: HttpService, repeated: str):
    token = "t0ken-" + "y" * (EXCERPT_BYTES_MAX // 2 + 1)
    service.answers = [says(200, repeated.format(token) * 2)]
    request = dataclasses.replace(to(service.url), hidden=(token,))

    async with action() as sending:
        tried = await sending.send(request)

    assert "[hidden]" in tried.message
    assert "t0ken" not in tried.message


@pytest.mark.parametrize(
    ("sent", "shown"), [("so far", "so far"), ("you said t0k", "you said t0k"), ("a t0ken", "a [hidden]")]
)
async def test_a_body_that_dribbles_is_not_waited_for_and_half_a_secret_in_it_is_hidden(
    service: HttpService, monkeypatch: pytest.MonkeyPatch, sent: str, shown: str
):
    async def dribbling(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(sent.encode())
        return await never(request)

    monkeypatch.setattr(http_action, "EXCERPT_SECONDS_MAX", 0.1)
    service.answers = [dribbling]
    async with action() as sending:
        tried = await sending.send(dataclasses.replace(to(service.url), hidden=("t0ken-yy",)))

    assert tried.succeeded
    assert tried.message.endswith(f"Body: {shown}")


async def test_text_in_an_unknown_charset_is_read_as_well_as_it_goes(service: HttpService):
    service.answers = [says(200, "é", Content_Type="text/plain; charset=unicode_escape")]

    async with action() as sending:
        assert (await sending.send(to(service.url))).message.endswith("Body: é")


async def test_connections_are_bounded_and_used_again(service: HttpService):
    async with action(connections=2) as sending:
        await asyncio.gather(*(sending.send(to(service.url)) for _ in range(20)))

        assert service.inside_most <= 2
        assert service.open_connections <= 2


async def test_an_attempt_is_one_request_and_receivers_are_not_told_of_one_anothers_cookies():
    heard: list[bytes] = []

    async def answers_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The second request on a connection is heard, and the line goes dead.
        while head := await reader.readuntil(b"\r\n\r\n"):
            heard.append(head)
            if len(heard) == 2:
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: session=abc; Path=/\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answers_once, HOST, 0)
    # Of an address in numbers aiohttp would keep no cookie anyway.
    url = f"http://localhost:{server.sockets[0].getsockname()[1]}/"
    async with server, action() as sending:
        first, second = await sending.send(to(url)), await sending.send(to(url))

    assert (first.succeeded, second.succeeded) == (True, False)
    assert "ConnectionClosed" in second.message
    assert len(heard) == 2
    assert b"session=abc" not in heard[1]


async def test_what_an_answer_repeats_of_a_secret_in_its_headers_is_hidden(service: HttpService):
    service.answers = [says(200, "", X_Echo="you said t0ken")]

    async with action() as sending:
        tried = await sending.send(dataclasses.replace(to(service.url), hidden=("t0ken",)))

    assert "X-Echo: you said [hidden]" in tried.message
    assert "t0ken" not in tried.message


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0, ssl=context)
    async with server, action() as sending:
        tried = await sending.send(to(f"https://localhost:{server.sockets[0].getsockname()[1]}/"))

    assert "TrustFailure" in tried.message


# Who gives tokens


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (never, "Timeout The operation has timed out"),
        (endless, "The answer holds no token"),
        (says(307, Location="/elsewhere"), "'TemporaryRedirect'"),
        (says(500, "hunter2"), "'InternalServerError'"),
    ],
)
async def test_an_authority_that_misbehaves_costs_the_attempt_and_the_secret_goes_nowhere_else(
    service: HttpService, answer: Answer, said: str
):
    service.answers = [answer]

    async with http_service() as receiver, action(timedelta(seconds=1), authority=service.url) as sending:
        tried = await sending.send(to(receiver.url), GRANT)

    assert tried.message.endswith(f"no token came from '{HOST}': {said}")
    assert [one.path for one in service.asked] == ["/t/oauth2/token"]
    assert receiver.asked == []


async def test_an_authority_is_reached_only_where_requests_may_go(service: HttpService):
    async with action(authority=service.url, allow="private") as sending:
        tried = await sending.send(to("http://10.0.0.1/"), GRANT)

    assert ADDRESS_REFUSED in tried.message
    assert service.asked == []
