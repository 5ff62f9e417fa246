"""A server over a store in a file, with a workflow or two to hand in tasks for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import msgspec
import pytest

from backstay import App
from backstay.domain.task import TaskRecord
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.stream import Log
from backstay.store.base import Runnable, Store
from backstay.testing.promises.holder import RUN_TIME, Holder, submitted
from tests.support.databases import SqliteDatabase
from tests.support.serving import Served, serving
from tests.support.visiting import Browser

RUNS = (Runnable("order", 1, RUN_TIME),)


class Line(msgspec.Struct):
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    customer: str
    lines: list[Line] = []


@pytest.fixture
def app() -> App:
    app = App("shop")
    agent = app.agent("stock")

    @agent.step
    async def reserve(what: str) -> str:
        return what

    @reserve.undo
    async def release(what: str) -> None: ...

    @app.workflow
    async def order(order: Order) -> str:
        return await reserve(order.customer)

    @app.workflow
    async def anything(value: Any) -> None: ...

    return app


@pytest.fixture
async def store(sqlite_database: SqliteDatabase) -> AsyncIterator[Store]:
    store = sqlite_database.store()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def log(sqlite_database: SqliteDatabase) -> AsyncIterator[Log]:
    log = EmbeddedLog(f"sqlite:///{sqlite_database.path.with_name('streams.db')}")
    await log.open()
    yield log
    await log.close()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(store: Store, log: Log, app: App) -> Serve:
    """Serves the store with other settings than usual."""
    return partial(serving, store, app.registry, log=log)


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with serve() as served:
        yield served


@pytest.fixture
def browser(served: Served) -> Browser:
    return Browser(served)


@pytest.fixture
async def orders(served: Served) -> Served:
    """A server with a queue."""
    assert (await served.put("/v1/queues/orders")).status == 201
    return served


@pytest.fixture
async def alice(served: Served) -> Holder:
    """A scheduler that runs orders, as far as the store can see one."""
    return await Holder.joined(served.store, served.clock, "alice", runs=RUNS)


async def held(served: Served, holder: Holder, id: str = "t", **fields: Any) -> TaskRecord:
    """A task in the hands of ``holder``."""
    given = {"workflow": "order", "input": b'{"customer":"ann"}', **fields}
    await submitted(served.store, served.clock, id, **given)
    [claimed] = await holder.claim(runs=RUNS)
    return claimed.task
