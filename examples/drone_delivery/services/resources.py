"""What a service is made of, and how a request becomes the call of its handler.

A handler is a plain function that is called inside a transaction. What it returns is committed before it is
sent, a 404 or 409 as well. What it raises is rolled back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from drone_delivery.entities import Id
from drone_delivery.services.file import ServiceFile
from drone_delivery.wire import Refused, decode, problem, read_body

KEY_LENGTH_MAX: Final = 1_000
#: Makes the ids that are derived from keys those of these services.
MADE_IDS: Final = uuid.UUID("0d4c6f0e-6c3e-4d57-8a53-6a0d0a7c51b3")

Body = TypeVar("Body")
Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Body]):
    """One request, checked, inside its transaction."""

    file: ServiceFile
    id: str
    #: The caller's idempotency key, where it sent one.
    key: str | None
    now: datetime
    body: Body


@dataclass(frozen=True, slots=True)
class Operation:
    """What a service does with one method; ``body`` is the type of what it wants to be sent."""

    work: Callable[[Call[Any]], Response]
    body: Any = None


@dataclass(frozen=True, slots=True)
class Resource:
    """A path, as a rule with ``{id}`` in it, and what it takes."""

    path: str
    operations: Mapping[str, Operation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that tells one service from the others."""

    name: str
    resources: tuple[Resource, ...]
    #: The tables that it has beside those that all have.
    schema: str = ""
    #: Where the world is told what happens in it, if it has an outbox.
    stream: str | None = None


def route_of(resource: Resource, file: ServiceFile, *, now: Now, around: Middleware) -> Route:
    async def answer(request: Request) -> Response:
        operation = resource.operations["GET" if request.method == "HEAD" else request.method]
        named = _named(request)
        body = None if operation.body is None else decode(await read_body(request), operation.body)
        with file.transaction():
            return operation.work(Call(file=file, id=named, key=_checked_key(request), now=now(), body=body))

    booked = Middleware(Booking, file=file, path=resource.path)
    return Route(resource.path, answer, methods=list(resource.operations), middleware=[booked, around])


class Booking:
    """Counts the requests that come under a key, whatever becomes of them."""

    def __init__(self, app: ASGIApp, file: ServiceFile, path: str) -> None:
        self._app = app
        self._file = file
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        key, named = _checked_key(request), _named(request)
        if key is not None:
            self._file.book(key, f"{request.method} {self._path}", id=named)
        await self._app(scope, receive, send)


def _named(request: Request) -> str:
    """The id in the path. Where it has none one is made: under one key the same."""
    if "id" in request.path_params:
        return _checked_id(request.path_params["id"])
    key = _checked_key(request)
    return str(uuid.uuid4() if key is None else uuid.uuid5(MADE_IDS, key))


def _checked_id(id: str) -> str:
    try:
        return msgspec.convert(id, Id)
    except msgspec.ValidationError as error:
        raise Refused(f"the id in the path is {id!r}: {error}; use another id") from error


def _checked_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise Refused(
            f"Idempotency-Key has {len(key)} characters; send 1 to {KEY_LENGTH_MAX:,}, or leave it out"
        )
    return key


def check_same_id(call: Call[Any], field: str, *, value: str) -> None:
    """Raises Refused when the body names another thing than the path."""
    if value != call.id:
        raise Refused(f"{field} is {value!r} in the body and {call.id!r} in the path; send the same in both")


def not_found(what: str, id: str) -> Response:
    return problem(HTTPStatus.NOT_FOUND, f"there is no {what} {id!r}, or it is cancelled; check the id")


def is_cancelled(what: str, id: str) -> Response:
    return problem(HTTPStatus.CONFLICT, f"{what} {id!r} is cancelled and stays so; use another id")
