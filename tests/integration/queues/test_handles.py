"""Queues and topics as a program uses them, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, InvalidRequest, LockLost, Message
from backstay.client import Client
from backstay.errors import (
    Closed,
    InvalidDefinition,
    InvalidId,
    InvalidInput,
    PayloadTooLarge,
    QueueFull,
    QueueNotEmpty,
    UnknownQueue,
)
from tests.support.databases import Database
from tests.support.running import eventually


async def test_what_is_sent_is_received_and_completed(database: Database):
    app = App("shop")
    orders = app.queue("orders")

    async with app.run(store=database.store()):
        sent = await orders.send({"item": 7}, id="m1", properties={"kind": "book"}, session="s", priority=1)
        [message] = await app.queue("orders").receive()

        assert isinstance(message, Message)
        assert (message.id, message.sequence) == (sent.id, sent.sequence) == ("m1", message.sequence)
        assert (message.body, message.properties) == ({"item": 7}, {"kind": "book"})
        assert (message.session, message.priority, message.delivery_count) == ("s", 1, 1)
        assert message.locked_until is not None
        await message.complete()
        assert message.settled
        assert await orders.receive() == []
        with pytest.raises(LockLost, match="m1"):
            await message.complete()


async def test_what_was_sent_is_there_though_the_process_ends_at_once(database: Database):
    """SB-14, QL-3: whoever awaited its send need not wait for anything else."""
    app = App("shop")
    app.queue("orders")
    async with app.client(store=database.store()) as client:
        sent = await asyncio.gather(*(client.queue("orders").send(number) for number in range(50)))

    async with app.client(store=database.store()) as client:
        found = await client.queue("orders").receive(max=100)

    assert sorted(one.sequence for one in found) == sorted(one.sequence for one in sent)


async def test_a_client_uses_the_queues_that_its_application_declares(database: Database):
    app = App("shop")
    app.queue("orders", lock="5s", max_deliveries=1)

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        [message] = await client.queue("orders").receive()
        await message.abandon(detail="it broke")
        assert await client.queue("orders").receive() == []

        [dead] = await client.exchange.queues.dead("orders", limit=9)
        assert dead.detail == "it broke"
        with pytest.raises(UnknownQueue, match="nowhere"):
            await client.queue("nowhere").send("a")


async def test_of_a_crowd_that_sends_first_one_makes_the_queue(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """Each for itself, they would wait in line for a connection until their patience is at its end."""
    app = App("shop")
    app.queue("orders")
    app.topic("news").subscription("all")

    async with app.client(store=database.store()) as client:
        made: list[str] = []
        queues = client.exchange.queues
        for verb in ("declare", "declare_topic", "subscribe"):
            monkeypatch.setattr(queues, verb, noting(made, verb, getattr(queues, verb)))
        orders, news = client.queue("orders"), client.topic("news")
        await asyncio.gather(*(send(number) for number in range(100) for send in (orders.send, news.send)))

        assert sorted(made) == ["declare", "declare_topic", "subscribe"]
        assert len(await orders.receive(max=1000)) == 100


def noting(made: list[str], verb: str, do: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def noted(*args: Any, **options: Any) -> Any:
        made.append(verb)
        return await do(*args, **options)

    return noted


async def test_the_settings_say_what_a_queue_does_not(database: Database):
    app = App("shop")
    app.queue("orders")

    async with app.client(store=database.store(), message_lock="7s", max_deliveries=3) as client:
        await client.queue("orders").send("a")
        [standing] = await client.exchange.queues.standings(limit=9, counted=9)

    assert (standing.queue.lock, standing.queue.max_deliveries) == (timedelta(seconds=7), 3)


async def test_whoever_waits_gets_what_another_process_sends(database: Database):
    app = App("shop")
    app.queue("orders")

    async with app.client(store=database.store()) as here, app.client(store=database.store()) as there:
        receiving = asyncio.create_task(here.queue("orders").receive(max=5, wait="10s"))
        await here.queue("orders").send("first")
        assert [one.body for one in await receiving] == ["first"]

        receiving = asyncio.create_task(here.queue("orders").receive(wait="10s"))
        await there.queue("orders").send("second")
        assert [one.body for one in await receiving] == ["second"]


async def test_a_scheduled_message_wakes_whoever_waits(database: Database):
    app = App("shop")
    orders = app.queue("orders")

    async with app.client(store=database.store()) as client:
        await client.queue(orders.name).send("later", at="300ms")
        assert await client.queue("orders").receive() == []
        assert [one.body for one in await client.queue("orders").receive(wait="10s")] == ["later"]


async def test_nobody_waits_longer_than_asked(database: Database):
    app = App("shop")
    app.queue("orders")

    async with app.client(store=database.store()) as client, asyncio.timeout(5):
        assert await client.queue("orders").receive(wait="50ms") == []


async def test_a_receive_that_is_broken_off_leaves_nothing_locked(database: Database):
    app = App("shop")
    app.queue("orders")

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        for steps in range(25):
            receiving = asyncio.create_task(client.queue("orders").receive(wait="10s"))
            for _ in range(steps):
                await asyncio.sleep(0 if steps < 15 else 0.0002)
            receiving.cancel()
            await asyncio.wait([receiving])
            for message in [] if receiving.cancelled() else receiving.result():
                await message.release()

        [message] = await client.queue("orders").receive()
        assert message.delivery_count == 1


async def test_a_deferred_message_is_received_by_its_number(database: Database):
    """SB-01."""
    app = App("shop")
    orders = app.queue("orders")

    async with app.run(store=database.store()):
        await orders.send("a")
        [message] = await orders.receive()
        await message.defer()
        assert message.settled
        assert await orders.receive() == []

        [again] = await orders.receive_deferred(message.sequence)
        assert (again.body, again.delivery_count) == ("a", 2)
        await again.complete()
        assert await orders.receive_deferred(message.sequence) == []
        for nonsense in (0, -1, 10**20, True, "1"):
            with pytest.raises(InvalidRequest, match="sequence number"):
                await orders.receive_deferred(nonsense)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="number of sequence numbers"):
            await orders.receive_deferred()


async def test_what_is_received_at_most_once_has_nothing_to_settle(database: Database):
    """SB-01."""
    app = App("shop")
    orders = app.queue("orders")

    async with app.run(store=database.store()):
        waiting = asyncio.create_task(orders.receive(wait="10s", at_most_once=True))
        await orders.send("a")
        [message] = await waiting

        assert (message.body, message.delivery_count, message.locked_until) == ("a", 1, None)
        for settle in (message.complete, message.abandon, message.release, message.defer, message.renew):
            with pytest.raises(InvalidRequest, match="nothing to settle"):
                await settle()
        assert await orders.receive() == []


async def test_a_receiver_writes_down_how_far_it_came(database: Database):
    """SQ-03."""
    app = App("shop")
    orders = app.queue("orders")

    async with app.run(store=database.store(), payload_bytes_max=1024, inline_bytes_max=100):
        await orders.send({"done": 0})
        [message] = await orders.receive()
        before = message.locked_until
        assert before is not None

        assert await message.rewrite({"done": 7}) >= before
        assert message.body == {"done": 7}
        with pytest.raises(PayloadTooLarge):
            await message.rewrite("x" * 2000)
        await message.abandon()

        [again] = await orders.receive()
        assert again.body == {"done": 7}
        await again.complete()
        with pytest.raises(LockLost):
            await again.rewrite({"done": 8})


async def test_a_full_queue_takes_no_more_until_something_leaves(database: Database):
    """SB-13."""
    app = App("shop")
    orders, others = app.queue("orders", max_messages=1), app.queue("others")

    async with app.run(store=database.store(), max_messages=2):
        await orders.send(1)
        with pytest.raises(QueueFull, match="orders"):
            await orders.send(2)
        [message] = await orders.receive()
        await message.complete()
        await orders.send(2)

        assert (await app.mailroom.queue("others")).max_messages == 2
        await others.send(1)
        await others.send(2)
        with pytest.raises(QueueFull, match="others"):
            await others.send(3)


async def test_what_another_process_does_to_a_full_queue_is_noticed(database: Database):
    app = App("shop")
    app.queue("orders", max_messages=1)

    async def is_taken(client: Client) -> bool:
        try:
            await client.queue("orders").send("next")
        except QueueFull:
            return False
        return True

    async with app.client(store=database.store()) as here, app.client(store=database.store()) as there:
        assert await is_taken(here)
        assert not await is_taken(here)
        assert not await is_taken(there)
        [message] = await there.queue("orders").receive()
        await message.complete()

        await eventually(lambda: is_taken(here), bool, what="room for another")


async def test_a_queue_is_deleted_with_everything_in_it(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.mailroom.DROPPED_MAX", 3)
    app = App("shop")
    app.queue("orders")

    async with app.client(store=database.store()) as client:
        for number in range(10):
            await client.queue("orders").send(number, session=f"s{number % 2}")
        await client.queue("orders").receive()
        with pytest.raises(QueueNotEmpty):
            await client.mailroom.delete("orders")

        gone = await client.mailroom.delete("orders", force=True)

        assert (gone.name, gone.messages) == ("orders", 10)
        with pytest.raises(UnknownQueue):
            await client.queue("orders").receive()


async def test_a_topic_reaches_the_subscriptions_that_match(database: Database):
    app = App("bank")
    prices = app.topic("prices")
    everything = prices.subscription("everything")
    euros = prices.subscription("euros", where={"currency": "EUR"}, lock="5s")

    async with app.run(store=database.store()):
        await prices.send(1, properties={"currency": "EUR"})
        await prices.send(2, properties={"currency": "USD"})

        assert [one.body for one in await everything.receive(max=9)] == [1, 2]
        assert [one.body for one in await euros.receive(max=9)] == [1]
        assert [one.name for one in (everything, euros)] == ["prices:everything", "prices:euros"]


async def test_a_scheduled_message_can_be_cancelled(database: Database):
    app = App("shop")
    orders = app.queue("orders")

    async with app.run(store=database.store()):
        sent = await orders.send("later", at=datetime.now(UTC) + timedelta(hours=1))  # noqa: TID251
        assert await orders.cancel(sent.sequence)
        assert not await orders.cancel(sent.sequence)


async def test_what_cannot_be_sent_is_refused_and_nothing_is(database: Database):
    """SB-13, SC-7."""
    app = App("shop")
    orders = app.queue("orders", sessions=True)

    async with app.client(store=database.store(), payload_bytes_max=1024, inline_bytes_max=100) as client:
        queue = client.queue(orders.name)
        with pytest.raises(InvalidInput, match="session"):
            await queue.send("a")
        with pytest.raises(PayloadTooLarge):
            await queue.send("x" * 2000, session="s")
        with pytest.raises(InvalidInput, match="JSON"):
            await queue.send(object(), session="s")
        with pytest.raises(InvalidInput, match="priority"):
            await queue.send(1, session="s", priority=99)
        with pytest.raises(InvalidInput, match="properties"):
            await queue.send(1, session="s", properties={"a": [1]})  # type: ignore[dict-item]
        with pytest.raises(InvalidId, match="session"):
            await queue.send(1, session="two words")
        with pytest.raises(InvalidId, match="id"):
            await queue.send(1, session="s", id="")
        with pytest.raises(InvalidInput, match="at"):
            await queue.send(1, session="s", at="tomorrow")
        with pytest.raises(InvalidRequest, match="ttl"):
            await queue.send(1, session="s", ttl="0s")
        with pytest.raises(InvalidRequest, match="max"):
            await queue.receive(max=1001)
        with pytest.raises(InvalidRequest, match="wait"):
            await queue.receive(wait="2h")

        assert await queue.receive() == []


def test_a_queue_is_declared_once():
    app = App("shop")
    app.queue("orders", lock="5s")

    app.queue("orders")
    app.queue("orders", lock="5s")
    with pytest.raises(InvalidDefinition, match="twice"):
        app.queue("orders", lock="6s")
    with pytest.raises(InvalidRequest, match="lock"):
        app.queue("others", lock="1ms")
    with pytest.raises(InvalidId):
        app.queue("two words")


def test_a_queue_has_one_consumer():
    app = App("shop")

    @app.consumer("orders")
    async def first(message: Message) -> None: ...

    with pytest.raises(InvalidDefinition, match="consumer"):
        app.consumer("orders")(first)
    with pytest.raises(InvalidDefinition, match="async def"):
        app.consumer("others")(lambda _message: None)  # type: ignore[type-var]
    with pytest.raises(InvalidDefinition, match="concurrency"):
        app.consumer("others", concurrency=0)(first)
    with pytest.raises(InvalidDefinition, match="prefetch"):
        app.consumer("others", prefetch=1001)(first)


async def test_without_a_running_app_there_is_nothing_to_send_to():
    with pytest.raises(Closed):
        await App("shop").queue("orders").send("a")


async def test_a_message_that_was_not_received_cannot_be_settled():
    message = Message("m1", {"item": 7})

    assert (message.properties, message.delivery_count) == ({}, 1)
    with pytest.raises(InvalidRequest, match="not received"):
        await message.complete()
