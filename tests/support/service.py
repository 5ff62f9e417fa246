"""A real HTTP service on this machine, for the tests of agents that call one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOST = "127.0.0.1"


async def fine(_request: web.Request) -> web.Response:
    return web.json_response({"drone_id": "drone-7"})


async def never(_request: web.Request) -> web.Response:
    return await asyncio.get_running_loop().create_future()


def says(status: int, text: str = "", **headers: str) -> Answer:
    """An answer that is always the same; ``Retry_After`` stands for the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=text.encode(), headers=named)

    return answer


class HttpService:
    """Answers with ``answers`` in turn, the last of them for ever, and remembers what it was asked."""

    def __init__(self, port: int, *, scheme: str = "http") -> None:
        self.port = port
        self.scheme = scheme
        self.answers: list[Answer] = [fine]
        self.asked: list[web.Request] = []
        self.inside = 0
        self.inside_most = 0
        self.server: web.Server | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def open_connections(self) -> int:
        return 0 if self.server is None else len(self.server.connections)

    def headers(self, name: str) -> list[str | None]:
        """What each request said in that header."""
        return [request.headers.get(name) for request in self.asked]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        await request.read()
        self.asked.append(request)
        self.inside += 1
        self.inside_most = max(self.inside_most, self.inside)
        try:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return await answer(request)
        finally:
            self.inside -= 1


@asynccontextmanager
async def http_service(
    *answers: Answer, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpService]:
    """A service that runs until the context is left; requests that hang are dropped then."""
    service = HttpService(port, scheme="http" if tls is None else "https")
    service.answers = list(answers) or service.answers
    application = web.Application(client_max_size=1024**3)
    application.router.add_route("*", "/{path:.*}", service.handle)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port, ssl_context=tls)
        await site.start()
        [(_, service.port)] = runner.addresses
        service.server = runner.server
        yield service
    finally:
        await runner.cleanup()


def dead_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
