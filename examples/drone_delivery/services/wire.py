"""Requests as they come in, checked and booked; answers and problems as they go out.

A handler is a plain function that is called inside a transaction. What it returns is committed before it is
sent, a 404 or 409 as well. What it raises is rolled back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from drone_delivery.entities import Id
from drone_delivery.services.file import ServiceFile

BODY_BYTES_MAX: Final = 64 * 1024
BODY_SECONDS: Final = 30.0
KEY_LENGTH_MAX: Final = 1_000

# A detail may quote what it refuses.
DETAIL_LENGTH_MAX: Final = 1_000

Body = TypeVar("Body")
Value = TypeVar("Value")
Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Body]):
    """One request, checked, inside its transaction."""

    file: ServiceFile
    id: str
    now: datetime
    body: Body


@dataclass(frozen=True, slots=True)
class Operation:
    """What a service does with one method; ``body`` is the type of what it wants to be sent."""

    work: Callable[[Call[Any]], Response]
    body: Any = None


@dataclass(frozen=True, slots=True)
class Resource:
    """A path with ``{id}`` in it, and what it takes."""

    path: str
    operations: Mapping[str, Operation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that tells one service from the others."""

    name: str
    resources: tuple[Resource, ...]
    #: The tables that it has beside those that all have.
    schema: str = ""


class Refused(Exception):
    """A request that is not as it must be."""

    def __init__(self, detail: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(detail)
        self.status = status


# Requests


def route_of(resource: Resource, file: ServiceFile, *, now: Now, around: Middleware) -> Route:
    async def answer(request: Request) -> Response:
        operation = resource.operations["GET" if request.method == "HEAD" else request.method]
        named = _checked_id(request.path_params["id"])
        body = None if operation.body is None else decode(await read_body(request), operation.body)
        with file.transaction():
            return operation.work(Call(file=file, id=named, now=now(), body=body))

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
        key, named = _checked_key(request), _checked_id(request.path_params["id"])
        if key is not None:
            self._file.book(key, f"{request.method} {self._path}", id=named)
        await self._app(scope, receive, send)


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


async def read_body(request: Request) -> bytes:
    """The whole body. Raises Refused as soon as it is known to be too long."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise _too_large()
    except TimeoutError:
        raise Refused(
            f"the body took longer than {BODY_SECONDS:.0f} s; send it at once", HTTPStatus.REQUEST_TIMEOUT
        ) from None
    except ClientDisconnect:
        raise Refused("the caller hung up before the end of the body; send all of it") from None
    return bytes(body)


def _too_large() -> Refused:
    return Refused(
        f"the body has more than {BODY_BYTES_MAX:,} bytes; send less", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    )


def decode(body: bytes, kind: type[Value]) -> Value:
    """``body`` as ``kind``. Raises Refused, naming the field and what is expected of it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refused(f"the body does not fit: {error}; change it there") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the body must be one JSON value: {error}") from error


def check_same_id(call: Call[Any], field: str, *, value: str) -> None:
    """Raises Refused when the body names another thing than the path."""
    if value != call.id:
        raise Refused(f"{field} is {value!r} in the body and {call.id!r} in the path; send the same in both")


# Answers


def json(value: object, status: HTTPStatus = HTTPStatus.OK, *, location: str | None = None) -> Response:
    headers = None if location is None else {"Location": location}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def nothing(status: HTTPStatus = HTTPStatus.NO_CONTENT) -> Response:
    return Response(status_code=status)


def text(value: str) -> Response:
    return Response(value, media_type="text/plain")


def problem(status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """An answer as RFC 9457 has it."""
    content = {"title": status.phrase, "status": status.value, "detail": detail[:DETAIL_LENGTH_MAX]}
    return Response(msgspec.json.encode(content), status, headers, media_type="application/problem+json")


def not_found(what: str, id: str) -> Response:
    return problem(HTTPStatus.NOT_FOUND, f"there is no {what} {id!r}, or it is cancelled; check the id")


def is_cancelled(what: str, id: str) -> Response:
    return problem(HTTPStatus.CONFLICT, f"{what} {id!r} is cancelled and stays so; use another id")


# What Starlette is given to answer errors with


def answer_refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.status, str(error))


def answer_http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(re.findall(r"\w+", (error.headers or {}).get("Allow", ""))))
        detail = f"this path takes {allowed}, not {request.method[:20]}"
        return problem(status, detail, headers={"Allow": allowed})
    return problem(status, "there is nothing at this path; check it")


def answer_mistake(_request: Request, _error: Exception) -> Response:
    """A mistake of the service, which its log explains."""
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "a mistake of the service, which its log explains; try again"
    )
