"""What one connection may take, and how many may be open, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from backstay.runtime import protocol
from backstay.runtime.protocol import HEAD_BYTES_MAX, PIECE_BYTES
from tests.integration.http.conftest import Serve
from tests.support.serving import HOST, Served

FIRST_LINE = b"GET /healthz HTTP/1.1\r\n"
HEAD = FIRST_LINE + f"Host: {HOST}\r\n\r\n".encode()


class Wire:
    """A connection on which every byte is ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def status(self) -> int:
        """The status of the next answer, which is read to its end."""
        async with asyncio.timeout(5):
            head = await self._reader.readuntil(b"\r\n\r\n")
            [length] = [
                int(line.partition(b":")[2])
                for line in head.splitlines()
                if line.lower().startswith(b"content-length:")
            ]
            await self._reader.readexactly(length)
        return int(head.split()[1])

    async def is_closed(self, *, within: float = 5) -> bool:
        """Whether the server closes it in time, with nothing more to say."""
        try:
            async with asyncio.timeout(within):
                return await self._reader.read(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


@asynccontextmanager
async def wire(served: Served) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


# How long a head may be


def long_header(size: int) -> bytes:
    return b"X-Long: " + b"x" * size


def many_headers(size: int) -> bytes:
    line = b"X-Many: xxxxxxxxxxxxxxxxxxxxxxx\r\n"
    return line * (size // len(line))


@pytest.mark.parametrize("endless", [long_header, many_headers])
async def test_a_head_that_does_not_end_is_refused(served: Served, endless: Any):
    async with wire(served) as one:
        await one.send(FIRST_LINE + endless(HEAD_BYTES_MAX + PIECE_BYTES))

        assert await one.status() == 431
        assert await one.is_closed()


async def test_a_head_that_is_too_long_is_refused_although_it_comes_at_once_and_ends(served: Served):
    async with wire(served) as one:
        await one.send(FIRST_LINE + long_header(HEAD_BYTES_MAX + 2 * PIECE_BYTES) + b"\r\n\r\n")

        assert await one.status() == 431


async def test_a_head_may_be_as_long_as_it_may(served: Served):
    async with wire(served) as one:
        for _ in range(3):
            await one.send(FIRST_LINE + long_header(HEAD_BYTES_MAX - 1024) + b"\r\n\r\n")
            assert await one.status() == 200


async def test_trailers_that_do_not_end_are_cut_off(served: Served):
    async with wire(served) as one:
        await one.send(
            f"POST /v1/tasks HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".encode()
        )
        await one.send(many_headers(2 * HEAD_BYTES_MAX))

        assert await one.is_closed()


async def test_a_body_is_no_head(served: Served):
    answer = await served.post("/v1/tasks", {"workflow": "anything", "input": "x" * 4 * HEAD_BYTES_MAX})

    assert answer.status == 202


# How long a head may take


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("begun", [b"", b"\r\n", FIRST_LINE, HEAD + FIRST_LINE])
async def test_a_connection_without_a_request_is_closed(served: Served, begun: bytes):
    async with wire(served) as one:
        await one.send(begun)
        if begun.startswith(HEAD):
            assert await one.status() == 200

        assert await one.is_closed(within=2)


@pytest.mark.usefixtures("hurried")
async def test_who_sends_a_head_byte_by_byte_gains_no_time(served: Served):
    async with wire(served) as one:

        async def trickle() -> None:
            for byte in HEAD + HEAD:
                await one.send(bytes([byte]))
                await asyncio.sleep(0.1)

        trickling = asyncio.create_task(trickle())
        assert await one.is_closed(within=2)
        trickling.cancel()


@pytest.mark.usefixtures("hurried")
async def test_each_answer_gives_time_for_another_request(served: Served):
    async with wire(served) as one:
        for _ in range(4):
            await asyncio.sleep(0.15)
            await one.send(HEAD)
            assert await one.status() == 200


@pytest.mark.usefixtures("hurried")
async def test_a_request_that_is_under_way_takes_as_long_as_it_takes(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    async def slowly(*, at_most: int) -> int:
        await asyncio.sleep(0.6)
        return at_most

    monkeypatch.setattr(served.store, "backlog", slowly)
    async with wire(served) as one:
        await one.send(HEAD.replace(b"healthz", b"readyz"))

        assert await one.status() == 200


async def test_requests_that_come_together_are_answered_in_turn(served: Served):
    async with wire(served) as one:
        await one.send(HEAD * 3)

        assert [await one.status() for _ in range(3)] == [200, 200, 200]


# How many


@pytest.fixture
def reserve(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("tests.support.serving.CONNECTIONS_IN_RESERVE", 2)
    return 2


async def test_silent_connections_keep_nobody_from_asking(serve: Serve, reserve: int):
    async with serve(connections_max=3) as served, AsyncExitStack() as stack:
        for _ in range(3 + reserve - 1):
            await stack.enter_async_context(wire(served))

        assert (await served.get("/healthz")).status == 200
        assert (await served.get("/v1/tasks")).status == 200


async def test_only_so_many_connections_may_be_open(serve: Serve, reserve: int):
    async with serve(connections_max=3) as served:
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(wire(served)) for _ in range(3 + reserve)]
            one_more = await stack.enter_async_context(wire(served))
            assert await one_more.is_closed()
            await opened[-1].send(HEAD)
            assert await opened[-1].status() == 200
        await asyncio.sleep(0.05)

        assert (await served.get("/healthz")).status == 200


async def test_only_so_many_requests_may_be_under_way_and_health_is_told_all_the_same(serve: Serve):
    async with serve(connections_max=2) as served, AsyncExitStack() as stack:
        await served.put("/v1/tasks/t", {"workflow": "anything"})
        for _ in range(2):
            watching = served.session.get(f"{served.url}/v1/tasks/t/events")
            assert (await stack.enter_async_context(watching)).status == 200

        refused = await served.get("/v1/tasks")
        assert (refused.status, refused.problem, refused.headers["Retry-After"]) == (503, "busy", "1")
        assert "connections_max" in refused.detail
        assert refused.headers["X-Content-Type-Options"] == "nosniff"
        for path in ("/healthz", "/readyz"):
            assert (await served.get(path)).status == 200


async def test_what_has_been_answered_makes_room(serve: Serve):
    async with serve(connections_max=1) as served:
        statuses = [(await served.get(path)).status for path in ("/v1/tasks", "/nowhere", "/v1/tasks")]

        assert statuses == [200, 404, 200]
