"""The layers around the table of routes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from backstay.api import bodies
from backstay.api.access import Guard, Guesses, keyring
from backstay.api.admission import Admission
from backstay.api.calls import Service
from backstay.api.contents import Lobby
from backstay.api.health import hindrance
from backstay.api.lookouts import Lookouts
from backstay.api.mounts import Mounts
from backstay.api.openapi import document
from backstay.api.ports import CROWDED, Ports
from backstay.api.problems import (
    BUSY,
    RETRY_AFTER_SECONDS,
    Refused,
    as_refusal,
    mistake,
    response_of,
)
from backstay.api.queue_gauges import sampled_gauges
from backstay.api.routes import ROUTES
from backstay.api.routing import router
from backstay.api.stream_metrics import stream_standings
from backstay.api.watchers import Watchers
from backstay.observe import log

SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def build(ports: Ports) -> ASGIApp:
    """The application; it needs a running event loop and lives as long as the client in ``ports``."""
    client, settings, clock = ports.client, ports.settings, ports.clock
    service = Service(
        ports=ports,
        admission=Admission(
            # One more than the limit would tell as much as any number beyond it.
            lambda: client.backlog(at_most=settings.backlog_limit + 1),
            limit=settings.backlog_limit,
            clock=clock,
        ),
        keyring=keyring(client.token_records, clock),
        hindrance=hindrance(client, clock),
        watchers=Watchers(settings.watchers_max),
        lookouts=Lookouts(client),
        queue_gauges=sampled_gauges(client.exchange.queues, clock),
        lobby=Lobby(),
        stream_standings=stream_standings(client, clock),
        document=document(ROUTES),
    )
    open_paths = [route.path for route in ROUTES if route.role is None]
    mounts = Mounts(
        router(ROUTES, service),
        ports.mounts,
        admission=service.admission,
        bytes_max=settings.payload_bytes_max + bodies.MARGIN_BYTES,
    )
    guard = Guard(mounts, service.keyring, Guesses(clock), open_paths=open_paths)
    return Border(Occupancy(guard, requests_max=settings.connections_max, exempt=open_paths))


class Border:
    """Whatever goes wrong inside leaves as a problem, and nothing leaves without the security headers."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, Sending(send))
            case "websocket":
                await WebSocketClose()(scope, receive, send)
            case _:
                await self._inner(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Sending) -> None:
        try:
            await self._inner(scope, receive, send)
        except ClientDisconnect:
            return  # Nobody is left to be told.
        except Exception as error:  # The border: what nobody foresaw ends here, and is logged.
            refusal = as_refusal(error)
            if refusal is None:
                log.error("a request failed: %s %r", scope["method"], scope["path"], exc_info=error)
            if send.complete:
                return  # Whoever raised it has answered as well, as Starlette does.
            if send.started:
                raise  # It is too late for another answer; the server cuts the connection.
            await response_of(refusal or mistake())(scope, receive, send)


class Occupancy:
    """Lets so many requests be under way; one more is refused, unless it asks how the process stands.

    So is one that came by a connection for which there is no room.
    """

    def __init__(self, inner: ASGIApp, *, requests_max: int, exempt: Collection[str]) -> None:
        self._inner = inner
        self._requests_max = requests_max
        self._exempt = frozenset(path.encode() for path in exempt)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["raw_path"] in self._exempt:
            await self._inner(scope, receive, send)
            return
        if CROWDED in scope.get("state", ()):
            raise _too_busy(f"as many connections are open as may be, beyond {self._requests_max:,}")
        if self._under_way >= self._requests_max:
            raise _too_busy(f"{self._requests_max:,} requests are under way, which is the limit")
        self._under_way += 1
        try:
            await self._inner(scope, receive, send)
        finally:
            self._under_way -= 1


def _too_busy(why: str) -> Refused:
    return Refused(
        BUSY,
        f"{why} (setting connections_max); try again in {RETRY_AFTER_SECONDS} s",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


class Sending:
    """``send``, with the security headers, and remembering how far the answer is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            # ASGI lets an application leave them out, and send the same list every time.
            message = {**message, "headers": list(message.get("headers", ()))}
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
        if message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
