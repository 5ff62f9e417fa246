"""The HTTP interface on a real socket of this machine, over a store in a file."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import uvicorn

from backstay import console
from backstay.api import Interface, build
from backstay.api.fast_lane import FastLane
from backstay.api.occupancy import Places
from backstay.client import Client
from backstay.console import Samples
from backstay.definitions.registry import Registry
from backstay.domain.access import Role
from backstay.messaging.stream import Log
from backstay.runtime.http import protocol_of
from backstay.runtime.protocol import CONNECTIONS_IN_RESERVE
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.testing import ManualClock
from backstay.vault import Vault
from backstay.web.common import Common
from backstay.web.ports import Ports

HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}


@dataclass
class FakeHealth:
    """A process that is as well as the test says."""

    silent: dict[str, str] = field(default_factory=dict)
    draining: bool = False

    def deaf(self) -> dict[str, str]:
        return self.silent

    def roles(self) -> tuple[str, ...]:
        return ("scheduler", "agents", "supervisor")


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def problem(self) -> str:
        """The slug of the problem that this answer is."""
        assert self.headers["Content-Type"] == "application/problem+json", self
        assert set(self.json) >= {"type", "title", "status", "detail"}, self
        assert self.json["status"] == self.status
        return str(self.json["type"]).removeprefix("urn:backstay:problem:")

    @property
    def detail(self) -> str:
        return str(self.json["detail"])


@dataclass
class Served:
    """A server that runs, and everything behind it."""

    port: int
    store: Store
    client: Client
    clock: ManualClock
    health: FakeHealth
    session: aiohttp.ClientSession
    rounds: int = 0
    #: What the next round of the supervisor says of itself.
    leads: bool = True
    fast_lane: FastLane | None = None
    places: Places = field(default_factory=lambda: Places(0))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def supervise(self) -> bool:
        self.rounds += 1
        return self.leads

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = msgspec.UNSET,
        *,
        token: str | None = None,
        data: Any = None,
        **headers: str,
    ) -> Answer:
        """Ask and read the answer. ``body`` is sent as JSON; ``Idempotency_Key`` stands for a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not msgspec.UNSET:
            data, named = msgspec.json.encode(body), {**JSON, **named}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        async with self.session.request(
            method, f"{self.url}{path}", data=data, headers=named, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.ask("POST", path, body, **options)

    async def put(self, path: str, body: Any = msgspec.UNSET, **options: Any) -> Answer:
        return await self.ask("PUT", path, body, **options)

    async def exactly(self, method: str, target: str, *lines: str, body: bytes = b"") -> int:
        """The status of a request whose every byte is as given; no client tidies its path up."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        head = (f"{method} {target} HTTP/1.1", f"Host: {HOST}:{self.port}", "Connection: close", *lines)
        try:
            writer.write("".join(f"{line}\r\n" for line in head).encode("latin-1") + b"\r\n" + body)
            status_line = await reader.readline()
            await reader.read()
            return int(status_line.split()[1])
        finally:
            writer.close()
            await writer.wait_closed()

    async def token(self, name: str, role: Role) -> str:
        """The secret of a new token, made past the server and known to it at once."""
        secret = await self.client.create_token(name, role)
        self.clock.pass_time(timedelta(seconds=2))
        return secret


@asynccontextmanager
async def serving(
    store: Store, registry: Registry, *, log: Log | None = None, **options: Any
) -> AsyncIterator[Served]:
    """The interface to ``store`` and ``log``, which are open, until the context is left."""
    settings = Settings.load(options, environment={})
    clock, health = ManualClock(), FakeHealth()
    client = Client(store, registry, settings=settings, clock=clock, log=log)
    listening = _listening_socket()
    async with aiohttp.ClientSession() as session:
        served = Served(
            port=listening.getsockname()[1],
            store=store,
            client=client,
            clock=clock,
            health=health,
            session=session,
        )
        ports = Ports(
            client=client,
            settings=settings,
            clock=clock,
            health=health,
            supervise=served.supervise,
            mounts=registry.mounts,
            dials=registry.dials,
        )
        common = Common.of(ports)
        interface = build(common, pages=console.build(common, vault=Vault(), samples=Samples(common)))
        served.fast_lane, served.places = interface.fast_lane, interface.places
        async with _listening(interface, listening, settings):
            yield served
    await client.close()


def _listening_socket() -> socket.socket:
    # With the protocol spelled out: asyncio sends small pieces at once only on sockets that name it, and an
    # answer would wait 40 ms for the acknowledgement of its own head otherwise.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind((HOST, 0))
    listening.listen()
    return listening


@asynccontextmanager
async def _listening(
    interface: Interface, listening: socket.socket, settings: Settings
) -> AsyncIterator[None]:
    config = uvicorn.Config(
        interface.application,
        lifespan="off",
        http=protocol_of(interface),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        limit_concurrency=settings.connections_max + CONNECTIONS_IN_RESERVE,
        timeout_graceful_shutdown=1,
    )
    # As ``serve()`` does it, without its signal handlers and without waiting for its next tick.
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        yield
    finally:
        await server.shutdown(sockets=[listening])
