"""Ids of messages are remembered for their time, and not for long after it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from backstay.domain.message import NewMessage, Queue
from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.testing import ManualClock
from tests.support.databases import Database, PostgresDatabase
from tests.support.running import eventually

#: More than are forgotten with a single message.
MANY = 3_000


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    if isinstance(database, PostgresDatabase):
        store: Store = PostgresStore(database.url, server_clock=False)
    else:
        store = database.store()
    await store.open()
    yield store
    await store.close()


async def test_as_many_ids_are_forgotten_as_are_remembered(database: Database, store: Store):
    """However many come at once: otherwise a queue that is busy for long would fill the disk with names."""
    clock = ManualClock()
    rounds = itertools.count()

    async def send(kind: str, number: int) -> int:
        """How many of the old ids are remembered after that."""
        name = f"{kind}-{next(rounds)}"
        new = [NewMessage(to="orders", id=f"{name}-{one}", named=True, body=b"1") for one in range(number)]
        await store.queues.send(new, now=clock.now())
        [[remembered]] = database.rows("SELECT count(*) FROM message_id WHERE id LIKE 'old-%'")
        return int(remembered)

    await store.queues.declare(Queue(name="orders"), now=clock.now())
    assert await send("old", MANY) == MANY
    clock.pass_time(timedelta(hours=1))

    seen: list[int] = []

    async def send_more() -> int:
        seen.append(await send("new", MANY // 2))
        return seen[-1]

    # It may have been done a moment ago; but whoever does it next makes up for all that came since.
    await eventually(send_more, lambda remembered: remembered < MANY)
    assert seen[-1] == 0
