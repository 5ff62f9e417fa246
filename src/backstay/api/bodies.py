"""The body of a request: read no further than it may be long, and taken as JSON in the strictest sense.

What two readers could understand differently is refused: keys that come twice, NaN, half of a surrogate
pair. So is NUL, which not every database can keep.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from backstay.api.problems import BODY_TOO_LARGE, BODY_TOO_SLOW, MEDIA_TYPE_UNSUPPORTED, NOT_JSON, Refused
from backstay.errors import InvalidInput

# Beside the payload there is room for everything else that a body may hold.
MARGIN_BYTES: Final = 64 * 1024
NESTING_MAX: Final = 100
BODY_SECONDS: Final = 30.0

_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')

Kind = TypeVar("Kind")


async def read(request: Request, *, bytes_max: int) -> bytes:
    """The whole body. Raises Refused as soon as it is known to be too long."""
    check_announced(request.headers, bytes_max=bytes_max)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_up_to(request, bytes_max)
    except TimeoutError as error:
        raise too_slow() from error


def check_announced(headers: Headers, *, bytes_max: int) -> None:
    """Raise Refused when the length that the body is said to have is too long."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > bytes_max:
        raise too_large(bytes_max)


async def _read_up_to(request: Request, bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise too_large(bytes_max)
    return bytes(body)


def too_slow() -> Refused:
    return Refused(BODY_TOO_SLOW, f"send the whole body within {BODY_SECONDS:.0f} s")


def too_large(bytes_max: int) -> Refused:
    return Refused(
        BODY_TOO_LARGE,
        f"a body may have {bytes_max:,} bytes (setting payload_bytes_max, and {MARGIN_BYTES:,} for the rest):"
        " store the content elsewhere and pass a reference",
    )


def check_media_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise Refused(
            MEDIA_TYPE_UNSUPPORTED, f"Content-Type is {given[:80]!r}; send JSON as application/json"
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(MEDIA_TYPE_UNSUPPORTED, "send the body without a Content-Encoding")


def parsed(body: bytes) -> Any:
    """The value that ``body`` is the JSON of."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError as error:
        raise _too_deep() from error
    except msgspec.ValidationError as error:  # Only a number can be invalid where any value is.
        raise InvalidInput(f"the body has a number that cannot be kept: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(NOT_JSON, f"the body must be one JSON value: {error}") from error
    # Outside of texts each key has its colon: fewer keys mean that one came twice.
    if _checked_keys(value, level=1) != _TEXT.sub(b"", body).count(b":"):
        raise InvalidInput("the body has an object in which a key comes twice; which one counts?")
    return value


def _checked_keys(value: Any, *, level: int) -> int:
    """How many keys there are in ``value``. Raises for what is nested too deeply, and for NUL."""
    if isinstance(value, str):
        _check_text(value)
        return 0
    if not isinstance(value, (dict, list)):
        return 0
    if level > NESTING_MAX:
        raise _too_deep()
    if isinstance(value, list):
        return sum(_checked_keys(item, level=level + 1) for item in value)
    for key in value:
        _check_text(key)
    return len(value) + sum(_checked_keys(item, level=level + 1) for item in value.values())


def _check_text(text: str) -> None:
    if "\0" in text:
        raise InvalidInput(f"the text {text[:40]!r} holds NUL (\\u0000), which not every store can keep")


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the body is nested more than {NESTING_MAX} levels deep")


def fitted(value: Any, kind: type[Kind]) -> Kind:
    """``value`` as ``kind``. Raises InvalidInput, naming the field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the body does not fit: {error}") from error
