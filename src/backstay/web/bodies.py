"""The body of a request: read no further than it may be long, and taken as JSON in the strictest sense.

How strict that is: ``backstay.domain.jsontext``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from backstay.errors import InvalidInput
from backstay.web.problems import BODY_TOO_LARGE, BODY_TOO_SLOW, MEDIA_TYPE_UNSUPPORTED, Refused

# Beside the payload there is room for everything else that a body may hold.
MARGIN_BYTES: Final = 64 * 1024
BODY_SECONDS: Final = 30.0

JSON: Final = "application/json"

Kind = TypeVar("Kind")


async def read(request: Request, *, bytes_max: int, remedy: str | None = None) -> bytes:
    """The whole body. Raises Refused as soon as it is known to be too long."""
    check_announced(request.headers, bytes_max=bytes_max, remedy=remedy)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_up_to(request, bytes_max, remedy)
    except TimeoutError as error:
        raise too_slow() from error


def check_announced(headers: Headers, *, bytes_max: int, remedy: str | None = None) -> None:
    """Raise Refused when the length that the body is said to have is too long."""
    announced = announced_bytes(headers)
    if announced is not None and announced > bytes_max:
        raise too_large(bytes_max, remedy)


def announced_bytes(headers: Headers) -> int | None:
    """How long the body is said to be, if that is said."""
    announced = headers.get("content-length", "")
    return int(announced) if announced.isdecimal() else None


async def _read_up_to(request: Request, bytes_max: int, remedy: str | None) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise too_large(bytes_max, remedy)
    return bytes(body)


def too_slow() -> Refused:
    return Refused(BODY_TOO_SLOW, f"send the whole body within {BODY_SECONDS:.0f} s")


def too_large(bytes_max: int, remedy: str | None = None) -> Refused:
    return Refused(
        BODY_TOO_LARGE,
        f"a body may have {bytes_max:,} bytes"
        + (
            remedy
            or f" (setting payload_bytes_max, and {MARGIN_BYTES:,} for the rest):"
            " store the content elsewhere and pass a reference"
        ),
    )


def check_media_type(request: Request) -> None:
    given = media_type(request)
    if given != JSON:
        raise Refused(
            MEDIA_TYPE_UNSUPPORTED, f"Content-Type is {given[:80]!r}; send JSON as application/json"
        )
    check_encoding(request)


def media_type(request: Request) -> str:
    return media_type_in(request.headers.get("content-type", ""))


def media_type_in(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_encoding(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(MEDIA_TYPE_UNSUPPORTED, "send the body without a Content-Encoding")


def fitted(value: Any, kind: type[Kind]) -> Kind:
    """``value`` as ``kind``. Raises InvalidInput, naming the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body does not fit: {error}") from error
