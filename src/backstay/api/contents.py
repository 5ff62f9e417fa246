"""Events as the body of a request: one JSON value, or lines of them, taken as they come."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import msgspec
from starlette.requests import Request

from backstay.messaging.lines import LINES_BYTES_MAX
from backstay.web import bodies
from backstay.web.problems import MEDIA_TYPE_UNSUPPORTED, NOT_JSON, Refused

NDJSON: Final = "application/x-ndjson"

# Lines of more bytes than this, or of nobody knows how many, are large; so many of such bodies are in hand.
LARGE_BYTES: Final = 1024 * 1024
LARGE_AT_ONCE: Final = 8

_EXPECTED: Final = f"send one event as {bodies.JSON}, or lines of events as {NDJSON}"
_FEWER: Final = ": send fewer lines at once"


class Content(msgspec.Struct, frozen=True):
    """A body as it came, for a handler that reads it itself: one JSON value, or lines of them."""

    data: bytes
    lines: bool


class Lobby:
    """Where large bodies wait for their turn, so that what is held of all of them together is bounded.

    Nothing is read of one that waits: it is its sender who keeps it.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE)

    def turn(self, request: Request) -> AbstractAsyncContextManager[Any]:
        """The body of ``request`` is read, and made something of, inside this."""
        return self._turns if _is_large(request) else nullcontext()


def _is_large(request: Request) -> bool:
    if bodies.media_type(request) != NDJSON:
        return False
    length = bodies.announced_bytes(request.headers)
    return length is None or length > LARGE_BYTES


async def read(request: Request, *, bytes_max: int) -> Content:
    """One JSON value of up to ``bytes_max`` bytes, or lines of more together. Raises Refused."""
    given = bodies.media_type(request)
    lines = given == NDJSON
    if lines:
        data = await bodies.read(request, bytes_max=LINES_BYTES_MAX, remedy=_FEWER)
    else:
        data = await bodies.read(request, bytes_max=bytes_max)
    if not data:
        raise Refused(NOT_JSON, f"the body is empty; {_EXPECTED}")
    if not lines and given != bodies.JSON:
        raise Refused(MEDIA_TYPE_UNSUPPORTED, f"Content-Type is {given[:80]!r}; {_EXPECTED}")
    bodies.check_encoding(request)
    return Content(data, lines)
