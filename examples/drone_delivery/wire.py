"""What all HTTP applications of this example share: checked bodies, answers, and problems (RFC 9457)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

JSON: Final = {"Content-Type": "application/json;charset=utf-8"}
RETRY_AFTER: Final = {"Retry-After": "1"}

BODY_BYTES_MAX: Final = 64 * 1024
BODY_SECONDS: Final = 30.0

# A detail may quote what it refuses.
DETAIL_LENGTH_MAX: Final = 1_000

Value = TypeVar("Value")


class Refused(Exception):
    """A request that is not as it must be."""

    def __init__(self, detail: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(detail)
        self.status = status


# Bodies


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


# Answers


def json(value: object, status: HTTPStatus = HTTPStatus.OK, *, location: str | None = None) -> Response:
    headers = None if location is None else {"Location": location}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def accepted(value: object, headers: Mapping[str, str]) -> Response:
    """202: it will be done; the headers say where and when to ask for it."""
    return Response(msgspec.json.encode(value), HTTPStatus.ACCEPTED, headers={**JSON, **headers})


def nothing(status: HTTPStatus = HTTPStatus.NO_CONTENT) -> Response:
    return Response(status_code=status)


def text(value: str) -> Response:
    return Response(value, media_type="text/plain")


def problem(status: HTTPStatus, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """An answer as RFC 9457 has it."""
    content = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail[:DETAIL_LENGTH_MAX],
    }
    return Response(msgspec.json.encode(content), status, headers, media_type="application/problem+json")


# What Starlette is given to answer errors with


def answer_refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.status, str(error))


def answer_http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, and what whoever stands before us refused."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(re.findall(r"\w+", (error.headers or {}).get("Allow", ""))))
        detail = f"this path takes {allowed}, not {request.method[:20]}"
        return problem(status, detail, headers={"Allow": allowed})
    if status is HTTPStatus.NOT_FOUND:
        return problem(status, "there is nothing at this path; check it")
    return problem(status, error.detail)


def answer_mistake(_request: Request, _error: Exception) -> Response:
    """A mistake of the service, which its log explains."""
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "a mistake of the service, which its log explains; try again"
    )
