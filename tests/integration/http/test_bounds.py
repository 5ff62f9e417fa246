"""What one connection may take, and how many may be open, on real sockets."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from backstay.runtime import protocol
from backstay.runtime.protocol import HEAD_BYTES_MAX, PIECE_BYTES, BoundedProtocol
from tests.integration.http.conftest import Serve
from tests.support.running import comes_true, eventually
from tests.support.serving import HOST, Answer, Served

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
        return (await self.answer()).status

    async def answer(self) -> Answer:
        async with asyncio.timeout(5):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.rstrip().split("\r\n")
            headers = {name.title(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = await self._reader.readexactly(int(headers["Content-Length"]))
        return Answer(int(status_line.split()[1]), headers, body)

    def leave(self) -> None:
        self._writer.close()

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


@pytest.fixture
async def crowded(serve: Serve, reserve: int) -> AsyncIterator[tuple[Served, list[Wire]]]:
    """A server with as many connections as there may be, none of which says anything."""
    async with serve(connections_max=3) as served, AsyncExitStack() as stack:
        yield served, [await stack.enter_async_context(wire(served)) for _ in range(3 + reserve)]


LIST = HEAD.replace(b"/healthz", b"/v1/tasks")

Crowd = tuple[Served, list[Wire]]


async def test_past_the_limit_of_connections_a_request_is_told_to_come_again(crowded: Crowd):
    served, before = crowded
    async with wire(served) as one_more:
        await one_more.send(LIST)
        refused = await one_more.answer()

        assert (refused.status, refused.problem, refused.headers["Retry-After"]) == (503, "busy", "1")
        assert "connections_max" in refused.detail
        for one in before:
            await one.send(LIST)
            assert await one.status() == 200


async def test_past_the_limit_of_connections_health_is_told_all_the_same(crowded: Crowd):
    served, _ = crowded
    async with wire(served) as one_more:
        for path in (b"/healthz", b"/readyz"):
            await one_more.send(HEAD.replace(b"/healthz", path))
            assert await one_more.status() == 200


async def test_who_came_too_late_hears_of_it_although_their_body_is_still_under_way(crowded: Crowd):
    served, _ = crowded
    async with wire(served) as one_more:
        await one_more.send(
            f"POST /v1/tasks HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000000\r\n\r\n".encode()
        )
        assert await one_more.status() == 503

        await one_more.send(b"x" * 1_000_000 + HEAD)
        assert await one_more.status() == 200


async def test_who_came_too_late_is_served_once_others_have_left(crowded: Crowd):
    served, before = crowded
    async with wire(served) as one_more:
        await one_more.send(LIST)
        assert await one_more.status() == 503

        before[0].leave()

        async def asked_again() -> int:
            await one_more.send(LIST)
            return await one_more.status()

        assert await eventually(asked_again, lambda status: status == 200)


async def test_who_came_too_late_and_says_nothing_does_not_stay(
    crowded: Crowd, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocol, "CROWDED_HEAD_SECONDS", 0.1)
    served, before = crowded
    async with wire(served) as one_more:
        assert await one_more.is_closed(within=2)
        await before[0].send(HEAD)
        assert await before[0].status() == 200


async def test_beyond_a_hard_bound_a_connection_is_closed_at_once(
    crowded: Crowd, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocol, "CONNECTIONS_TURNED_AWAY", 1)
    served, _ = crowded
    async with wire(served) as turned_away, wire(served) as one_more:
        assert await one_more.is_closed()
        await turned_away.send(HEAD)
        assert await turned_away.status() == 200


# Who sends faster than we work is not read


class Slow:
    """Answers requests one by one, when the test says so, and sees what the protocol has taken in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
        self.go_on = asyncio.Event()
        self.asked = 0
        self.connections: list[BoundedProtocol] = []
        made = BoundedProtocol.connection_made

        def remembered(connection: BoundedProtocol, transport: asyncio.Transport) -> None:
            made(connection, transport)
            self.connections.append(connection)

        async def backlog(*, at_most: int) -> int:
            self.asked += 1
            await self.go_on.wait()
            return 0

        monkeypatch.setattr(BoundedProtocol, "connection_made", remembered)
        monkeypatch.setattr(served.store, "backlog", backlog)


@pytest.fixture
def slow(served: Served, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(monkeypatch, served)


POST = f"POST /v1/tasks HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n".encode()


async def test_of_requests_behind_one_that_is_under_way_few_are_read(served: Served, slow: Slow):
    body, number, few = b'{"workflow": "anything"}', 8_000, PIECE_BYTES // len(HEAD) + 1
    async with wire(served) as one:
        sending = asyncio.create_task(
            one.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + HEAD * number)
        )
        await comes_true(lambda: slow.asked == 1)
        await asyncio.sleep(0.1)
        [connection] = slow.connections
        assert len(connection.pipeline) <= few
        assert not connection.transport.is_reading()

        slow.go_on.set()
        assert await one.status() == 202
        for _ in range(number):
            assert await one.status() == 200
            assert len(connection.pipeline) <= few
        await sending


async def test_a_body_behind_a_request_that_is_under_way_is_not_read(served: Served, slow: Slow):
    size = 1_000_000
    body = b'{"workflow": "anything", "input": "%s"}' % (b"x" * size)
    async with wire(served) as one:
        sending = asyncio.create_task(
            one.send((POST + b"Content-Length: %d\r\n\r\n" % len(body) + body) * 2 + HEAD)
        )
        await comes_true(lambda: slow.asked == 1)
        await asyncio.sleep(0.1)
        [connection] = slow.connections
        [(waiting, _)] = connection.pipeline
        assert len(waiting.body) <= PIECE_BYTES
        assert not connection.transport.is_reading()

        slow.go_on.set()
        assert [await one.status() for _ in range(3)] == [202, 202, 200]
        await sending


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


# What is left of a connection that is closed


@pytest.fixture
def nobody_looks_for_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def connections_held() -> int:
    return sum(isinstance(one, BoundedProtocol) for one in gc.get_objects())


@pytest.mark.usefixtures("nobody_looks_for_garbage")
async def test_a_connection_that_was_answered_is_let_go_with_its_end(served: Served):
    async with wire(served) as one:
        for _ in range(2):
            await one.send(HEAD)
            assert await one.status() == 200
        assert connections_held() == 1

    await comes_true(lambda: connections_held() == 0)


@pytest.mark.usefixtures("nobody_looks_for_garbage")
async def test_a_connection_that_is_left_before_the_answers_is_let_go_with_the_request_that_is_under_way(
    served: Served, slow: Slow
):
    body = b'{"workflow": "anything"}'
    async with wire(served) as one:
        await one.send(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + HEAD * 3)
        await comes_true(lambda: slow.asked == 1)
    slow.connections.clear()
    assert connections_held() == 1

    slow.go_on.set()
    await comes_true(lambda: connections_held() == 0)
