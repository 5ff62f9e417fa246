"""Applications of the user's own, on the same port and behind the same guard as the routes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstay.api.admission import Admission
from backstay.domain.access import Role
from backstay.web import bodies
from backstay.web.problems import Refused

_LOOKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HANDING_IN: Final = frozenset({"POST", "PUT"})


class Mounts:
    """Hands a request to the application that is mounted where its path leads; any other goes on inside.

    Who looks needs the role ``read``, everybody else ``submit``. While too many tasks wait, POST and PUT
    are refused here as well.
    """

    def __init__(
        self, inner: ASGIApp, mounts: Mapping[str, ASGIApp], *, admission: Admission, bytes_max: int
    ) -> None:
        self._inner = inner
        self._mounts = {path.encode(): mounted for path, mounted in mounts.items()}
        self._admission = admission
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._path(scope["raw_path"]) if scope["type"] == "http" else None
        if path is None:
            await self._inner(scope, receive, send)
            return
        scope["state"]["caller"].check_may(Role.READ if scope["method"] in _LOOKING else Role.SUBMIT)
        bodies.check_announced(Headers(scope=scope), bytes_max=self._bytes_max)
        if scope["method"] in _HANDING_IN:
            await self._admission.check()
        await self._hand_over(path, scope, receive, send)

    async def _hand_over(self, path: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        body = BoundedBody(receive, bytes_max=self._bytes_max)
        mount = path.decode()
        # The mount itself is the application's "/"; without the slash routers would redirect to it.
        seen = f"{mount}/" if scope["path"] == mount else scope["path"]
        try:
            await self._mounts[path]({**scope, "path": seen, "root_path": mount}, body, send)
        except BodyRefused as refused:
            raise refused.reason from refused

    def _path(self, raw_path: bytes) -> bytes | None:
        """The one that the request's path, with nothing decoded, lies below. No two contain each other."""
        return next((path for path in self._mounts if _below(raw_path, path)), None)


def _below(raw_path: bytes, path: bytes) -> bool:
    return raw_path == path or raw_path.startswith(path + b"/")


class BodyRefused(HTTPException):
    """Starlette and what is built on it answer with its status; from any other application it comes back."""

    def __init__(self, reason: Refused) -> None:
        super().__init__(reason.kind.status, str(reason))
        self.reason = reason


class BoundedBody:
    """``receive``: a body no longer than it may be, and within the time that it may take."""

    def __init__(self, receive: Receive, *, bytes_max: int) -> None:
        self._receive = receive
        self._bytes_max = bytes_max
        self._bytes = 0
        self._whole = False
        self._seconds = bodies.BODY_SECONDS

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()  # That the caller has left, whenever that is.
        now = asyncio.get_running_loop().time
        asked = now()
        try:
            async with asyncio.timeout(self._seconds):
                message = await self._receive()
        except TimeoutError:
            raise BodyRefused(bodies.too_slow()) from None
        # What the application does between two pieces is not the caller's fault.
        self._seconds -= now() - asked
        self._bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._bytes > self._bytes_max:
            raise BodyRefused(bodies.too_large(self._bytes_max))
        return message
