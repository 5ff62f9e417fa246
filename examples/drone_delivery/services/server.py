"""One service as a process: it listens, answers until SIGTERM or SIGINT, and is gone within a second."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import uvicorn
import uvloop

from drone_delivery.services.catalogue import build
from drone_delivery.services.disturbance import Disturbance
from drone_delivery.services.file import ServiceFile
from drone_delivery.services.outbox import tell
from drone_delivery.services.resources import Now, Service

BACKLOG: Final = 2_048
CONNECTIONS_MAX: Final = 4_000

# Longer than callers keep an idle connection, so that none is closed under a request that sets out.
KEEP_ALIVE_SECONDS: Final = 75

# Requests that the faults hold are let go at once; this is for a body that never ends.
STOP_SECONDS: Final = 0.5
HANG_UP_SECONDS: Final = 0.2

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class PortUnusable(Exception):
    """Nobody can listen there; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    service: Service
    host: str
    port: int
    database: Path


def run(settings: Settings, *, chance: Random, now: Now) -> None:
    """Answer until a signal says stop. Raises PortUnusable, FileUnusable."""
    # The port first: whoever starts a service twice is told so before the second one touches the file.
    with (
        _listening(settings) as listening,
        ServiceFile(settings.database, settings.service.schema) as file,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        disturbance = Disturbance(file, now=now, chance=chance)
        application = build(settings.service, file, now=now, disturbance=disturbance)
        config = uvicorn.Config(
            application,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        server = _Server(config, settings, disturbance)
        runner.run(_serve(server, listening, telling=settings.service.stream, file=file))


async def _serve(
    server: _Server, listening: socket.socket, *, telling: str | None, file: ServiceFile
) -> None:
    async with asyncio.TaskGroup() as group:
        told = group.create_task(tell(file, telling), name="outbox") if telling else None
        await server.serve(sockets=[listening])
        if told is not None:
            told.cancel()


class _Server(uvicorn.Server):
    """Says when it listens, and lets go of what the faults hold before it stops."""

    def __init__(self, config: uvicorn.Config, settings: Settings, disturbance: Disturbance) -> None:
        super().__init__(config)
        self._settings = settings
        self._disturbance = disturbance

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again at the end: a stop that was asked for would look like a crash.
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        service, host, port = self._settings.service, self._settings.host, self._settings.port
        print(f"{service.name} service: listens on http://{host}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._disturbance.end()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await super().shutdown(sockets)
        except TimeoutError:
            await self._hang_up()

    async def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=HANG_UP_SECONDS)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise PortUnusable(f"no address for {where}: {error.strerror}; give another --host") from error
    with socket.socket(family, kind, protocol) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            raise PortUnusable(f"cannot listen on {where}: {error.strerror}; give another --port") from error
        yield listening
