"""PostgreSQL is restarted, and its connections are cut, under orders that several processes work on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from backstay.client import Client
from backstay.errors import Unavailable
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.workload import (
    Site,
    effects_of,
    ends_of,
    is_refused,
    orders,
    refusals,
    serve,
    started,
)
from tests.support.databases import Database, PostgresDatabase, connect
from tests.support.pgproxy import PgProxy, mentions
from tests.support.platform import eventually
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

ROLES = (("scheduler", "agents"), ("scheduler", "agents"), ("supervisor",))
SETTINGS = {"heartbeat": "500ms", "lease": "3s", "supervisor_period": "200ms"}
ORDERS = 400 if FULL else 60
TIMES = 10 if FULL else 2
PATIENCE_SECONDS = 100


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    """A server for this test alone. The connection to look with is made anew after each restart."""
    with closing(connect(server)) as look:
        database = PostgresDatabase(server, look)
        yield database
        database.look.close()


@asynccontextmanager
async def working(site: Site, database: Database) -> AsyncIterator[Client]:
    """The processes, all of which have begun, and somebody who places orders."""
    children: list[BaseProcess] = [started(serve, site, *roles) for roles in ROLES]
    try:
        # Whoever finds no store at its start ends, and the platform would start it again.
        await asyncio.to_thread(
            eventually,
            lambda: database.rows("SELECT id FROM instance"),
            lambda found: len(found) == len(ROLES),
            what="processes that have begun",
        )
        async with orders(site.effects).client(site.store) as client:
            yield client
    finally:
        for child in children:
            child.kill()
            child.join()


async def place(client: Client, numbers: range) -> None:
    for number in numbers:
        while True:
            try:
                order = {"number": number, "refused": is_refused(number)}
                await client.submit("order", order, id=f"order-{number}")
                break
            except Unavailable:
                await asyncio.sleep(0.05)


async def all_end(client: Client) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    for one, end in ends_of(refusals(ORDERS)).items():
        while True:
            assert time.monotonic() < give_up_at, f"{one} has not ended"
            try:
                if (await client.task(one)).state == end:
                    break
            except Unavailable:
                pass
            await asyncio.sleep(0.02)


def nobody_is_blamed(site: Site, watch: Watch) -> None:
    """Each effect is there. An attempt that was cut off may have been made again, and is known by its key."""
    assert set(site.effects.count()) == effects_of(refusals(ORDERS))
    blamed = watch.database.rows("SELECT id FROM task WHERE failure_count + crash_count > 0")
    assert blamed == []
    watch.facts.model = ends_of(refusals(ORDERS))


@failure(
    "the database is restarted",
    of=Part.DATABASE,
    seen=(
        "submissions are refused for as long as it is away; `store_unavailable` is logged; tasks stand still"
    ),
    heals="every process connects again by itself and asks whether its last batch was committed",
    takes="the restart, and a second or two (PostgreSQL; on SQLite there is no server)",
    within="60s",
    invariants=(1, 2, 3, 5, 7, 13, 14, 16),
)
@pytest.mark.parametrize("crashes", [False, True], ids=["it stops in order", "it crashes"])
async def test_when_the_database_is_restarted_every_process_goes_on_and_nothing_is_lost(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing, crashes: bool
):
    assert isinstance(database, PostgresDatabase)
    server = database.server
    site = Site(tmp_path, database.url, SETTINGS)
    each = ORDERS // (TIMES + 1)
    async with working(site, database) as client:
        for turn in range(TIMES):
            await place(client, range(turn * each, (turn + 1) * each))
            await asyncio.to_thread(server.kill if crashes else server.stop)
            placing = asyncio.create_task(place(client, range((turn + 1) * each, (turn + 2) * each)))
            with healing():
                await asyncio.to_thread(server.start)
                await placing
        with healing():
            await place(client, range(TIMES * each, ORDERS))
            await all_end(client)
    database.look = connect(server)

    nobody_is_blamed(site, watch)


def plan(chance: Random) -> list[tuple[str, float]]:
    """What is done to the network, and how long it is left alone then."""
    kinds = ["cut", "before", "after"]
    return [(chance.choice(kinds), chance.uniform(0.05, 0.4)) for _ in range(6 * TIMES)]


@failure(
    "the connections to the database are cut",
    of=Part.DATABASE,
    seen="nothing, or a short `store_unavailable`",
    heals=(
        "processes connect again; whether a COMMIT that got no answer happened is read from the "
        "writer's number"
    ),
    takes="a connection (PostgreSQL)",
    within="60s",
    invariants=(1, 2, 3, 5, 7, 13, 14, 15, 16),
)
async def test_when_the_connections_to_the_database_are_cut_nothing_is_lost_and_nothing_done_twice(
    tmp_path: Path, server: PostgresServer, database: Database, watch: Watch, healing: Healing
):
    assert isinstance(database, PostgresDatabase)
    async with PgProxy(server.port) as proxy:
        site = Site(tmp_path, proxy.url(schema=database.schema), SETTINGS)
        async with working(site, database) as client:
            placing = asyncio.create_task(place(client, range(ORDERS)))
            for what, seconds in watch.facts.planned(plan, SEED):
                if what == "cut":
                    proxy.drop_all()
                else:
                    proxy.lose_commit(what, when=mentions("task"))
                await asyncio.sleep(seconds)
            with healing():
                await placing
                await all_end(client)

    nobody_is_blamed(site, watch)
