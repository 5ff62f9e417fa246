"""The composition root: opens the store, wires the roles together, and runs them.

Nothing else in the package knows of two roles at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random
from types import TracebackType
from typing import Final, Self

from backstay.agents.host import AgentHost
from backstay.client import Client
from backstay.clock import Alarms, Clock, SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.lease import Owner
from backstay.errors import InvalidSetting, LeaseLost, Unavailable
from backstay.observe import INSTANCE_DEAD, STORE_UNAVAILABLE, emit
from backstay.scheduler.loop import Scheduler, runnables
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store
from backstay.store.sqlite import SqliteStore
from backstay.supervisor.sweep import Sweep

# A store that is away at start-up, or for long, is asked again after this pause.
RECONNECT_SECONDS: Final = 1.0


def open_store(settings: Settings) -> Store:
    """The store that ``settings.store`` names; not connected yet."""
    scheme = settings.store.split(":", 1)[0]
    if scheme == "sqlite":
        return SqliteStore(settings.store, inline_bytes_max=settings.inline_bytes_max)
    if scheme in ("postgresql", "postgres"):
        return _postgres(settings)
    raise InvalidSetting(
        f"store has the scheme {scheme!r}; known: sqlite (sqlite:///relative.db, sqlite:////absolute.db)"
        " and postgresql (postgresql://user@host:port/database)"
    )


def _postgres(settings: Settings) -> Store:
    # Its driver is an extra: who stays with SQLite needs none.
    try:
        from backstay.store.postgres import PostgresStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise InvalidSetting(
            "a store on PostgreSQL needs the driver asyncpg: pip install 'backstay[postgres]'"
        ) from error
    return PostgresStore(
        settings.store,
        inline_bytes_max=settings.inline_bytes_max,
        connections=settings.store_connections,
        accept_data_loss=settings.accept_data_loss,
    )


class StoreClock(SystemClock):
    """The machine's clock, set by the store's: hosts that share a store agree on the time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        return super().now() + self._store.ahead


@asynccontextmanager
async def connected(
    registry: Registry,
    settings: Settings,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    must_exist: bool = False,
) -> AsyncIterator[Client]:
    """A client on an open store. Runs no role: tasks are moved by other processes."""
    opened = store or open_store(settings)
    await opened.open(must_exist=must_exist)
    client = Client(opened, registry, settings=settings, clock=clock or StoreClock(opened))
    try:
        yield client
    finally:
        client.close()
        await opened.close()


class Running:
    """All roles inside this process, from entering to leaving the context."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._store = store or open_store(settings)
        self._clock = clock or StoreClock(self._store)
        self._random = random or Random()  # noqa: S311  For jitter, not for secrets.
        self._roles: asyncio.Task[None] | None = None
        self._body: asyncio.Task[object] | None = None
        self.client: Client | None = None

    async def __aenter__(self) -> Self:
        self._registry.check()
        await self._store.open()
        self.client = Client(self._store, self._registry, settings=self._settings, clock=self._clock)
        self._body = asyncio.current_task()
        self._roles = asyncio.create_task(self._live(), name="backstay-roles")
        self._roles.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._roles is not None
        failed = self._roles.done() and not self._roles.cancelled() and self._roles.exception() is not None
        self._roles.cancel()
        # Last in, first out, and each of them whatever the others raise.
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self._store.close)
            if self.client is not None:
                closing.callback(self.client.close)
            for agent in self._registry.agents.values():
                closing.push_async_callback(agent.close)
            with contextlib.suppress(asyncio.CancelledError):
                if not failed:
                    await self._roles
        if failed and isinstance(error, asyncio.CancelledError) and self._body is not None:
            self._body.uncancel()
            await self._roles  # Its error is the reason why the body was cancelled.

    def _ended(self, roles: asyncio.Task[None]) -> None:
        """Without its roles the application only seems to run: end it, with the error."""
        if not roles.cancelled() and roles.exception() is not None and self._body is not None:
            self._body.cancel()

    async def _live(self) -> None:
        """One instance after the other: an instance that was declared dead starts again under a new id."""
        while True:
            try:
                owner = await self._register()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                await self._run_roles(owner)
            except* LeaseLost:
                emit(INSTANCE_DEAD, instance=owner.id)
            finally:
                await self._retire(owner)

    async def _register(self) -> Owner:
        instance = NewInstance(
            id=new_instance_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
            runs=tuple(runnables(self._registry, self._settings)),
        )
        return await self._store.register(instance, now=self._clock.now())

    async def _run_roles(self, owner: Owner) -> None:
        alarms = Alarms(self._clock)
        agents = AgentHost(
            self._registry, settings=self._settings, clock=self._clock, alarms=alarms, random=self._random
        )
        scheduler = Scheduler(
            self._store,
            owner,
            self._registry,
            agents,
            settings=self._settings,
            clock=self._clock,
            alarms=alarms,
            random=self._random,
        )
        sweep = Sweep(self._store, owner, settings=self._settings, clock=self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(owner), name="backstay-heartbeat")
                group.create_task(scheduler.run(), name="backstay-scheduler")
                group.create_task(sweep.run(), name="backstay-supervisor")
        finally:
            alarms.clear()

    async def _beat(self, owner: Owner) -> None:
        while True:
            pause = self._settings.heartbeat.total_seconds()
            try:
                await self._store.beat(owner, now=self._clock.now())
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                # The lease runs while the store is away: as soon as it is back, it must hear of us.
                pause = min(pause, RECONNECT_SECONDS)
            await asyncio.sleep(pause)

    async def _retire(self, owner: Owner) -> None:
        with contextlib.suppress(Unavailable):
            await asyncio.shield(self._store.retire(owner, now=self._clock.now()))


def new_instance_id() -> str:
    """Fresh for every start: a restarted process must never be taken for the one that died."""
    host = "".join(char if char.isalnum() or char in "-." else "-" for char in socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
