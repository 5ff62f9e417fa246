"""What a route is, and how a request becomes the call of its handler.

A handler's annotations are the route's contract: what it takes from path, query and body, and what it
answers. The request is checked against them, and the OpenAPI document is written from them.
"""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from backstay.api import contents
from backstay.api.calls import Call, Header, Nothing, Reply, Service
from backstay.api.contents import Content
from backstay.api.parameters import Parameters, query_pairs
from backstay.domain import jsontext
from backstay.domain.access import Role
from backstay.errors import BackstayError
from backstay.web import bodies
from backstay.web.paths import Paths
from backstay.web.problems import METHOD_NOT_ALLOWED, NOT_JSON, UNKNOWN_PATH, Kind, Refused

Handler = Callable[[Call[Any, Any, Any]], Awaitable[Any]]

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True)
class Shape:
    """The types that a handler declares."""

    path: Any
    query: Any
    body: Any
    answer: Any

    @cached_property
    def in_path(self) -> Parameters[Any]:
        return Parameters(self.path)

    @cached_property
    def in_query(self) -> Parameters[Any]:
        return Parameters(self.query)

    @cached_property
    def body_may_be_missing(self) -> bool:
        """A body in which everything may be left out may be left out itself."""
        return self.body is Any or not any(field.required for field in msgspec.structs.fields(self.body))


@dataclass(frozen=True, kw_only=True)
class Route:
    """One line of the table."""

    method: str
    path: str
    handler: Handler
    summary: str
    # What a caller must be allowed; ``None``: nothing at all, not even a token.
    role: Role | None
    # The first is the usual one.
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    # Beside those that follow from the shape of the route.
    problems: tuple[type[BackstayError] | Kind, ...] = ()
    headers: tuple[Header, ...] = ()
    # What is answered, by its status, where refusals are no problems of ours.
    refusals: Mapping[HTTPStatus, type] | None = None

    @property
    def takes_body(self) -> bool:
        return self.method in _WITH_BODY

    @cached_property
    def takes_content(self) -> bool:
        """Whether the handler reads the body itself."""
        return self.shape.body is Content

    @cached_property
    def shape(self) -> Shape:
        hints = typing.get_type_hints(self.handler, include_extras=True)
        answer = hints["return"]
        [answer] = typing.get_args(answer) if typing.get_origin(answer) is Reply else [answer]
        path, query, body = typing.get_args(hints["call"])
        return Shape(path, query, body, answer)


def router(routes: Iterable[Route], service: Service) -> ASGIApp:
    """Finds the route of a request by its raw path: ``%2F`` is part of a name and never a slash."""
    paths: Paths[Resource] = Paths()
    for path, resource in resources(routes, service).items():
        paths.add(path, resource)

    async def by_raw_path(scope: Scope, receive: Receive, send: Send) -> None:
        found = paths.find(scope["raw_path"].decode("latin-1"))
        if found is None:
            raise Refused(UNKNOWN_PATH, "there is nothing at this path; /openapi.json lists what there is")
        resource, names = found
        await resource({**scope, "path_params": names}, receive, send)

    return by_raw_path


def resources(routes: Iterable[Route], service: Service) -> dict[str, Resource]:
    """What there is, by its path."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    return {path: Resource(methods, service) for path, methods in by_path.items()}


class Resource:
    """Everything at one path."""

    def __init__(self, methods: Mapping[str, Route], service: Service) -> None:
        self._routes = {**methods, **({"HEAD": methods["GET"]} if "GET" in methods else {})}
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        route = self._route(request.method)
        request.state.caller.check_may(route.role)
        if route.takes_content:
            async with self._service.lobby.turn(request):
                response = await self._answered(route, request)
        else:
            response = await self._answered(route, request)
        await response(scope, receive, send)

    async def _answered(self, route: Route, request: Request) -> Response:
        return as_response(await route.handler(await _call(route, request, self._service)), route)

    def _route(self, method: str) -> Route:
        route = self._routes.get(method)
        if route is None:
            allowed = ", ".join(sorted(self._routes))
            raise Refused(
                METHOD_NOT_ALLOWED,
                f"this path takes {allowed}, not {method[:20]}",
                headers={"Allow": allowed},
            )
        return route


async def _call(route: Route, request: Request, service: Service) -> Call[Any, Any, Any]:
    shape = route.shape
    return Call(
        service=service,
        caller=request.state.caller,
        # Decoded once, and here: what is left of a percent sign after this is part of the name.
        path=shape.in_path.taken_from((name, unquote(text)) for name, text in request.path_params.items()),
        query=shape.in_query.taken_from(query_pairs(request.scope["query_string"])),
        headers=_headers(route, request),
        body=await _body(route, request, service) if route.takes_body else Nothing(),
        hung_up=partial(_hung_up, request),
    )


async def _hung_up(request: Request) -> None:
    """To be asked once the body was read: what comes then is that nobody is there."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _headers(route: Route, request: Request) -> dict[str, str]:
    given = ((header, request.headers.getlist(header.name)) for header in route.headers)
    return {header.name: header.checked(values) for header, values in given if values}


async def _body(route: Route, request: Request, service: Service) -> Any:
    bytes_max = service.ports.settings.payload_bytes_max + bodies.MARGIN_BYTES
    if route.takes_content:
        return await contents.read(request, bytes_max=bytes_max)
    raw = await bodies.read(request, bytes_max=bytes_max)
    if raw:
        bodies.check_media_type(request)
        return bodies.fitted(jsontext.value_of(raw), route.shape.body)
    if not route.shape.body_may_be_missing:
        raise Refused(NOT_JSON, "the body is empty; send a JSON object")
    return None if route.shape.body is Any else route.shape.body()


def as_response(answer: Any, route: Route) -> Response:
    """What a handler gave back, as it is sent."""
    if isinstance(answer, Response):
        return answer
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    status = reply.status or route.statuses[0]
    if status == HTTPStatus.NO_CONTENT:
        return Response(status_code=status, headers=reply.headers)
    return Response(
        msgspec.json.encode(reply.value),
        status_code=status,
        headers=reply.headers,
        media_type="application/json",
    )
