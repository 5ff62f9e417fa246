"""The HTTP interface: a socket, and a server that answers on it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final

import uvicorn

from backstay import api, console
from backstay.client import Client
from backstay.console import Samples
from backstay.definitions.dials import Dial
from backstay.definitions.mounts import AsgiApplication
from backstay.errors import InvalidSetting, Unavailable
from backstay.runtime.fast_lane import FastProtocol, PlainAnswers
from backstay.runtime.protocol import CONNECTIONS_IN_RESERVE, HEAD_SECONDS, BoundedProtocol
from backstay.runtime.running import Running
from backstay.runtime.stores import vault_of
from backstay.settings import Settings
from backstay.web.access import is_this_machine
from backstay.web.common import Common
from backstay.web.ports import Ports

# Connections that the kernel keeps while we are busy.
BACKLOG: Final = 2_048


class _Server(uvicorn.Server):
    """Signals are ours: a process has more roles than this one."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def answering(
    running: Running,
    settings: Settings,
    *,
    on: socket.socket,
    mounts: Mapping[str, AsgiApplication],
    dials: Mapping[str, Dial],
    ended: Callable[[], None],
) -> AsyncIterator[str]:
    """Answer while the context is open; the address comes out. ``ended`` is called if it stops earlier.

    Raises InvalidSetting when the address would leave the door open to others.
    """
    assert running.client is not None
    await _check_access(running.client, settings)
    ports = Ports(
        client=running.client,
        settings=settings,
        clock=running.clock,
        health=running,
        supervise=running.supervise,
        mounts=mounts,
        dials=dials,
    )
    common = Common.of(ports)
    samples = Samples(common)
    server = _Server(_config(common, samples))
    serving = asyncio.create_task(server.serve(sockets=[on]), name="backstay-http")
    serving.add_done_callback(lambda _task: ended())
    sampling = asyncio.create_task(samples.run(), name="backstay-samples")
    try:
        yield _address(on, settings)
    finally:
        server.should_exit = True
        await serving
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling


def _config(common: Common, samples: Samples) -> uvicorn.Config:
    settings = common.ports.settings
    tls: dict[str, Any] = {}
    if settings.tls_cert:
        tls = {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key}
    pages = console.build(common, vault=vault_of(settings), samples=samples)
    interface = api.build(common, pages=pages)
    config = uvicorn.Config(
        interface.application,
        http=protocol_of(interface),
        ws="none",
        lifespan="off",
        # The application logs what matters; a request that was answered does not.
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Whoever stands in front of us may claim anything about who called.
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=settings.connections_max + CONNECTIONS_IN_RESERVE,
        timeout_keep_alive=HEAD_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.drain.total_seconds())),
        **tls,
    )
    try:
        config.load()
    except OSError as error:  # What ssl raises is one, too.
        raise InvalidSetting(
            f"tls_cert {settings.tls_cert!r} and tls_key {settings.tls_key!r} cannot be used: {error}"
        ) from error
    return config


def protocol_of(interface: api.Interface) -> Any:
    """What uvicorn makes connections with."""
    lane = interface.fast_lane
    if lane is None:
        return BoundedProtocol
    return partial(FastProtocol, lane=lane, answers=PlainAnswers(lane.headers))


@contextmanager
def listen(settings: Settings) -> Iterator[socket.socket]:
    """A socket on the configured address. Raises InvalidSetting, or Unavailable when it is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InvalidSetting(f"host is {settings.host!r}: {error.strerror}") from error
    with socket.socket(family, kind, protocol) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror};"
                " choose another with --port or BACKSTAY_PORT"
            ) from error
        listening.listen(BACKLOG)
        yield listening


async def _check_access(client: Client, settings: Settings) -> None:
    """An open door belongs on loopback only."""
    if is_this_machine(settings.host) or await client.tokens():
        return
    raise InvalidSetting(
        f"host is {settings.host!r}, which others can reach, and no token exists;"
        " create one first: backstay tokens create --name me --role admin"
    )


def _address(listening: socket.socket, settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
