"""Events that start tasks: each exactly once, whatever happens in between, on every database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from backstay import App, Event
from backstay.errors import LeaseLost
from backstay.runtime import Running, parse_roles
from backstay.settings import Settings
from tests.support.crashes import Crashes
from tests.support.databases import Database
from tests.support.ingesting import STREAM, at, checkpoints, passed, process, quarantined, task_ids
from tests.support.running import eventually


class Order(msgspec.Struct):
    id: str
    items: int = 1


def shop(*, partitions: int = 1) -> App:
    """Each event with an order starts a task that is called as the order is."""
    app = App("shop")

    @app.workflow
    async def fulfil(order: Order) -> int:
        return order.items

    def parse(event: Event) -> Order:
        return msgspec.convert(event.body, Order)

    numbers = app.stream(STREAM, partitions=partitions)
    numbers.source(group="g").map(parse).filter(lambda order: order.items > 0).start(
        fulfil, id=lambda order: order.id
    ).checkpoint(every=10, after="1s")
    return app


def plain() -> App:
    app = App("shop")

    @app.workflow
    async def fulfil(order: int) -> int:
        return order

    app.stream(STREAM, partitions=2).source(group="g").start(fulfil)
    return app


def order(number: int, *, items: int = 1) -> dict[str, object]:
    return {"id": f"order-{number:03}", "items": items}


async def test_each_event_starts_its_task_and_the_checkpoint_follows(database: Database, tmp_path: Path):
    async with process(shop(partitions=3), database.store(), tmp_path) as reader:
        await reader.append(map(order, range(50)), keys=7)
        assert await reader.run_dry() == 50

        assert await task_ids(reader.store) == [f"order-{number:03}" for number in range(50)]
        assert await passed(reader.store) == 50
        assert await reader.run_once() == 0


async def test_without_an_id_a_task_is_called_after_the_place_of_its_event(
    database: Database, tmp_path: Path
):
    async with process(plain(), database.store(), tmp_path) as reader:
        await reader.append([10, 20], keys=1)
        await reader.run_dry()

        [partition] = {int(name.split(":")[2]) for name in await task_ids(reader.store)}
        assert await task_ids(reader.store) == [f"{STREAM}:g:{partition}:{offset}" for offset in (0, 1)]
        assert (await reader.client.task(f"{STREAM}:g:{partition}:1")).input == 20


async def test_what_a_filter_refuses_is_passed_and_starts_nothing(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        await reader.append(order(number, items=number % 2) for number in range(10))
        await reader.run_dry()

        assert len(await task_ids(reader.store)) == 5
        assert await checkpoints(reader.store) == {0: 10}


async def test_two_events_that_name_one_task_start_it_once(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        await reader.append([order(1), order(1), order(2)])
        await reader.run_dry()

        assert await task_ids(reader.store) == ["order-001", "order-002"]
        assert await quarantined(reader.store) == []


async def test_an_event_whose_task_has_other_content_is_set_aside(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        await reader.append([order(1), order(1, items=2)])
        await reader.run_dry()

        [aside] = await quarantined(reader.store)
        assert aside.event.offset == 1
        assert "order-001" in aside.reason
        assert await checkpoints(reader.store) == {0: 2}


async def test_a_process_cut_at_any_commit_has_started_exactly_what_its_checkpoint_says(
    database: Database, crashes: Crashes, tmp_path: Path
):
    """DX-04: tasks and checkpoint are one transaction; whoever takes over goes on right there."""
    async with process(shop(), crashes.store(), tmp_path, window=20) as reader:
        await reader.append(map(order, range(60)))
        await reader.run_dry()

    cuts = []
    for crash in crashes.copies:
        [(checkpoint,)] = crash.rows("SELECT checkpoint FROM checkpoint") or [(0,)]
        ids = [name for (name,) in crash.rows("SELECT id FROM task ORDER BY id")]
        assert ids == [f"order-{number:03}" for number in range(checkpoint or 0)], crash.name
        cuts.append(len(ids))
        async with process(shop(), crash.store(), tmp_path) as heir:
            await heir.run_dry()
            assert await task_ids(heir.store) == [f"order-{number:03}" for number in range(60)]
            assert await quarantined(heir.store) == []
            assert await passed(heir.store) == 60

    assert sorted({*cuts}) == [0, 20, 40, 60]


async def test_an_asynchronous_stage_may_come_before_a_start(database: Database, tmp_path: Path):
    app = App("shop")

    @app.workflow
    async def fulfil(order: int) -> int:
        return order

    async def doubled(event: Event) -> int:
        await asyncio.sleep(0)
        return 2 * int(event.body)

    app.stream(STREAM, partitions=2).source(group="g").map(doubled).start(fulfil, id=lambda n: f"order-{n}")

    async with process(app, database.store(), tmp_path) as reader:
        await reader.append(range(20), keys=5)
        assert await reader.run_dry() == 20

        assert set(await task_ids(reader.store)) == {f"order-{2 * number}" for number in range(20)}
        assert await passed(reader.store) == 20


async def test_reading_stops_while_max_pending_tasks_wait_and_goes_on_when_they_are_taken_up(
    database: Database, tmp_path: Path
):
    """QL-1: what waits for a scheduler is bounded, however much waits in the stream."""
    app = shop(partitions=4)
    async with process(app, database.store(), tmp_path, max_pending=30) as reader:
        await reader.append(map(order, range(100)), keys=20)
        ingesting = asyncio.create_task(reader.ingest.run())
        await eventually(lambda: reader.store.backlog(at_most=1000), lambda waiting: waiting == 30)
        # A count or two later it is as many still.
        for _ in range(3):
            await asyncio.sleep(0.1)
            assert await reader.store.backlog(at_most=1000) == 30
        assert await passed(reader.store) == 30

        settings = Settings.load(at(tmp_path), environment={})
        async with Running(app.registry, settings, store=database.store(), roles=parse_roles(["scheduler"])):
            await eventually(lambda: passed(reader.store), lambda done: done == 100)
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)

    ids = [f"order-{number:03}" for number in range(100)]
    assert [name for (name,) in database.rows("SELECT id FROM task ORDER BY id")] == ids


async def test_a_holder_that_was_declared_dead_starts_nothing_more(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        await reader.append(map(order, range(3)))
        await reader.run_once()
        await reader.store.retire(reader.owner, now=reader.client._clock.now())
        await reader.append(map(order, range(3, 6)))

        with pytest.raises(LeaseLost):
            await reader.run_once()
        assert len(await task_ids(reader.store)) == 3
