"""An application whose roles are in places of their own, all of them in one event loop: a store for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from backstay import App
from backstay.client import Client
from backstay.runtime import Running
from backstay.runtime.roles import Role
from backstay.settings import Settings
from tests.support.databases import Database

#: The sweep looks often; a process that is busy for a while is not dead.
FAST: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "200ms", "lease": "10s"}

SCHEDULER = frozenset({Role.SCHEDULER, Role.SUPERVISOR})
HOST = frozenset({Role.AGENTS})


@asynccontextmanager
async def scheduling(app: App, database: Database, **options: Any) -> AsyncIterator[Client]:
    """A scheduler, with no agents beside it."""
    async with _running(app, database, SCHEDULER, options) as live:
        assert live.client is not None
        yield live.client


@asynccontextmanager
async def hosting(app: App, database: Database, **options: Any) -> AsyncIterator[Running]:
    """A process that does the work of agents, and nothing else."""
    async with _running(app, database, HOST, options) as live:
        yield live


@asynccontextmanager
async def apart(app: App, database: Database, *, hosts: int = 1, **options: Any) -> AsyncIterator[Client]:
    """Both, each in a place of its own."""
    async with AsyncExitStack() as parts:
        client = await parts.enter_async_context(scheduling(app, database, **options))
        for _ in range(hosts):
            await parts.enter_async_context(hosting(app, database, **options))
        yield client


@asynccontextmanager
async def _running(
    app: App, database: Database, roles: frozenset[Role], options: dict[str, Any]
) -> AsyncIterator[Running]:
    settings = Settings.load(FAST | options, environment={})
    async with Running(app.registry, settings, store=database.store(), roles=roles) as live:
        await live.registered.wait()
        yield live
