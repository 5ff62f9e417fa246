"""Messages become rows and tasks in processes that are killed again and again: none is lost or doubled."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from datetime import timedelta
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any

import pytest

from backstay.clock import SystemClock
from backstay.domain.message import NewMessage, Queue
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.support.databases import Database
from tests.support.order_desk import desk, make_orders, orders_of, table_of, tasks_of

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ORDERS = 5_000 if FULL else 1_500
KILLS = 60 if FULL else 8
#: Seconds from one kill to the next, once a process is at work.
LIFE = (0.05, 0.6)
PROCESSES = 2
#: Their rows are written, and then rolled back: they are not worth a cent.
REFUSED = [f"refused-{number}" for number in range(40)]
#: What a dead process had received comes back as often as it takes.
OFTEN: dict[str, Any] = {"max_deliveries": 1_000}


@failure(
    "a process that takes submissions is killed",
    of=Part.DOORS,
    seen="the message comes back after its lock; neither a row nor a task of it is there",
    heals="the message, the caller's row and the task are one transaction: another process makes all of it",
    takes="the lock of the queue (`message_lock`)",
    within="120s",
    invariants=(2, 5, 12, 14, 15),
)
async def test_when_a_process_that_takes_submissions_is_killed_each_message_leaves_one_row_and_one_task(
    database: Database, watch: Watch, healing: Healing
):
    turns: list[tuple[float, int]] = watch.facts.planned(plan, SEED)
    make_orders(database)
    names = sorted(f"order-{number}" for number in range(ORDERS))
    await send(database, names)

    children = [started(database) for _ in range(PROCESSES)]
    kills = 0
    for pause_seconds, victim in turns:
        if not any(left(database)):
            break
        await asyncio.sleep(pause_seconds)
        children[victim].kill()
        children[victim].join()
        kills += 1
        assert half(database) == [], "half of something was committed"
        children[victim] = started(database)
    try:
        with healing():
            async with asyncio.timeout(300):
                while any(left(database)):
                    await asyncio.sleep(0.05)
    finally:
        for child in children:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()

    assert kills > 2, "hardly anybody was killed"
    watch.facts.rolled_back = set(REFUSED)
    watch.facts.open = set(names)  # Whether the processes came to run them as well is not the question.
    assert orders_of(database) == tasks_of(database) == names
    # Each order was told to have been received, once, and nobody was set aside on the way.
    told = [name for (name,) in database.rows("SELECT id FROM message WHERE id LIKE '%:received:1'")]
    assert sorted(told) == sorted(f"{name}:received:1" for name in names)


def plan(chance: Random) -> list[tuple[float, int]]:
    """After how long each kill comes, and who is killed."""
    return [(chance.uniform(*LIFE), chance.randrange(PROCESSES)) for _ in range(KILLS)]


def half(database: Database) -> list[tuple[Any, ...]]:
    """Rows without a task, or tasks without a row; one look, since others go on meanwhile."""
    return database.rows(
        "SELECT name, id FROM orders FULL JOIN task ON task.id = orders.name WHERE id IS NULL OR name IS NULL"
    )


def left(database: Database) -> list[tuple[Any, ...]]:
    """The orders that nobody has accepted."""
    return database.rows(
        "SELECT id FROM message WHERE (id LIKE 'order-%' OR id LIKE 'about-%' AND state <> 'dead')"
        " AND NOT id LIKE '%:%'"
    )


async def send(database: Database, names: list[str]) -> None:
    store = database.store()
    await store.open()
    now = SystemClock().now()
    await store.queues.declare(Queue(name="incoming", lock=timedelta(seconds=1), **OFTEN), now=now)
    await store.queues.declare(Queue(name="told"), now=now)
    bodies = [(name, b'{"name": "%s", "cents": 5}' % name.encode()) for name in names]
    bodies += [(f"about-{name}", b'{"name": "%s", "cents": 0}' % name.encode()) for name in REFUSED]
    messages = [NewMessage(to="incoming", id=name, body=body, named=True) for name, body in bodies]
    await store.queues.send(messages, now=now)
    await store.close()


def started(database: Database) -> BaseProcess:
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=work, args=(database.url, table_of(database)), daemon=True)
    child.start()
    return child


def work(url: str, table: str) -> None:
    """A process with every role, until it is killed."""

    async def forever() -> None:
        app = desk(table, concurrency=8, prefetch=8, reply_to="queue:told", terms={"lock": "1s", **OFTEN})
        async with app.run(url, lease="2s", heartbeat="500ms"):
            await asyncio.Event().wait()

    asyncio.run(forever())
