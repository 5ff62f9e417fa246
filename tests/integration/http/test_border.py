"""What holds for every answer, and what becomes of requests that lead nowhere."""

from __future__ import annotations

import asyncio
import logging
import re

import aiohttp
import pytest

from backstay.api.routes import ROUTES
from backstay.errors import StoreFull, StoreUnavailable
from backstay.web.problems import STORE_AWAY
from tests.support.serving import HOST, Served

STORE = "postgresql://me@10.0.0.7/shop"
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
}


@pytest.mark.parametrize("path", ["/v1/tasks", "/healthz", "/docs", "/metrics", "/nowhere", "/v1/tasks/none"])
async def test_every_answer_has_the_security_headers(served: Served, path: str):
    answer = await served.get(path)

    assert {name: answer.headers[name] for name in SECURITY} == SECURITY
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["//", "/v1", "/v1/", "/v1/tasks/", "/v2/tasks", "/V1/tasks", "//v1/tasks", "/v1//tasks", "/v1/t%61sks"],
)
async def test_a_path_that_leads_nowhere_is_a_problem(served: Served, path: str):
    assert await served.exactly("GET", path) == 404
    assert (await served.get("/nowhere")).problem == "unknown-path"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/tasks", "GET, HEAD, POST"),
        ("PATCH", "/v1/tasks/t", "GET, HEAD, PUT"),
        ("OPTIONS", "/v1/tasks", "GET, HEAD, POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("GET", "/v1/tasks/t/cancel", "POST"),
        ("HEAD", "/v1/tasks/t/cancel", "POST"),
        ("PROPFIND", "/v1/tasks", "GET, HEAD, POST"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_refused_with_those_it_does(
    served: Served, method: str, path: str, allowed: str
):
    answer = await served.ask(method, path)

    assert (answer.status, answer.headers["Allow"]) == (405, allowed)


async def test_head_says_what_get_would(served: Served):
    await served.put("/v1/tasks/t", {"workflow": "anything"})
    await served.put("/v1/queues/q")
    await served.put("/v1/streams/s")
    names = {"id": "t", "queue": "q", "stream": "s", "partition": 0}
    paths = [route.path.format_map(names) for route in ROUTES if route.method == "GET"]

    for path in (path for path in paths if path != "/v1/tasks/t/events"):
        got, head = await served.get(path), await served.ask("HEAD", path)
        assert (head.status, head.body) == (got.status, b"") == (200, b""), path
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        if path != "/metrics":
            assert head.headers["Content-Length"] == got.headers["Content-Length"], path


async def test_an_encoded_slash_is_part_of_a_name(served: Served):
    await served.put("/v1/tasks/t", {"workflow": "anything"})

    assert await served.exactly("GET", "/v1/tasks/t/steps") == 200
    assert await served.exactly("GET", "/v1/tasks/t%2Fsteps") == 422
    assert await served.exactly("GET", "/v1/tasks%2Ft") == 404
    assert await served.exactly("GET", "/v1/tasks/%ff") == 422


async def test_a_mistake_of_ours_tells_nothing_and_is_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def fails(_task_id: str) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(served.store, "task", fails)
    with caplog.at_level(logging.ERROR, logger="backstay"):
        answer = await served.get("/v1/tasks/t")

    assert (answer.status, answer.problem) == (500, "internal")
    assert b"secret" not in answer.body
    [record] = caplog.records
    assert record.exc_info is not None
    assert "the secret of the house" in str(record.exc_info[1])


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (StoreUnavailable(f"{STORE} does not answer"), "unavailable"),
        (StoreFull(f"{STORE}: disk full"), "store-full"),
    ],
)
async def test_a_store_that_is_away_means_try_again(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    problem: str,
):
    async def fails(_task_id: str) -> None:
        raise error

    monkeypatch.setattr(served.store, "task", fails)
    with caplog.at_level(logging.WARNING, logger="backstay"):
        answer = await served.get("/v1/tasks/t")

    assert (answer.status, answer.problem, answer.headers["Retry-After"]) == (503, problem, "1")
    assert answer.detail == STORE_AWAY
    [record] = caplog.records
    assert "postgresql://me@10.0.0.7/shop" in record.getMessage()


async def test_who_is_not_let_in_does_not_learn_where_the_store_is(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    async def fails(_records: object) -> None:
        raise StoreUnavailable(f"{STORE} does not answer")

    monkeypatch.setattr(type(served.store.records), "tokens", fails)
    answer = await served.get("/v1/tasks")

    assert (answer.status, answer.detail) == (503, STORE_AWAY)


async def test_a_body_that_never_comes_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.web.bodies.BODY_SECONDS", 0.05)

    status = await served.exactly("POST", "/v1/tasks", "Content-Type: application/json", "Content-Length: 10")

    assert status == 408


async def test_who_goes_away_while_sending_a_body_does_no_harm(
    served: Served, caplog: pytest.LogCaptureFixture
):
    _, writer = await asyncio.open_connection(HOST, served.port)
    writer.write(f"POST /v1/tasks HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10\r\n\r\n".encode())
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.05)

    assert (await served.get("/v1/tasks")).json["items"] == []
    assert caplog.records == []


async def test_there_are_no_web_sockets(served: Served):
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await served.session.ws_connect(f"{served.url}/v1/tasks")


async def test_many_at_once_are_all_answered(served: Served):
    async def enter(number: int) -> int:
        return (await served.put(f"/v1/tasks/t{number}", {"workflow": "anything"})).status

    assert await asyncio.gather(*(enter(number) for number in range(200))) == [201] * 200


async def test_an_error_does_not_end_the_connection(served: Served):
    reader, writer = await asyncio.open_connection(HOST, served.port)
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    for _ in range(3):
        writer.write(f"{head}Content-Length: 1\r\n\r\n{{".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: ([0-9]+)", answer)
        assert answer.startswith(b"HTTP/1.1 400")
        await reader.readexactly(int(length))
    writer.close()
    await writer.wait_closed()
