"""Whoever waits for a task hears of it, however many wait, and wherever it was settled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backstay import App
from backstay.client import Client
from backstay.domain.task import TaskRecord
from backstay.errors import Closed, StoreUnavailable, UnknownTask
from backstay.outcomes import Outcomes
from backstay.store.base import Store
from backstay.store.sqlite import SqliteStore
from tests.support.crashes import store_at
from tests.support.running import eventually, running

MANY_WAIT = 500


class WatchedStore(SqliteStore):
    """Writes down what it is asked about outcomes, and can be out of reach."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}")
        self.looks: list[Sequence[str]] = []
        self.away = False

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        self.looks.append(task_ids)
        if self.away:
            raise StoreUnavailable("away")
        return await super().outcomes(task_ids)


@pytest.fixture
def app() -> App:
    app = App("outcomes")
    desk = app.agent("desk")

    @desk.step
    async def double(number: int) -> int:
        return 2 * number

    @app.workflow
    async def work(number: int) -> int:
        return await double(number)

    return app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outcomes.db"


async def submitted(app: App, store: Store, count: int) -> list[str]:
    """Tasks that wait for somebody to run them."""
    async with app.client(store=store) as client:
        return [(await client.submit("work", number, id=f"t-{number}")).id for number in range(count)]


async def results(client: Client, ids: Sequence[str]) -> list[Any]:
    return await asyncio.gather(*[client.handle(one).result() for one in ids])


async def test_all_who_begin_to_wait_at_once_are_looked_up_in_one_read(app: App, path: Path):
    ids = await submitted(app, store_at(path), MANY_WAIT)
    store = WatchedStore(path)

    async with app.client(store=store) as client:
        waiting = asyncio.create_task(results(client, ids))
        await eventually(lambda: _now(store.looks), bool, what="a look")
        async with running(app, store_at(path)):
            assert await waiting == [2 * number for number in range(MANY_WAIT)]

    assert sorted(store.looks[0]) == sorted(ids)
    assert len(store.looks) < MANY_WAIT / 10


async def test_what_was_settled_before_is_answered_by_the_first_look(app: App, path: Path):
    ids = await submitted(app, store_at(path), 1)
    async with running(app, store_at(path)) as client:
        await results(client, ids)
    store = WatchedStore(path)

    async with app.client(store=store) as client:
        assert await results(client, ids) == [0]

    assert store.looks == [ids]


async def test_an_unknown_task_fails_those_who_wait_for_it_and_nobody_else(app: App, path: Path):
    [known] = await submitted(app, store_at(path), 1)

    async with app.client(store=store_at(path)) as client:
        waiting = asyncio.create_task(client.handle(known).result())
        with pytest.raises(UnknownTask, match="nobody"):
            await client.handle("nobody").result()
        async with running(app, store_at(path)):
            assert await waiting == 0


async def test_who_waits_goes_on_waiting_while_the_store_is_away(app: App, path: Path):
    [known] = await submitted(app, store_at(path), 1)
    store = WatchedStore(path)
    store.away = True

    async with app.client(store=store) as client:
        waiting = asyncio.create_task(client.handle(known).result())
        await eventually(lambda: _now(store.looks), bool, what="a look")
        store.away = False
        async with running(app, store_at(path)):
            assert await waiting == 0


async def test_a_client_that_closes_tells_those_who_still_wait(app: App, path: Path):
    [known] = await submitted(app, store_at(path), 1)

    async with app.client(store=store_at(path)) as client:
        waiting = asyncio.create_task(client.handle(known).result())
        await asyncio.sleep(0)

    with pytest.raises(Closed):
        await waiting


async def test_nobody_looks_once_nobody_waits(app: App, path: Path):
    [known] = await submitted(app, store_at(path), 1)
    store = store_at(path)
    await store.open()
    outcomes = Outcomes(store)
    waiting = asyncio.create_task(outcomes.of(known))
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])

    async def still_looking() -> bool:
        return any(task.get_name() == "backstay-outcomes" for task in asyncio.all_tasks())

    await eventually(still_looking, lambda seen: not seen, what="the end of looking")
    outcomes.close()
    await store.close()


async def _now(value: Any) -> Any:
    return value
