"""The producer: events in batches that make themselves, each told what became of it."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from backstay import BackstayError, Event, EventConflict, InvalidRequest, Producer, Unavailable, UnknownStream
from backstay.domain.access import Role
from backstay.errors import Closed, InvalidInput
from backstay.producing import lane
from tests.integration.http.conftest import Serve
from tests.support.running import comes_true, eventually
from tests.support.service import HttpService, http_service, says
from tests.support.serving import Served


@pytest.fixture
async def orders(served: Served) -> Served:
    await served.put("/v1/streams/orders", {"partitions": 4})
    return served


async def everything_in(served: Served, stream: str = "orders") -> list[Any]:
    found = []
    for partition in (await served.get(f"/v1/streams/{stream}")).json["partitions"]:
        path = f"/v1/streams/{stream}/partitions/{partition['partition']}/events?limit=1000"
        found += (await served.get(path)).json["items"]
    return found


def accepted(number: int) -> str:
    return json.dumps({"accepted": number, "rejected": 0, "ranges": [], "errors": []})


class Gate:
    """A server that takes whatever comes, when it is told to; it remembers the batches."""

    def __init__(self, service: HttpService) -> None:
        self.batches: list[list[Any]] = []
        self.open = asyncio.Event()
        self.open.set()
        service.answers = [self.answer]

    async def answer(self, request: web.Request) -> web.Response:
        lines = [json.loads(line) for line in (await request.read()).splitlines()]
        self.batches.append(lines)
        await self.open.wait()
        return web.Response(status=202, text=accepted(len(lines)))


@pytest.fixture
async def service() -> Any:
    async with http_service() as service:
        yield service


@pytest.fixture
def gate(service: HttpService) -> Gate:
    return Gate(service)


# What becomes of an event


async def test_an_event_is_durable_once_it_is_sent(orders: Served):
    async with Producer(orders.url, stream="orders") as producer:
        made = await producer.send({"order": 7}, key="ann", headers={"trace": "t1"})
        named = await producer.send(None, id="e1")

        assert named == "e1"
        found = {one["id"]: one for one in await everything_in(orders)}
        assert found[made].items() >= {"body": {"order": 7}, "key": "ann", "headers": {"trace": "t1"}}.items()
        assert found["e1"]["body"] is None


async def test_each_event_is_told_what_is_wrong_with_it_and_no_other_is(orders: Served):
    async with Producer(orders.url, stream="orders") as producer:
        await producer.send(1, id="taken")
        outcomes = await asyncio.gather(
            producer.send("x", id="a"),
            producer.send(2, id="taken"),
            producer.send(3, id="b"),
            producer.send(float("nan")),
            producer.send(1, id="not an id"),
            producer.send(1, key=""),
            producer.send("x" * 2_000_000, id="large"),
            return_exceptions=True,
        )

    assert (outcomes[0], outcomes[2]) == ("a", "b")
    kinds = [type(one) for one in outcomes]
    assert kinds[1] is EventConflict
    assert all(issubclass(kind, InvalidRequest) for kind in kinds[3:])
    assert "'large'" in str(outcomes[6])
    assert {one["id"] for one in await everything_in(orders)} == {"taken", "a", "b"}


async def test_when_all_are_refused_each_is_told_as_well(orders: Served):
    async with Producer(orders.url, stream="orders") as producer:
        await producer.send(1, id="taken")
        with pytest.raises(EventConflict):
            await producer.send(2, id="taken")


async def test_many_are_sent_in_their_order_with_an_outcome_each(orders: Served):
    events = [Event(body=number, key=f"k{number % 7}", id=f"e{number}") for number in range(2_500)]
    wrong = Event(body=1, key="")

    async with Producer(orders.url, stream="orders", in_flight=300) as producer:
        outcomes = await producer.send_all([*events, wrong])

    assert outcomes[:-1] == [f"e{number}" for number in range(2_500)]
    assert isinstance(outcomes[-1], InvalidInput)
    bodies: dict[str, list[int]] = defaultdict(list)
    for partition in range(4):
        start: int | None = 0
        while start is not None:
            page = (
                await orders.get(f"/v1/streams/orders/partitions/{partition}/events?from={start}&limit=1000")
            ).json
            for one in page["items"]:
                bodies[one["key"]].append(one["body"])
            start = page["next"]
    assert dict(bodies) == {f"k{key}": list(range(key, 2_500, 7)) for key in range(7)}


async def test_an_unknown_stream_is_told(served: Served):
    async with Producer(served.url, stream="orders") as producer:
        with pytest.raises(UnknownStream):
            await producer.send(1)


async def test_a_token_opens_the_door_and_stands_in_no_error(orders: Served):
    secret = await orders.token("producer", Role.SUBMIT)
    reader = await orders.token("reader", Role.READ)

    async with Producer(orders.url, stream="orders", token=secret) as producer:
        await producer.send(1)
    async with Producer(orders.url, stream="orders", token=reader) as producer:
        with pytest.raises(InvalidRequest, match="needs the role submit") as refused:
            await producer.send(1)
    assert reader not in str(refused.value)


# Batches


async def test_nothing_waits_while_nothing_is_under_way_and_meanwhile_the_next_batch_gathers(
    service: HttpService, gate: Gate
):
    gate.open.clear()
    async with Producer(service.url, stream="orders") as producer:
        first = asyncio.create_task(producer.send(0))
        await comes_true(lambda: len(gate.batches) == 1)
        others = [asyncio.create_task(producer.send(number)) for number in range(1, 6)]
        await asyncio.sleep(0.05)
        assert len(gate.batches) == 1  # One at a time: so they stay in order.

        gate.open.set()
        await asyncio.gather(first, *others)

    assert [[line["body"] for line in batch] for batch in gate.batches] == [[0], [1, 2, 3, 4, 5]]
    assert service.headers("Content-Type") == ["application/x-ndjson"] * 2


async def test_a_batch_is_bounded_in_events_and_in_bytes(
    service: HttpService, gate: Gate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lane, "BATCH_EVENTS_MAX", 4)
    monkeypatch.setattr(lane, "BATCH_BYTES_MAX", 1_000)
    async with Producer(service.url, stream="orders") as producer:
        await producer.send_all([Event(body=number) for number in range(10)])
        await producer.send_all([Event(body="x" * size) for size in (400, 400, 400, 5_000, 10)])

    sizes = [len(batch) for batch in gate.batches]
    assert sizes[:3] == [4, 4, 2]
    assert [sum(len(line["body"]) for line in batch) for batch in gate.batches[3:]] == [800, 400, 5_000, 10]


async def test_only_so_many_events_are_under_way_and_who_sends_more_waits(service: HttpService, gate: Gate):
    gate.open.clear()
    async with Producer(service.url, stream="orders", in_flight=3) as producer:
        sending = [asyncio.create_task(producer.send(number)) for number in range(7)]
        await comes_true(lambda: gate.batches)
        await asyncio.sleep(0.05)
        assert sum(map(len, gate.batches)) <= 3

        gate.open.set()
        await asyncio.gather(*sending)

    bodies = [line["body"] for batch in gate.batches for line in batch]
    assert bodies == list(range(7))
    assert max(map(len, gate.batches)) <= 3


async def test_who_stops_waiting_before_an_event_is_sent_takes_it_back(service: HttpService, gate: Gate):
    gate.open.clear()
    async with Producer(service.url, stream="orders", in_flight=2) as producer:
        first = asyncio.create_task(producer.send("first"))
        await comes_true(lambda: gate.batches)
        inside, outside = (asyncio.create_task(producer.send(body)) for body in ("inside", "outside"))
        await asyncio.sleep(0.01)
        for task in (inside, outside):
            task.cancel()
        last = asyncio.create_task(producer.send("last"))
        await asyncio.sleep(0.01)

        gate.open.set()
        await asyncio.gather(first, last)

    assert [line["body"] for batch in gate.batches for line in batch] == ["first", "last"]


# Several streams


async def test_over_several_streams_a_key_always_goes_to_the_same_one(served: Served):
    names = ["a", "b", "c"]
    for name in names:
        await served.put(f"/v1/streams/{name}", {"partitions": 1})
    events = [Event(body=number, key=f"k{number % 20}") for number in range(200)]

    async with Producer(served.url, streams=names) as producer:
        await producer.send_all(events)
        await producer.send_all([Event(body=-1) for _ in range(30)])

    keys, keyless = [], []
    for name in names:
        found = await everything_in(served, name)
        keys.append({one["key"] for one in found if one["key"]})
        keyless.append(sum(one["body"] == -1 for one in found))
        for key in keys[-1]:
            bodies = [one["body"] for one in found if one["key"] == key]
            assert bodies == sorted(bodies)
    assert keyless == [10, 10, 10]
    assert all(keys)
    assert sum(map(len, keys)) == len(set().union(*keys)) == 20


# A server that is away


async def test_what_got_no_answer_is_sent_again_with_the_same_ids(service: HttpService, gate: Gate):
    async def cut(request: web.Request) -> web.Response:
        await gate.answer(request)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def broken(request: web.Request) -> web.Response:
        await gate.answer(request)
        return web.Response(status=500)

    service.answers = [cut, broken, gate.answer]
    async with Producer(service.url, stream="orders") as producer:
        made = await producer.send(7)

    assert gate.batches == [[{"body": 7, "id": made}]] * 3


async def test_a_server_that_asks_for_time_gets_it(service: HttpService, gate: Gate):
    service.answers = [says(503, Retry_After="1"), gate.answer]
    began = asyncio.get_running_loop().time()
    async with Producer(service.url, stream="orders") as producer:
        await producer.send(1)

    assert asyncio.get_running_loop().time() - began >= 1


async def test_after_too_long_nobody_knows_and_the_error_says_what_to_do(service: HttpService):
    service.answers = [says(503)]
    async with Producer(service.url, stream="orders", give_up_after="50ms") as producer:
        with pytest.raises(Unavailable, match="send it again with this id"):
            await producer.send(1)


async def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(service: HttpService):
    service.answers = [says(503, Retry_After="3600")]
    async with Producer(service.url, stream="orders") as producer:
        with pytest.raises(Unavailable, match="given up within 5m"):
            await producer.send(1)


@pytest.mark.parametrize(
    "text", ["", "<html>", "{}", accepted(2), '{"accepted": 1, "rejected": 0, "errors": [{"line": 9}]}']
)
async def test_what_is_no_answer_of_ours_accepts_nothing(service: HttpService, text: str):
    service.answers = [says(202, text)]
    async with Producer(service.url, stream="orders", give_up_after="50ms") as producer:
        with pytest.raises(Unavailable, match="nobody knows"):
            await producer.send(1)


# The end


async def test_leaving_waits_for_what_is_under_way(service: HttpService, gate: Gate):
    gate.open.clear()
    async with Producer(service.url, stream="orders") as producer:
        sending = asyncio.create_task(producer.send(1))
        await comes_true(lambda: gate.batches)
        asyncio.get_running_loop().call_later(0.05, gate.open.set)

    assert sending.done()
    assert await sending
    with pytest.raises(Closed):
        await producer.send(2)


async def test_leaving_with_an_error_waits_for_nothing(service: HttpService, gate: Gate):
    gate.open.clear()
    sending: list[asyncio.Task[str]] = []

    async def fails() -> None:
        async with Producer(service.url, stream="orders", in_flight=1) as producer:
            sending.extend(asyncio.create_task(producer.send(number)) for number in range(2))
            await comes_true(lambda: gate.batches)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    gate.open.set()

    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(one) for one in outcomes] == [Closed, Closed]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stream": "a", "streams": ["b"]},
        {"streams": []},
        {"streams": ["a", "a"]},
        {"stream": "not a name"},
        {"stream": "a", "in_flight": 0},
        {"stream": "a", "give_up_after": "0s"},
        {"stream": "a", "give_up_after": "soon"},
    ],
)
def test_a_producer_that_cannot_work_is_refused_at_once(options: Any):
    with pytest.raises(InvalidRequest):
        Producer("http://127.0.0.1:1", **options)


def test_a_url_that_is_none_is_refused_at_once():
    with pytest.raises(BackstayError):
        Producer("127.0.0.1:8080", stream="a")


async def test_sending_outside_the_block_is_refused():
    with pytest.raises(Closed, match="async with"):
        await Producer("http://127.0.0.1:1", stream="a").send(1)


async def test_a_full_stream_is_waited_for(serve: Serve):
    async with serve(stream_bytes_max=1024 * 1024) as served:
        await served.put("/v1/streams/orders", {"partitions": 1, "retention": "1s"})
        async with Producer(served.url, stream="orders") as producer:
            large = "x" * 700_000
            sending = [asyncio.create_task(producer.send(large)) for _ in range(3)]

            async def room_is_made() -> bool:
                served.clock.pass_time(timedelta(minutes=1))
                await served.client.streams.log.trim("orders", {}, now=served.clock.now(), limit=10)
                return all(one.done() for one in sending)

            assert await eventually(room_is_made, bool)
            assert all(await asyncio.gather(*sending))
