"""What the two web applications of this example share: bodies that are checked, and problems (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

BODY_BYTES_MAX: Final = 16 * 1024

Kind = TypeVar("Kind")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    status: int
    detail: str


async def body_as(request: Request, kind: type[Kind]) -> Kind:
    """The body as a ``kind``. Raises HTTPException, which names the field and does not repeat its value."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # What a form of another site may send in a visitor's name is never JSON.
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with Content-Type: application/json"
        )
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {BODY_BYTES_MAX:,} bytes"
            )
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the body must be one JSON object") from None


def answer(
    value: Any, *, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json"
    )


def problem(status: int, detail: str, *, headers: dict[str, str] | None = None) -> Response:
    told = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(
        msgspec.json.encode(told), status_code=status, headers=headers, media_type="application/problem+json"
    )


async def refused(_request: Request, error: Exception) -> Response:
    """The problem that an HTTPException stands for: ours, or one of Starlette's own (404, 405)."""
    assert isinstance(error, HTTPException)
    return problem(error.status_code, error.detail, headers=dict(error.headers or {}))
