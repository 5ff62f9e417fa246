"""What becomes of messages in the hands of a consumer, on every database."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from backstay import App, Message, Permanent
from backstay.client import Client
from backstay.domain.message import TOO_MANY_DELIVERIES
from backstay.ingest.queues.consumer import Consumer
from backstay.observe import MESSAGE_LOCK_LOST, counters
from tests.support.databases import Database
from tests.support.running import comes_true, eventually


async def counts(client: Any, queue: str = "orders") -> dict[str, int]:
    [standing] = await client.exchange.queues.standings(names=[queue], limit=1, counted=1000)
    states = {one: getattr(standing, one) for one in ("ready", "behind", "waiting", "locked", "dead")}
    return {state: number for state, number in states.items() if number}


async def is_empty(client: Any, queue: str = "orders") -> None:
    await eventually(lambda: counts(client, queue), lambda found: found == {}, what=f"{queue} empty")


def consumer_of(app: App, client: Client) -> Consumer:
    [declared] = app.registry.consumers.values()
    return Consumer(declared, client.exchange, clock=client._clock)


async def test_a_handled_message_is_completed(database: Database):
    """CC-1."""
    app = App("shop")
    seen: list[Any] = []

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        seen.append(message.body)

    async with app.run(store=database.store()):
        for number in range(5):
            await app.queue("orders").send(number)
        await is_empty(app._running)

    assert seen == [0, 1, 2, 3, 4]


async def test_a_consumer_slower_than_its_lock_handles_each_message_once(database: Database):
    """SB-02, SB-03: those at work and those that wait keep their locks."""
    app = App("shop")
    app.queue("orders", lock="600ms", max_deliveries=2)
    seen: Counter[int] = Counter()

    @app.consumer("orders", concurrency=2, prefetch=6)
    async def handle(message: Message) -> None:
        seen[message.body] += 1
        assert message.delivery_count == 1
        await asyncio.sleep(0.9)

    async with app.run(store=database.store()):
        for number in range(6):
            await app.queue("orders").send(number)
        await is_empty(app._running)
        assert await app._running.exchange.queues.dead("orders", limit=9) == []

    assert seen == Counter(range(6))


async def test_a_failed_message_is_tried_again_and_then_set_aside(database: Database):
    app = App("shop")
    app.queue("orders", max_deliveries=3)
    tried: list[int] = []

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        tried.append(message.delivery_count)
        raise ValueError("no such street")

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        consumer = consumer_of(app, client)
        assert [await consumer.run_once() for _ in range(4)] == [1, 1, 1, 0]
        [dead] = await client.exchange.queues.dead("orders", limit=9)

    assert tried == [1, 2, 3]
    assert (dead.reason, dead.detail) == (TOO_MANY_DELIVERIES, "ValueError('no such street')")


async def test_a_failed_message_is_left_alone_for_a_while(database: Database):
    app = App("shop")

    @app.consumer("orders", delay="1h")
    async def handle(message: Message) -> None:
        raise ValueError("not now")

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        consumer = consumer_of(app, client)
        assert [await consumer.run_once() for _ in range(2)] == [1, 0]
        assert await counts(client) == {"waiting": 1}


async def test_what_will_never_succeed_is_set_aside_at_once(database: Database):
    app = App("shop")

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        raise Permanent("no such street")

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        assert await consumer_of(app, client).run_once() == 1
        [dead] = await client.exchange.queues.dead("orders", limit=9)

    assert (dead.reason, dead.delivery_count) == ("no such street", 1)


async def test_a_handler_may_settle_by_itself(database: Database):
    app = App("shop")

    @app.consumer("orders", concurrency=3)
    async def handle(message: Message) -> None:
        match message.body:
            case "complete":
                await message.complete()
            case "set aside":
                await message.dead_letter("by hand", "because")
            case _:
                await message.abandon(delay="1h")
                raise ValueError("after that")

    async with app.client(store=database.store()) as client:
        for body in ("complete", "set aside", "abandon"):
            await client.queue("orders").send(body)
        assert await consumer_of(app, client).run_once() == 3
        assert await counts(client) == {"dead": 1, "waiting": 1}


async def test_a_handler_whose_message_is_lost_is_cancelled_and_it_is_said(database: Database):
    """SB-04: lock loss is never silent."""
    app = App("shop")
    app.queue("orders", lock="300ms")
    began, cancelled = asyncio.Event(), asyncio.Event()
    before = counters[MESSAGE_LOCK_LOST]

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        if message.delivery_count > 1:
            return
        began.set()
        # Somebody else settles it: for us, that is as if the lock had run out.
        other = Message(
            message.id, queue="orders", lock_token=message.lock_token, settler=app._running.exchange
        )
        await other.abandon(delay="200ms")
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async with app.run(store=database.store()):
        await app.queue("orders").send("a")
        async with asyncio.timeout(10):
            await began.wait()
            await cancelled.wait()
        await is_empty(app._running)

    assert counters[MESSAGE_LOCK_LOST] == before + 1


async def test_a_handler_is_cancelled_when_its_lock_cannot_be_renewed_in_time(database: Database):
    app = App("shop")
    app.queue("orders", lock="300ms")
    cancelled = asyncio.Event()

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        if message.delivery_count > 1:
            return
        app._running.exchange.renew_all = never  # type: ignore[method-assign]
        try:
            await asyncio.sleep(60)
        finally:
            app._running.exchange.renew_all = real  # type: ignore[method-assign]
            cancelled.set()

    async def never(locks: Any) -> Any:
        from backstay.errors import StoreUnavailable

        raise StoreUnavailable("away")

    async with app.run(store=database.store()):
        real = app._running.exchange.renew_all
        await app.queue("orders").send("a")
        async with asyncio.timeout(10):
            await cancelled.wait()
        await is_empty(app._running)


async def test_no_more_run_at_a_time_than_declared_and_one_of_each_session(database: Database):
    """SB-15, SC-1."""
    app = App("shop")
    running: Counter[str] = Counter()
    most = 0
    three_run = asyncio.Event()
    order: dict[str, list[int]] = {}

    @app.consumer("orders", concurrency=3, prefetch=10)
    async def handle(message: Message) -> None:
        nonlocal most
        running[str(message.session)] += 1
        most = max(most, running.total())
        assert running[str(message.session)] == 1
        order.setdefault(str(message.session), []).append(message.body)
        if running.total() == 3:
            three_run.set()
        await three_run.wait()
        await asyncio.sleep(0.01)  # A fourth, were it let, would begin meanwhile.
        running[str(message.session)] -= 1

    async with app.run(store=database.store()):
        for number in range(5):
            for session in ("a", "b", "c", "d"):
                await app.queue("orders").send(number, session=session)
        await is_empty(app._running)

    assert most == 3
    assert order == {session: [0, 1, 2, 3, 4] for session in "abcd"}


async def test_a_process_that_stops_gives_back_what_it_did_not_begin_uncounted(database: Database):
    """SB-05, SQ-06."""
    app = App("shop")
    began = asyncio.Event()

    @app.consumer("orders", prefetch=1)
    async def handle(message: Message) -> None:
        began.set()
        await asyncio.sleep(60)

    store = database.store()
    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        await client.queue("orders").send("b")
        async with app.run(store=store):
            await began.wait()
            await eventually(lambda: counts(client), lambda found: found == {"locked": 2}, what="both locked")

        assert await counts(client) == {"ready": 2}
        messages = await client.queue("orders").receive(max=2)
        assert [one.delivery_count for one in messages] == [1, 1]


async def test_a_drained_consumer_ends_what_it_began_and_gives_back_the_rest(database: Database):
    app = App("shop")
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.consumer("orders", prefetch=1)
    async def handle(message: Message) -> None:
        began.set()
        await go_on.wait()

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        await client.queue("orders").send("b")
        consumer = consumer_of(app, client)
        life = asyncio.create_task(consumer.run())
        await began.wait()
        await eventually(lambda: counts(client), lambda found: found == {"locked": 2}, what="both locked")
        draining = asyncio.create_task(consumer.drain())
        await eventually(lambda: counts(client), lambda found: found.get("ready") == 1, what="one is back")
        assert not draining.done()
        go_on.set()
        await draining
        life.cancel()
        await asyncio.wait([life])

        assert await counts(client) == {"ready": 1}
        assert consumer.in_flight == 0


async def test_prefetch_shrinks_to_what_a_lock_allows(database: Database):
    """SB-03, SB-15."""
    app = App("shop")
    app.queue("orders", lock="1s")
    held: list[int] = []

    @app.consumer("orders", prefetch=100)
    async def handle(message: Message) -> None:
        await asyncio.sleep(0.4)
        held.append((await counts(app._running)).get("locked", 0))

    async with app.run(store=database.store()):
        for number in range(6):
            await app.queue("orders").send(number)
        await comes_true(lambda: len(held) >= 3)

    # One at work, and at most the two that fit into the second behind it.
    assert max(held) <= 3


async def test_a_subscription_has_consumers_like_any_queue(database: Database):
    app = App("bank")
    seen: list[Any] = []
    prices = app.topic("prices")

    @app.consumer(prices.subscription("euros", where={"currency": "EUR"}))
    async def handle(message: Message) -> None:
        seen.append(message.body)

    async with app.run(store=database.store()):
        await prices.send(1, properties={"currency": "EUR"})
        await prices.send(2, properties={"currency": "USD"})
        await prices.send(3, properties={"currency": "EUR"})
        await is_empty(app._running, "prices:euros")

    assert seen == [1, 3]


@pytest.mark.parametrize("swallows", [True, False])
async def test_a_handler_that_cancels_itself_has_failed(database: Database, swallows: bool):
    app = App("shop")
    app.queue("orders", max_deliveries=1)

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        if swallows:
            raise asyncio.CancelledError
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        assert await consumer_of(app, client).run_once() == 1
        assert await counts(client) == {"dead": 1}


async def test_a_lock_is_kept_while_the_store_cannot_take_the_answer(database: Database):
    app = App("shop")
    app.queue("orders", lock="500ms")
    refused = 2

    @app.consumer("orders")
    async def handle(message: Message) -> None:
        assert message.delivery_count == 1

    async with app.client(store=database.store()) as client:
        await client.queue("orders").send("a")
        settle = client.exchange.queues.settle

        async def away(*args: Any, **options: Any) -> Any:
            from backstay.errors import StoreUnavailable

            nonlocal refused
            refused -= 1
            if refused >= 0:
                raise StoreUnavailable("away")
            return await settle(*args, **options)

        client.exchange.queues.settle = away  # type: ignore[method-assign]
        assert await consumer_of(app, client).run_once() == 1
        assert await counts(client) == {}
