"""The database goes away under load: we need no restart, we are back at once, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from backstay.domain.lease import Owner
from backstay.errors import StoreUnavailable
from backstay.observe import INSTANCE_DEAD, counters
from backstay.store.base import InstanceRecord, Report
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.url import address_of
from backstay.testing import ManualClock
from backstay.testing.records import new_task
from tests.integration.postgres.load import Load, under_load
from tests.support.pgproxy import PgProxy
from tests.support.postgres import PostgresServer
from tests.support.running import eventually, running

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"

#: Longer than a caller waits; at full length longer than anything waits, a lease included.
AWAY_SECONDS = 20.0 if FULL else 6.0
HANGING_SECONDS = 12.0 if FULL else 3.0

SHORT = {"lease": "2s", "heartbeat": "500ms"}


async def nothing_is_lost_or_left_over(server: PostgresServer, load: Load) -> None:
    connection = await asyncpg.connect(server.url())
    states = await connection.fetch("SELECT state, count(*) FROM backstay.task GROUP BY state")
    locked = await connection.fetchval("SELECT count(*) FROM backstay.task WHERE locked_by IS NOT NULL")
    blamed = await connection.fetchval(
        "SELECT count(*) FROM backstay.task WHERE crash_count + failure_count > 0"
    )
    steps = await connection.fetch(
        "SELECT task.id || '/' || step.key, attempt FROM backstay.step"
        "  JOIN backstay.task ON task.key = step.task_key"
    )
    await connection.close()
    assert [tuple(row) for row in states] == [("processed", len(load.began))]
    assert load.acknowledged == set(load.began)
    assert (locked, blamed) == (0, 0)
    # Each step ran, and none more often than it was begun.
    assert load.effects == dict(map(tuple, steps))


async def test_the_server_is_restarted(own_postgres: PostgresServer):
    async with under_load(own_postgres.url()) as outage:
        await asyncio.to_thread(own_postgres.restart)
        await outage.over(what="restarted")

    await nothing_is_lost_or_left_over(own_postgres, outage.load)


async def test_the_server_crashes_and_comes_back_after_longer_than_a_lease(own_postgres: PostgresServer):
    """Nobody could give a sign of life meanwhile: so nobody is declared dead for it."""
    dead = counters[INSTANCE_DEAD]
    async with under_load(own_postgres.url(), own_postgres.url(), **SHORT) as outage:
        await asyncio.to_thread(own_postgres.kill)
        await asyncio.sleep(3)
        await asyncio.to_thread(own_postgres.start)
        await outage.over(what="crashed")

    await nothing_is_lost_or_left_over(own_postgres, outage.load)
    assert counters[INSTANCE_DEAD] == dead


async def test_the_server_is_away_for_longer_than_callers_wait(own_postgres: PostgresServer):
    """Their submissions fail, and are made again."""
    async with under_load(own_postgres.url(), own_postgres.url()) as outage:
        await asyncio.to_thread(own_postgres.stop)
        await asyncio.sleep(AWAY_SECONDS)
        await asyncio.to_thread(own_postgres.start)
        await outage.over(what=f"away for {AWAY_SECONDS} s")

    assert outage.load.refused > 0
    await nothing_is_lost_or_left_over(own_postgres, outage.load)


async def test_who_is_thrown_out_before_it_has_said_a_word_comes_again(
    postgres_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    connect, thrown_out = asyncpg.connect, 0

    async def thrown_out_at_first(*arguments: Any, **options: Any) -> asyncpg.Connection:
        nonlocal thrown_out
        connection = await connect(*arguments, **options)
        if thrown_out < 3:
            thrown_out += 1
            await connection.close()
        return connection

    store = PostgresStore(postgres_url)
    await store.open()
    try:
        monkeypatch.setattr(asyncpg, "connect", thrown_out_at_first)
        await store.submit([new_task("t")], now=clock.now())

        assert (await store.task("t")).id == "t"
        assert thrown_out == 3
    finally:
        await store.close()


async def test_every_connection_is_ended_by_an_administrator_again_and_again(own_postgres: PostgresServer):
    connection = await asyncpg.connect(own_postgres.url())
    async with under_load(own_postgres.url()) as outage:
        for _ in range(10):
            await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            await asyncio.sleep(0.1)
        await outage.over(what="connections ended")
    await connection.close()

    await nothing_is_lost_or_left_over(own_postgres, outage.load)


class Crowd:
    """Other clients, who take every connection that the server has, and drive out those who have one."""

    def __init__(self, server: PostgresServer) -> None:
        self._url = server.url()
        self._taken: list[asyncpg.Connection] = []
        self._taking: list[asyncio.Task[None]] = []

    async def takes_all(self) -> None:
        self._taken.append(await self._connect())
        self._taking = [asyncio.create_task(self._take()) for _ in range(3)]
        while await self._drive_out():
            await asyncio.sleep(0.01)

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(self._url, server_settings={"application_name": "crowd"})

    async def _take(self) -> None:
        while True:
            with suppress(asyncpg.TooManyConnectionsError):
                self._taken.append(await self._connect())

    async def _drive_out(self) -> int:
        """How many others there were."""
        driven_out = await self._taken[0].fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND application_name <> 'crowd'"
        )
        return int(driven_out)

    async def leaves(self) -> None:
        for one in self._taking:
            one.cancel()
        await asyncio.wait(self._taking)
        for connection in self._taken:
            connection.terminate()


async def test_others_take_every_connection_that_there_is():
    with PostgresServer({"max_connections": "30"}) as server:
        crowd = Crowd(server)
        async with under_load(server.url()) as outage:
            await crowd.takes_all()
            await asyncio.sleep(2)
            await crowd.leaves()
            await outage.over(what="connections taken")

        await nothing_is_lost_or_left_over(server, outage.load)


@pytest.mark.parametrize(
    ("seconds", "settings"),
    [
        pytest.param(HANGING_SECONDS, {}, id="for a while"),
        pytest.param(3.0, SHORT, id="for longer than a lease"),
    ],
)
async def test_the_network_hangs(own_postgres: PostgresServer, seconds: float, settings: dict[str, str]):
    dead = counters[INSTANCE_DEAD]
    async with (
        PgProxy(own_postgres.port) as proxy,
        under_load(proxy.url(), proxy.url(), **settings) as outage,
    ):
        proxy.hold()
        await asyncio.sleep(seconds)
        proxy.release()
        await outage.over(what=f"hung for {seconds} s")

    await nothing_is_lost_or_left_over(own_postgres, outage.load)
    assert counters[INSTANCE_DEAD] == dead


async def test_who_is_back_first_after_an_outage_buries_nobody_whose_network_takes_longer(
    postgres: PostgresServer, postgres_url: str
):
    schema, dead = address_of(postgres_url).schema, counters[INSTANCE_DEAD]
    async with PgProxy(postgres.port) as near, PgProxy(postgres.port) as far:
        stores = [PostgresStore(proxy.url(schema=schema)) for proxy in (near, far)]
        apps = [running(Load().app(), store, lease="2s", heartbeat="500ms") for store in stores]
        async with apps[0], apps[1]:
            before = await eventually(stores[0].instances, lambda seen: len(seen) == 2, what="two instances")

            near.hold()
            far.hold()
            await asyncio.sleep(3)
            near.release()
            await _beats_again(stores[0], before)
            await asyncio.sleep(0.5)
            far.release()
            after = await _beats_again(stores[0], before, number=2)

    assert {one.id for one in after} == {one.id for one in before}
    assert counters[INSTANCE_DEAD] == dead


async def _beats_again(
    store: PostgresStore, before: list[InstanceRecord], *, number: int = 1
) -> list[InstanceRecord]:
    """The instances, once so many of them have given another sign of life, seconds after the last."""
    outage = max(one.heartbeat_at for one in before) + timedelta(seconds=2)
    return await eventually(
        store.instances,
        lambda seen: sum(one.live and one.heartbeat_at > outage for one in seen) >= number,
        what="signs of life",
    )


class ForgetfulStore(PostgresStore):
    """Its first sign of life does not get through."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.beats: list[float] = []

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        self.beats.append(time.monotonic())
        if len(self.beats) == 1:
            raise StoreUnavailable("not now")
        await super().beat(owner, now=now, report=report)


async def test_a_sign_of_life_that_did_not_get_through_is_given_again_soon(postgres_url: str):
    store = ForgetfulStore(postgres_url)

    async def beats() -> list[float]:
        return store.beats

    async with running(Load().app(), store, heartbeat="5s", lease="15s"):
        [first, second] = await eventually(beats, lambda seen: len(seen) == 2, what="a second sign of life")

    assert second - first < 3, "two heartbeats in a row must not be lost for one outage"


async def test_a_server_that_is_away_at_the_start_is_reported_and_not_waited_for(
    own_postgres: PostgresServer,
):
    own_postgres.stop()
    began = time.monotonic()

    with pytest.raises(StoreUnavailable):
        async with under_load(own_postgres.url()):
            pass

    assert time.monotonic() - began < 6
