"""/healthz fails when a role is deaf, /readyz when the store is away: two questions, two answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import pytest

from backstay import App
from backstay.domain.lease import Owner
from backstay.observe import INSTANCE_DEAD, counters
from backstay.runtime import open_store
from backstay.runtime.http import answering, listen
from backstay.runtime.roles import ALL
from backstay.runtime.running import Running
from backstay.settings import Settings
from backstay.store.base import Claimed, InstanceRecord, Settle, Store, Transition
from tests.support.databases import AnyStore, Database
from tests.support.postgres import PostgresServer, schema_name
from tests.support.running import eventually

LEASE_OF_A_SECOND: dict[str, Any] = {
    "lease": "1s",
    "heartbeat": "200ms",
    "supervisor_period": "50ms",
    "port": 0,
}


def shop() -> App:
    app = App("shop")
    agent = app.agent("shop")

    @agent.step
    async def pay() -> None: ...

    @app.workflow
    async def order() -> None:
        await pay()

    return app


class Probes:
    """What a platform asks a process."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    async def health(self) -> tuple[int, dict[str, Any]]:
        return await self._ask("/healthz")

    async def ready(self) -> int:
        return (await self._ask("/readyz"))[0]

    async def _ask(self, path: str) -> tuple[int, dict[str, Any]]:
        async with self._session.get(self._address + path) as answer:
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def probed(store: Store, **options: Any) -> AsyncIterator[tuple[Running, Probes]]:
    settings = Settings.load({**LEASE_OF_A_SECOND, **options}, environment={})
    with listen(settings) as socket:
        async with (
            Running(shop().registry, settings, store=store, roles=ALL) as running,
            answering(running, settings, on=socket, mounts={}, dials={}, ended=lambda: None) as address,
            aiohttp.ClientSession() as session,
        ):
            yield running, Probes(session, address)


async def test_a_process_whose_roles_go_round_is_healthy_and_ready(database: Database):
    async with probed(database.store()) as (_, probes):
        assert await probes.health() == (
            200,
            {
                "status": "ok",
                "roles": dict.fromkeys(("api", "ingest", "scheduler", "agents", "supervisor", "jobs"), "ok"),
            },
        )
        assert await probes.ready() == 200


class StuckClaims(AnyStore):
    """Whoever claims here never hears of it again."""

    async def claim(self, owner: Owner, runs: Any, **how: Any) -> list[Claimed]:
        await asyncio.Event().wait()
        raise AssertionError("never")


class LostAnswers(AnyStore):
    """Takes transitions and answers none."""

    def apply(self, transition: Transition, settle: Settle) -> None: ...


@pytest.mark.parametrize("kind", [StuckClaims, LostAnswers])
async def test_a_scheduler_that_gets_nowhere_although_the_store_answers_is_deaf(
    database: Database, kind: type[Any]
):
    async with probed(database.store_as(kind)) as (running, probes):
        assert running.client is not None
        await running.client.submit("order")

        status, body = await eventually(probes.health, lambda seen: seen[0] == 503, what="deafness")

        assert status == 503
        assert "scheduler" in str(body)
        assert await probes.ready() == 200


async def test_a_process_that_is_about_to_stop_is_not_ready_any_more(database: Database):
    async with probed(database.store()) as (running, probes):
        await running.drain()

        assert await probes.ready() == 503
        assert (await probes.health())[0] == 200


async def test_a_process_that_is_declared_dead_while_it_stops_does_not_begin_anew(database: Database):
    async with probed(database.store()) as (running, _):
        assert running.client is not None
        await running.registered.wait()
        [instance] = await running.client.instances()
        running.draining = True
        dead = counters[INSTANCE_DEAD]

        await database_buries(database, instance)

        async def noticed() -> int:
            return counters[INSTANCE_DEAD] - dead

        await eventually(noticed, bool, what="a sign of life that is refused")
        # Whoever began anew would be registered before its end is waited for.
        assert running._life is not None
        await asyncio.wait_for(asyncio.shield(running._life), 10)
        assert await running.client.instances() == []


async def database_buries(database: Database, instance: InstanceRecord) -> None:
    """Somebody else takes the process for dead."""
    other = database.store()
    await other.open()
    await other.retire(Owner(instance.id, instance.epoch), now=instance.heartbeat_at)
    await other.close()


@contextmanager
def outage(server: PostgresServer) -> Iterator[None]:
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()


async def test_while_the_store_is_away_a_process_is_not_ready_and_still_healthy(own_postgres: PostgresServer):
    """LE-6: restarting it would not bring the store back."""
    settings = Settings(store=own_postgres.url(schema=schema_name()))

    async with probed(open_store(settings)) as (_, probes):
        assert await probes.ready() == 200

        with outage(own_postgres):
            assert await eventually(probes.ready, lambda status: status == 503) == 503
            # For longer than the lease after which a silent role would be deaf.
            away_until = time.monotonic() + 1.5
            while time.monotonic() < away_until:
                assert (await probes.health())[0] == 200
                await asyncio.sleep(0.05)

        assert await eventually(probes.ready, lambda status: status == 200) == 200
