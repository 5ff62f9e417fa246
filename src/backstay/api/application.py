"""The layers around the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from backstay.api.admission import Admission
from backstay.api.arm import routes as arm_routes
from backstay.api.arm.errors import response_to
from backstay.api.arm.headers import ArmHeaders, is_arm
from backstay.api.arm.router import arm_router
from backstay.api.calls import Service
from backstay.api.contents import Lobby
from backstay.api.fast_lane import FastLane
from backstay.api.health import hindrance
from backstay.api.lookouts import Lookouts
from backstay.api.mounts import Mounts
from backstay.api.occupancy import Occupancy, Places
from backstay.api.openapi import document
from backstay.api.routes import ROUTES
from backstay.api.routing import as_response, router
from backstay.api.streams import Accepted, append_events
from backstay.messaging.posting import Posting
from backstay.observe import log
from backstay.web import bodies
from backstay.web.access import Guard
from backstay.web.common import Common
from backstay.web.ports import FAILED, Pages
from backstay.web.problems import Refused, as_refusal, mistake, response_of

SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Interface(msgspec.Struct, frozen=True):
    """The application, and the way past it for those requests that it is shown to be right for."""

    application: ASGIApp
    fast_lane: FastLane | None
    #: Of the requests that are under way, by whichever way.
    places: Places


def build(common: Common, *, pages: Pages | None = None) -> Interface:
    """The interface; it needs a running event loop and lives as long as the client in its ports.

    What ``pages`` has is answered by them, inside the same border and under the same bounds.
    """
    ports = common.ports
    client, settings, clock = ports.client, ports.settings, ports.clock
    service = Service(
        ports=ports,
        admission=Admission(
            # One more than the limit would tell as much as any number beyond it.
            lambda: client.backlog(at_most=settings.backlog_limit + 1),
            limit=settings.backlog_limit,
            clock=clock,
        ),
        keyring=common.keyring,
        hindrance=hindrance(client, clock),
        watchers=common.watchers,
        lookouts=Lookouts(client),
        queue_gauges=common.queue_gauges,
        task_gauges=common.task_gauges,
        lobby=Lobby(),
        stream_standings=common.stream_standings,
        document=document((*ROUTES, *arm_routes.ROUTES)),
    )
    open_paths = [route.path for route in ROUTES if route.role is None]
    mounts = Mounts(
        _by_manner(router(ROUTES, service), arm_router(service)),
        ports.mounts,
        admission=service.admission,
        bytes_max=settings.payload_bytes_max + bodies.MARGIN_BYTES,
    )
    guard = Guard(mounts, common.keyring, common.guesses, open_paths=open_paths)
    inside = guard if pages is None else _beside(pages, guard)
    places = Places(settings.connections_max)
    return Interface(
        ArmHeaders(Border(Occupancy(inside, places, exempt=open_paths)), clock),
        _fast_lane(service, places) if settings.fast_lane else None,
        places,
    )


def _beside(pages: Pages, ours: ASGIApp) -> ASGIApp:
    async def by_path(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and pages.has(scope["raw_path"])
        await (pages if is_page else ours)(scope, receive, send)

    return by_path


def _by_manner(ours: ASGIApp, arm: ASGIApp) -> ASGIApp:
    async def by_path(scope: Scope, receive: Receive, send: Send) -> None:
        is_theirs = scope["type"] == "http" and is_arm(scope)
        await (arm if is_theirs else ours)(scope, receive, send)

    return by_path


def _fast_lane(service: Service, places: Places) -> FastLane:
    ports = service.ports
    [route] = [route for route in ROUTES if route.handler is append_events]
    return FastLane(
        Posting(ports.client.streams, ports.clock),
        service.keyring,
        places,
        role=route.role,
        payload_bytes_max=ports.settings.payload_bytes_max,
        headers=secured(as_response(Accepted(), route).raw_headers),
    )


def secured(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The same headers, and those that nothing leaves without."""
    all_of_them = MutableHeaders(raw=list(headers))
    for name, value in SECURITY_HEADERS.items():
        all_of_them.setdefault(name, value)
    return all_of_them.raw


class Border:
    """Whatever goes wrong inside leaves as an error of its manner, nothing without the security headers."""

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
            # It is not tried again: nobody knows of every failure whether nothing was appended.
            if FAILED in scope.get("state", ()):
                raise scope["state"][FAILED]
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
            await _answer_to(error, refusal or mistake(), scope)(scope, receive, send)


def _answer_to(error: Exception, refusal: Refused, scope: Scope) -> Response:
    if is_arm(scope):
        return response_to(error, refusal, scope["raw_path"].decode("latin-1"))
    return response_of(refusal)


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
            message = {**message, "headers": secured(message.get("headers", ()))}
        await self._send(message)
        if message["type"] == "http.response.body":
            self.complete = not message.get("more_body", False)
