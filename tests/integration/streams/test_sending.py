"""Events that become messages of a queue: each exactly once, in order, and no more than the queue takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backstay import App, Event, Message
from backstay.clock import SystemClock
from backstay.domain.alert import AlertKind
from backstay.domain.audit import Act
from backstay.observe import PIPELINE_WAITS, counters
from tests.support.crashes import Crashes
from tests.support.databases import Database
from tests.support.ingesting import STREAM, Process, at, checkpoints, passed, process, quarantined
from tests.support.running import FAST, comes_true, eventually

MANY = 1000


def bridge(*, partitions: int = 1, queue: dict[str, Any] | None = None, **send: Any) -> App:
    """Each number becomes a message, but the negative ones, which nobody understands."""
    app = App("shop")
    orders = app.queue("orders", **queue or {})

    def understood(event: Event) -> int:
        if int(event.body) < 0:
            raise ValueError("less than nothing")
        return int(event.body)

    numbers = app.stream(STREAM, partitions=partitions)
    numbers.source(group="g").map(understood).filter(lambda number: number != 13).send(orders, **send)
    return app


@asynccontextmanager
async def reading(app: App, database: Database, folder: Path, **options: Any) -> AsyncIterator[Process]:
    async with process(app, database.store(), folder, **options) as reader:
        await reader.client.exchange.declare_all()
        yield reader


async def messages(reader: Process, queue: str = "orders") -> list[Any]:
    """What is in the queue, in the order in which it is received."""
    return [one.body for one in await reader.client.queue(queue).receive(MANY)]


async def test_each_event_becomes_a_message_and_the_checkpoint_follows(database: Database, tmp_path: Path):
    async with reading(bridge(), database, tmp_path) as reader:
        await reader.append([*range(20), -1])
        assert await reader.run_dry() == 21

        assert await messages(reader) == [number for number in range(20) if number != 13]
        assert await checkpoints(reader.store) == {0: 21}
        [aside] = await quarantined(reader.store)
        assert (aside.event.offset, "less than nothing" in aside.reason) == (20, True)


async def test_a_message_is_called_after_the_place_of_its_event_and_has_its_headers(
    database: Database, tmp_path: Path
):
    app = App("shop")
    app.queue("orders")
    app.stream(STREAM, partitions=1).source(group="g").send("orders", priority=2)

    async with reading(app, database, tmp_path) as reader:
        await reader.client.stream(STREAM).append({"n": 1}, headers={"lang": "pt"})
        await reader.run_dry()

        [message] = await reader.client.queue("orders").receive()
        assert (message.id, message.body) == (f"{STREAM}:g:0:0", {"n": 1})
        assert (message.properties, message.session) == ({"lang": "pt"}, None)


async def test_what_a_message_is_called_and_belongs_to_may_be_said(database: Database, tmp_path: Path):
    app = bridge(
        id=lambda number: f"order-{number}",
        session=lambda number: f"lane-{number % 2}",
        properties=lambda number: {"even": number % 2 == 0},
    )
    async with reading(app, database, tmp_path) as reader:
        await reader.append([1, 2, 2])
        await reader.run_dry()

        found = await reader.client.queue("orders").receive(MANY)
        assert [(one.id, one.session, one.properties) for one in found] == [
            ("order-1", "lane-1", {"even": False}),
            ("order-2", "lane-0", {"even": True}),
        ]


async def test_what_is_no_message_is_set_aside(database: Database, tmp_path: Path):
    async with reading(bridge(id=lambda number: f"order {number}"), database, tmp_path) as reader:
        await reader.append([1])
        await reader.run_dry()

        [aside] = await quarantined(reader.store)
        assert aside.reason.startswith("send: InvalidId: id is 'order 1'")


async def test_events_of_one_key_are_received_one_after_the_other(database: Database, tmp_path: Path):
    """SB: competing consumers, and an order within each key all the same."""
    app = bridge(partitions=2, queue={"sessions": True}, session=True)
    async with reading(app, database, tmp_path) as reader:
        keyed = [Event(body=number, key=f"key {number % 3}") for number in range(9)]
        await reader.client.stream(STREAM).append_all(keyed)
        await reader.run_dry()

        seen = []
        while found := await reader.client.queue("orders").receive(MANY):
            assert len({one.session for one in found}) == len(found)
            seen += [one.body for one in found]
            await asyncio.gather(*(one.complete() for one in found))

    assert [[number for number in seen if number % 3 == lane] for lane in range(3)] == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
    ]


async def test_asynchronous_stages_end_in_any_order_and_messages_leave_in_that_of_the_stream(
    database: Database, tmp_path: Path
):
    app = App("shop")
    app.queue("orders")
    first_may_end = asyncio.Event()

    async def looked_up(event: Event) -> int:
        if event.body == 0:
            await first_may_end.wait()
        elif event.body == 9:
            first_may_end.set()
        return int(event.body)

    app.stream(STREAM, partitions=1).source(group="g").map(looked_up).send("orders")
    async with reading(app, database, tmp_path) as reader:
        await reader.append(range(10), keys=10)
        await reader.run_dry()

        assert await messages(reader) == [*range(10)]
        assert await checkpoints(reader.store) == {0: 10}


async def test_a_process_cut_at_any_commit_has_sent_exactly_what_its_checkpoint_says(
    crashes: Crashes, tmp_path: Path
):
    """DX-04: messages and checkpoint are one transaction; whoever takes over goes on right there."""
    app = bridge(queue={"dedup": "0s"})
    async with process(app, crashes.store(), tmp_path, window=20) as reader:
        await reader.client.exchange.declare_all()
        await reader.append(range(100, 160))
        await reader.run_dry()

    cuts = set()
    for crash in crashes.copies:
        if not crash.rows("SELECT 1 FROM queue"):
            continue  # So early that whoever takes over has nothing to go by but what it declares itself.
        [(checkpoint,)] = crash.rows("SELECT checkpoint FROM checkpoint") or [(0,)]
        sent = crash.rows("SELECT id FROM message ORDER BY sequence")
        assert sent == [(f"{STREAM}:g:0:{offset}",) for offset in range(checkpoint or 0)], crash.name
        cuts.add(len(sent))
        async with process(bridge(queue={"dedup": "0s"}), crash.store(), tmp_path) as heir:
            await heir.run_dry()
            assert await messages(heir) == [*range(100, 160)]
            assert await passed(heir.store) == 60

    assert sorted(cuts) == [0, 20, 40, 60]


async def test_a_full_queue_takes_what_it_can_and_the_pipeline_waits_for_its_receivers(
    database: Database, tmp_path: Path
):
    """QL-1: nothing is skipped, and the queue never holds more than it may."""
    app = bridge(partitions=3, queue={"max_messages": 25})
    waits = counters[PIPELINE_WAITS]
    async with reading(app, database, tmp_path) as reader:
        await reader.append(range(100, 300), keys=50)
        ingesting = asyncio.create_task(reader.ingest.run())
        orders = reader.client.queue("orders")

        async def waiting() -> int:
            [standing] = await reader.store.queues.standings(names=["orders"], limit=1, counted=MANY)
            return standing.ready

        await eventually(waiting, lambda number: number == 25)
        assert await passed(reader.store) == 25
        await comes_true(lambda: counters[PIPELINE_WAITS] > waits)

        seen: list[Any] = []
        while len(seen) < 200:
            found = await orders.receive(MANY, wait="5s")
            assert 0 < len(found) <= 25
            seen += [one.body for one in found]
            await asyncio.gather(*(one.complete() for one in found))
        await eventually(lambda: passed(reader.store), lambda number: number == 200)
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)

    assert sorted(seen) == [*range(100, 300)]


async def test_a_queue_that_is_missing_is_waited_for_and_calls_a_person_once(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    app = App("shop")
    app.stream(STREAM, partitions=1).source(group="g").send("elsewhere")
    async with process(app, database.store(), tmp_path) as reader:
        await reader.append([1, 2])
        with caplog.at_level(logging.ERROR, "backstay"):
            for _ in range(3):
                await reader.run_once()
        assert [one.message.split()[0] for one in caplog.records] == [f"alert={AlertKind.QUEUE_MISSING}"]
        assert await checkpoints(reader.store) == {0: None}

        other = App("other")
        other.queue("elsewhere")
        async with process(other, database.store(), tmp_path) as its_owner:
            await its_owner.client.exchange.declare_all()
        await reader.run_once()

        assert await messages(reader, "elsewhere") == [1, 2]


async def test_what_a_person_resubmits_becomes_a_message_once(database: Database, tmp_path: Path):
    understands = False
    app = App("shop")
    app.queue("orders", dedup="0s")

    def understood(event: Event) -> Any:
        if not understands:
            raise ValueError("what?")
        return event.body

    app.stream(STREAM, partitions=1).source(group="g").map(understood).send("orders")
    async with reading(app, database, tmp_path) as reader:
        await reader.append([1, 2])
        await reader.run_dry()
        act = Act(who="me", action="resubmit", target=f"stream:{STREAM}")
        await reader.store.groups.resubmit(STREAM, None, limit=9, act=act, now=SystemClock().now())

        understands = True
        for _ in range(3):
            await reader.run_once()

        assert await messages(reader) == [1, 2]
        assert await quarantined(reader.store) == []


async def test_readers_that_share_a_partition_send_each_event_once_and_those_of_a_key_in_order(
    database: Database, tmp_path: Path
):
    """Each goes by a checkpoint of its own: what another has sent is not its to send."""
    app = App("shop")
    app.queue("orders", dedup="0s")
    app.stream(STREAM, partitions=1).source(group="g", readers=3).map(lambda event: event.body).send("orders")
    async with reading(app, database, tmp_path) as one, reading(app, database, tmp_path) as two:
        for reader in (one, two, one, two):
            await reader.run_once()
        await one.append(range(30), keys=5)
        for reader in (one, two) * 3:
            await reader.run_dry()

        sent = await messages(one)
        assert sorted(sent) == [*range(30)]
        for key in range(5):
            assert [body for body in sent if body % 5 == key] == [*range(key, 30, 5)]


async def test_consumers_share_what_comes_through_a_stream(database: Database, tmp_path: Path):
    """The whole way, in one application: appended, bridged, handled by several at once."""
    app = App("shop")
    orders = app.queue("orders")
    app.stream(STREAM, partitions=4).source(group="g").send(orders)
    handled: list[int] = []

    @app.consumer(orders, concurrency=5)
    async def handle(message: Message) -> None:
        handled.append(message.body)

    async with app.run(database.url, **FAST, **at(tmp_path)):
        await app.stream(STREAM).append_all([Event(body=number) for number in range(50)])

        async def all_handled() -> bool:
            return len(handled) >= 50

        await eventually(all_handled, bool)

    assert sorted(handled) == [*range(50)]
