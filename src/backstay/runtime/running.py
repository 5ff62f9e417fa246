"""The roles inside this process, one instance after the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from random import Random
from types import TracebackType
from typing import Self

from backstay.client import Client
from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.domain.lease import Owner
from backstay.errors import LeaseLost, StoreUnavailable, Unavailable
from backstay.jobs.occurrence import with_jobs
from backstay.messaging.logs import log_of
from backstay.messaging.stream import Log
from backstay.observe import INSTANCE_DEAD, STORE_UNAVAILABLE, emit
from backstay.runtime.instance import RECONNECT_SECONDS, Instance
from backstay.runtime.interpreter import set_up_for_roles
from backstay.runtime.roles import EMBEDDED, Role, Roles, as_names
from backstay.runtime.stores import StoreClock, open_store
from backstay.scheduler.loop import runnables
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store


class Running:
    """From entering to leaving the context."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        *,
        store: Store | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        roles: Roles = EMBEDDED,
        log: Log | None = None,
    ) -> None:
        self._log = log_of(settings) if log is None else log
        self._registry = registry
        self._settings = settings
        self._store = store or open_store(settings)
        self._random = random or Random()  # noqa: S311  For jitter, not for secrets.
        self._roles = roles
        self._life: asyncio.Task[None] | None = None
        self._instance: Instance | None = None
        self._body: asyncio.Task[object] | None = None
        self.clock = clock or StoreClock(self._store)
        # What runs here: all that the application declares, and what runs the occurrences of jobs.
        self._runs = with_jobs(registry, self._store, settings=settings, clock=self.clock)
        self.client: Client | None = None
        self.draining = False
        # Others can see by now that it runs, and what.
        self.registered = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._runs.check()
        await self._store.open()
        self.client = Client(
            self._store, self._registry, settings=self._settings, clock=self.clock, log=self._log
        )
        try:
            await self.client.open()
            await self.client.exchange.declare_all()
            await self.client.streams.declare_all()
        except BaseException:
            await self.client.close()
            await self._store.close()
            raise
        self._body = asyncio.current_task()
        self._life = asyncio.create_task(self._live(), name="backstay-roles")
        self._life.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._life is not None
        failed = self._life.done() and not self._life.cancelled() and self._life.exception() is not None
        self._life.cancel()
        # Last in, first out, and each of them whatever the others raise.
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self._store.close)
            if self.client is not None:
                closing.push_async_callback(self.client.close)
            for agent in self._runs.agents.values():
                closing.push_async_callback(agent.close)
            with contextlib.suppress(asyncio.CancelledError):
                if not failed:
                    await self._life
        if failed and isinstance(error, asyncio.CancelledError) and self._body is not None:
            self._body.uncancel()
            await self._life  # Its error is the reason why the body was cancelled.

    # How it stands, and what may be asked of it

    @property
    def instance(self) -> Instance:
        """The one that runs. Raises StoreUnavailable while there is none."""
        if self._instance is None:
            raise StoreUnavailable("this process is not registered in the store yet; try again")
        return self._instance

    def roles(self) -> tuple[str, ...]:
        return as_names(self._roles)

    def deaf(self) -> dict[str, str]:
        """The roles that make no progress although they should. A store that is away makes nobody deaf."""
        return {} if self._instance is None else self._instance.deaf()

    async def supervise(self) -> bool:
        """One round of the supervisor, now; whether it was ours to make."""
        return await self.instance.supervise()

    async def drain(self) -> None:
        """Begin nothing any more and let what is at work end, as long as the settings allow."""
        self.draining = True
        if self._instance is not None:
            await self._instance.drain(self._settings.drain)

    # Instances

    def _ended(self, life: asyncio.Task[None]) -> None:
        """Without its roles the application only seems to run: end it, with the error."""
        if not life.cancelled() and life.exception() is not None and self._body is not None:
            self._body.cancel()

    async def _live(self) -> None:
        """One instance after the other: one that was declared dead starts again under a new id."""
        with set_up_for_roles():
            await self._live_on()

    async def _live_on(self) -> None:
        while not self.draining:
            try:
                owner = await self._register()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                if not self.draining:
                    self._instance = self._new_instance(owner)
                    self.registered.set()
                    await self._instance.run()
            except* LeaseLost:
                emit(INSTANCE_DEAD, instance=owner.id)
            finally:
                self._instance = None
                await self._retire(owner)

    def _new_instance(self, owner: Owner) -> Instance:
        assert self.client is not None
        return Instance(
            owner,
            self._store,
            self._runs,
            settings=self._settings,
            clock=self.clock,
            random=self._random,
            roles=self._roles,
            exchange=self.client.exchange,
            streams=self.client.streams,
        )

    async def _register(self) -> Owner:
        instance = NewInstance(
            id=new_instance_id(),
            host=socket.gethostname(),
            pid=os.getpid(),
            roles=self.roles(),
            runs=tuple(runnables(self._runs, self._settings)) if Role.SCHEDULER in self._roles else (),
        )
        return await self._store.register(instance, now=self.clock.now())

    async def _retire(self, owner: Owner) -> None:
        with contextlib.suppress(Unavailable):
            await asyncio.shield(self._store.retire(owner, now=self.clock.now()))


def new_instance_id() -> str:
    """Fresh for every start: a restarted process must never be taken for the one that died."""
    host = "".join(char if char.isalnum() or char in "-." else "-" for char in socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
