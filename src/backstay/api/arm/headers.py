"""What every answer below ``/subscriptions`` carries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstay.api.arm.errors import MEDIA_TYPE
from backstay.clock import Clock

_PREFIX: Final = b"/subscriptions"

#: Nothing is counted here: clients that look at these see what they would see first.
_REMAINING: Final = {"reads": "249", "writes": "59"}
_READING: Final = frozenset({"GET", "HEAD"})
_REGION: Final = "BACKSTAY"
_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")

_ALWAYS: Final = {
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Expires": "-1",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
}


def is_arm(scope: Scope) -> bool:
    """Whether a request is for something below ``/subscriptions``."""
    raw_path: bytes = scope["raw_path"]
    return raw_path[: len(_PREFIX) + 1].lower() in (_PREFIX, _PREFIX + b"/")


class ArmHeaders:
    """Adds to whatever is answered inside what clients of Azure Scheduler were always answered."""

    def __init__(self, inner: ASGIApp, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_arm(scope):
            await self._inner(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._more(scope, message.get("headers", ()))}
            await send(message)

        await self._inner(scope, receive, send_more)

    def _more(self, scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        all_of_them = MutableHeaders(raw=list(headers))
        all_of_them.update(_ALWAYS)
        if all_of_them.get("Content-Type") == "application/json":
            all_of_them["Content-Type"] = MEDIA_TYPE
        given = Headers(scope=scope)
        correlation = _given_id(given.get("x-ms-correlation-request-id")) or str(uuid4())
        at = self._clock.now().strftime("%Y%m%dT%H%M%SZ")
        kind = "reads" if scope["method"] in _READING else "writes"
        all_of_them["x-ms-request-id"] = str(uuid4())
        all_of_them["x-ms-correlation-request-id"] = correlation
        all_of_them["x-ms-routing-request-id"] = f"{_REGION}:{at}:{correlation}"
        all_of_them[f"x-ms-ratelimit-burst-remaining-scheduler-{kind}"] = _REMAINING[kind]
        client = _given_id(given.get("x-ms-client-request-id"))
        if client and given.get("x-ms-return-client-request-id", "").lower() == "true":
            all_of_them["x-ms-client-request-id"] = client
        return all_of_them.raw


def _given_id(value: str | None) -> str | None:
    return value if value is not None and _ID.fullmatch(value) else None
