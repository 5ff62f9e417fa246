"""A process that serves until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from typing import Final

from backstay.client import Client
from backstay.definitions.registry import Registry
from backstay.runtime.http import answering, listen
from backstay.runtime.lifespans import started
from backstay.runtime.open_files import with_room
from backstay.runtime.roles import Role, Roles
from backstay.runtime.running import Running
from backstay.settings import Settings

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def serve(
    registry: Registry,
    settings: Settings,
    *,
    roles: Roles,
    ready: Callable[[str | None], None],
    running_with: Callable[[Client], AbstractContextManager[None]],
) -> None:
    """Run the roles until SIGTERM or SIGINT, then stop gracefully: what is at work has ``settings.drain``.

    ``ready`` is called once everything is up, with the address of the HTTP interface if there is one.
    ``running_with`` surrounds the time in which there is a client to work with.
    """
    settings = with_room(settings) if Role.API in roles else settings
    if Role.AGENTS in roles:
        # Takes a while to import: not when the first job is due.
        import backstay.jobs.http_action  # noqa: F401, PLC0415
    stop = asyncio.Event()
    with _stopping_on_signals(stop):
        async with AsyncExitStack() as parts:
            # An address that is taken should be known before the store is touched.
            socket = parts.enter_context(listen(settings)) if Role.API in roles else None
            running = await parts.enter_async_context(Running(registry, settings, roles=roles))
            assert running.client is not None
            parts.enter_context(running_with(running.client))
            address = None
            if socket is not None:
                mounts = await parts.enter_async_context(started(registry.mounts, unless=stop))
                if not stop.is_set():
                    http = answering(
                        running, settings, on=socket, mounts=mounts, dials=registry.dials, ended=stop.set
                    )
                    address = await parts.enter_async_context(http)
            await _first_of(running.registered, stop)
            if not stop.is_set():
                ready(address)
            await stop.wait()
            await running.drain()


async def _first_of(*events: asyncio.Event) -> None:
    """Until one of them is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


@contextmanager
def _stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """The first signal asks to stop; a second one does not wait."""
    loop = asyncio.get_running_loop()
    here = asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and here is not None:
            here.cancel()
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
