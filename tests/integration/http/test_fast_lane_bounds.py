"""What the fast lane does while it waits: for a commit, for the rest of a body, for room."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from backstay import App, observe
from backstay.errors import StoreUnavailable
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.posting import PostingLog
from backstay.messaging.stream import Log
from backstay.runtime import fast_lane, protocol
from backstay.runtime.fast_lane import FastProtocol
from backstay.store.base import Store
from backstay.web import bodies
from tests.integration.http.conftest import Serve
from tests.integration.http.test_fast_lane import EVENTS, HEALTH, LAST, request
from tests.support.running import comes_true
from tests.support.serving import HOST, Served, serving
from tests.support.wires import heard


@pytest.fixture
async def orders(served: Served) -> Served:
    assert (await served.put("/v1/streams/orders", {"partitions": 2})).status == 201
    return served


def taken(served: Served) -> int:
    assert served.fast_lane is not None
    return served.fast_lane.taken


async def bodies_in(served: Served) -> list[Any]:
    pages = [await served.get(f"/v1/streams/orders/partitions/{number}/events") for number in range(2)]
    return sorted(item["body"] for page in pages for item in page.json["items"])


class Held:
    """A log whose commits are not told before the test says so."""

    def __init__(self, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.posted = 0
        self._told: list[Callable[[], None]] = []
        self._post = log.post
        monkeypatch.setattr(log, "post", self._hold)

    def _hold(self, stream: str, events: Any, settle: Any, **options: Any) -> None:
        self.posted += 1
        self._post(stream, events, lambda answers: self._told.append(partial(settle, answers)), **options)

    async def let_go(self, number: int = 1) -> None:
        await comes_true(lambda: len(self._told) >= number)
        told, self._told = self._told, []
        for one in told:
            one()


@pytest.fixture
def held(orders: Served, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(log, monkeypatch)


@asynccontextmanager
async def wire(served: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, served.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        assert found is not None
        await reader.readexactly(int(found[1]))
        return int(head.split()[1])


# Only what is durable is accepted


async def test_nothing_is_answered_before_it_is_durable(orders: Served, held: Held):
    async with wire(orders) as (reader, writer):
        writer.write(request())
        await comes_true(lambda: held.posted == 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)

        await held.let_go()
        assert await status_of(reader) == 202


async def test_what_the_log_could_not_write_is_told_and_not_tried_again(
    orders: Served, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
):
    def fails(_stream: str, _events: Any, settle: Any, **_options: Any) -> None:
        settle(StoreUnavailable("/secret/place/streams.db does not answer"))

    with monkeypatch.context() as patched:
        patched.setattr(log, "post", fails)
        one = await orders.post(EVENTS, 1)
        lines = await orders.post(EVENTS, data=b'{"body": 2}', Content_Type="application/x-ndjson")
    after = await orders.post(EVENTS, 3)

    for refused in (one, lines):
        assert (refused.status, refused.problem, refused.headers["Retry-After"]) == (503, "unavailable", "1")
        assert b"secret" not in refused.body
    assert after.status == 202
    assert await bodies_in(orders) == [3]


async def test_what_is_appended_is_counted(orders: Served):
    before = observe.appended["orders"]
    await heard(orders, [request(query="?id=a") + request(query="?id=a") + LAST])

    assert taken(orders) == 2
    assert observe.appended["orders"] == before + 1


# Who sends faster than we work is not read


async def test_behind_a_request_that_is_under_way_nothing_more_is_read(
    orders: Served, held: Held, monkeypatch: pytest.MonkeyPatch
):
    connections: list[FastProtocol] = []
    made = FastProtocol.connection_made

    def remembered(connection: FastProtocol, transport: asyncio.Transport) -> None:
        made(connection, transport)
        connections.append(connection)

    monkeypatch.setattr(FastProtocol, "connection_made", remembered)
    number = 20_000
    async with wire(orders) as (reader, writer):
        writer.write(request() + HEALTH * number)
        await comes_true(lambda: held.posted == 1)
        [connection] = connections
        await comes_true(lambda: not connection.transport.is_reading())

        await held.let_go()
        assert await status_of(reader) == 202
        assert [await status_of(reader) for _ in range(100)] == [200] * 100


async def test_while_the_log_has_no_room_the_layers_wait_for_it(
    orders: Served, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
):
    room = asyncio.Event()
    assert log._writer is not None
    monkeypatch.setattr(log._writer, "has_room", room.is_set)
    monkeypatch.setattr(log._writer, "room", room.wait)
    async with wire(orders) as (reader, writer):
        writer.write(request())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        room.set()
        assert await status_of(reader) == 202
        assert taken(orders) == 0

        writer.write(request())
        assert await status_of(reader) == 202
        assert taken(orders) == 1


async def test_only_so_many_requests_may_be_under_way_by_both_lanes_together(
    serve: Serve, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
):
    async with serve(connections_max=1) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        held = Held(log, monkeypatch)
        async with wire(served) as (reader, writer), wire(served) as (other, writing):
            writer.write(request())
            await comes_true(lambda: held.posted == 1)
            for one in (request(), HEALTH.replace(b"/healthz", b"/v1/tasks")):
                writing.write(one)
                assert await status_of(other) == 503
            await held.let_go()
            assert await status_of(reader) == 202

            writing.write(request())
            await held.let_go()
            assert await status_of(other) == 202


# Those who leave, and those who are slow


async def test_who_hangs_up_is_told_nothing_and_the_event_stays(orders: Served, held: Held):
    async with wire(orders) as (_, writer):
        writer.write(request(b'"left"'))
        await comes_true(lambda: held.posted == 1)
        writer.transport.abort()
    async with wire(orders) as (_, writer):
        writer.write(request(b'"closed"'))
        writer.write_eof()
        await comes_true(lambda: held.posted == 2)
    await held.let_go(2)

    assert await bodies_in(orders) == ["closed", "left"]


async def test_who_leaves_in_the_midst_of_a_body_leaves_nothing(orders: Served):
    async with wire(orders) as (reader, writer):
        writer.write(request(b'"never whole"')[:-3])
        writer.write_eof()
        assert await reader.read() == b""

    assert await bodies_in(orders) == []


async def test_the_rest_of_a_body_is_waited_for(orders: Served):
    text = request(b'"in two pieces"')
    async with wire(orders) as (reader, writer):
        for _ in range(2):
            writer.write(text[:-5])
            await asyncio.sleep(0.02)
            writer.write(text[-5:])
            assert await status_of(reader) == 202

    assert taken(orders) == 2


async def test_a_body_that_does_not_come_is_left_to_the_layers(
    orders: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fast_lane, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)
    text = request(b'"slow"')
    async with wire(orders) as (reader, writer):
        writer.write(text[:-3])
        await asyncio.sleep(0.1)
        writer.write(text[-3:])
        assert await status_of(reader) == 202
        writer.write(text[:-3])
        assert await status_of(reader) == 408

    assert taken(orders) == 0
    assert await bodies_in(orders) == ["slow"]


async def test_who_does_not_read_their_answers_is_not_read_forever(orders: Served):
    async with wire(orders) as (reader, writer):
        transport: Any = writer.transport
        transport.pause_reading()
        number = 3_000
        writer.write(request(b"1") * number)
        await asyncio.sleep(0.2)
        transport.resume_reading()

        assert [await status_of(reader) for _ in range(number)] == [202] * number


async def test_each_answer_gives_time_for_another_request_and_no_more(
    orders: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    async with wire(orders) as (reader, writer):
        for _ in range(4):
            await asyncio.sleep(0.2)
            writer.write(request())
            assert await status_of(reader) == 202
        assert taken(orders) == 4

        assert await asyncio.wait_for(reader.read(), 5) == b""


# Stopping


async def test_a_request_that_is_under_way_is_answered_before_the_server_stops(
    serve: Serve, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
):
    held = Held(log, monkeypatch)
    async with serve() as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        reader, writer = await asyncio.open_connection(HOST, served.port)
        idle, idling = await asyncio.open_connection(HOST, served.port)
        writer.write(request())
        await comes_true(lambda: held.posted == 1)
        asyncio.get_running_loop().call_later(0.1, asyncio.create_task, held.let_go())

    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 202 Accepted\r\n")
    assert b"\r\nconnection: close\r\n" in answer
    assert await idle.read() == b""
    for one in (writer, idling):
        one.close()


# Logs that cannot be posted to


class Unposted:
    """A log with the verbs of ``Log`` and no others."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        if name in ("post", "has_room", "room"):
            raise AttributeError(name)
        return getattr(self._log, name)


async def test_a_log_that_cannot_be_posted_to_is_appended_to(store: Store, log: Log, app: App):
    unposted: Any = Unposted(log)
    assert not isinstance(unposted, PostingLog)
    async with serving(store, app.registry, log=unposted) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})
        unknown = await served.post(EVENTS.replace("orders", "unknown"), 1)
        twice = [await served.post(f"{EVENTS}?id=a", number) for number in (1, 2)]

        assert unknown.status == 404
        assert [one.status for one in twice] == [202, 409]
        assert taken(served) == 3


async def test_without_the_fast_lane_everything_goes_through_the_layers(serve: Serve):
    async with serve(fast_lane=False) as served:
        await served.put("/v1/streams/orders", {"partitions": 2})

        assert served.fast_lane is None
        assert (await served.post(EVENTS, 1)).status == 202


async def test_a_declared_stream_is_made_by_the_first_event(store: Store, log: Log):
    app = App("shop")
    app.stream("orders", partitions=2)
    async with serving(store, app.registry, log=log) as served:
        assert [(await served.post(EVENTS, 1)).status for _ in range(3)] == [202] * 3
        assert taken(served) > 0
