"""Many tasks at once, told and cancelled at moments that chance chooses: no wake-up and no word is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from backstay import App, current_step, start, wait_for
from backstay.client import Client
from tests.chaos.evidence import Facts
from tests.chaos.matrix import SEED, checked
from tests.support.databases import Database
from tests.support.running import running

pytestmark = pytest.mark.chaos

CROWD = 150
#: So many speak to the store at once. The others wait here: a store turns away who has to wait for long.
SPEAKERS = 20
PATIENCE_SECONDS = 20


@pytest.fixture
def chance() -> Random:
    print(f"seed {SEED} (again with BACKSTAY_TEST_SEED={SEED})")
    return Random(SEED)


async def ended(client: Client, ids: list[str]) -> Counter[str]:
    """Wait until all of them have ended; how many in which state."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return Counter([(await client.settled(one)).state.value for one in ids])


def looked_at(database: Database, model: dict[str, str]) -> None:
    """What is looked at after a kill as well: here nobody was killed, and all of it must hold."""
    checked(database, Facts(model=model), claimed=(5, 14), with_history=False)


async def a_moment(chance: Random, *, longest_seconds: float = 0.1) -> None:
    await asyncio.sleep(chance.random() * longest_seconds)


async def test_every_signal_reaches_its_task_in_order_whenever_it_comes(database: Database, chance: Random):
    app = App("crowd")

    @app.workflow
    async def collect() -> list[Any]:
        return [await wait_for("item") for _ in range(4)]

    speaking = asyncio.Semaphore(SPEAKERS)

    async def tell(client: Client, task_id: str) -> None:
        for number in range(4):
            await a_moment(chance)
            async with speaking:
                await client.signal(task_id, "item", number)

    ids = [f"t{number}" for number in range(CROWD)]
    async with running(app, database.store(), supervisor_period="1h", lease="3h") as client:
        await asyncio.gather(*(client.submit(collect, id=one) for one in ids))
        await asyncio.gather(*(tell(client, one) for one in ids))
        assert await ended(client, ids) == {"processed": CROWD}
        outputs = [(await client.task(one)).output for one in ids]

    assert outputs == [[0, 1, 2, 3]] * CROWD
    looked_at(database, dict.fromkeys(ids, "processed"))


async def test_every_child_that_ends_wakes_its_parent(database: Database, chance: Random):
    app = App("crowd")
    agent = app.agent("agent", concurrency=20)

    @agent.step
    async def work() -> None:
        await a_moment(chance)

    @app.workflow
    async def child(number: int) -> int:
        await work()
        return number

    @app.workflow
    async def parent() -> list[int]:
        return list(await asyncio.gather(*(start(child, number) for number in range(3))))

    ids = [f"p{number}" for number in range(CROWD // 3)]
    async with running(app, database.store(), supervisor_period="1h", lease="3h") as client:
        await asyncio.gather(*(client.submit(parent, id=one) for one in ids))
        assert await ended(client, ids) == {"processed": len(ids)}
    looked_at(database, dict.fromkeys(ids, "processed"))


@pytest.mark.parametrize("undo", [True, False])
async def test_every_task_that_is_cancelled_at_some_moment_stops_and_is_undone_if_asked(
    database: Database, chance: Random, undo: bool
):
    app = App("crowd")
    agent = app.agent("agent", concurrency=20)
    done: set[str] = set()
    undone: set[str] = set()

    @agent.step
    async def reserve(what: int) -> None:
        await a_moment(chance, longest_seconds=0.02)
        done.add(current_step().idempotency_key)

    @reserve.undo
    async def release(what: int) -> None:
        undone.add(current_step().idempotency_key.removesuffix("/undo"))

    @app.workflow
    async def order() -> None:
        await asyncio.gather(reserve(1), reserve(2))
        await reserve(3)
        await wait_for("never")

    speaking = asyncio.Semaphore(SPEAKERS)

    async def cancel(client: Client, task_id: str) -> None:
        await a_moment(chance, longest_seconds=0.5)
        async with speaking:
            await client.cancel(task_id, undo=undo)

    ids = [f"t{number}" for number in range(CROWD)]
    async with running(app, database.store(), supervisor_period="1h", lease="3h") as client:
        await asyncio.gather(*(client.submit(order, id=one) for one in ids))
        await asyncio.gather(*(cancel(client, one) for one in ids))
        ends = await ended(client, ids)

    print(f"{dict(ends)}, {len(done)} done, {len(undone)} undone")
    assert ends.keys() <= ({"undone", "cancelled"} if undo else {"cancelled"})
    assert done <= undone if undo else not undone
    looked_at(database, {})


async def test_of_many_who_open_a_new_store_at_once_nobody_is_turned_away(database: Database):
    for _ in range(10):
        new = database.another()
        stores = [new.store() for _ in range(10)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.close() for store in stores))
