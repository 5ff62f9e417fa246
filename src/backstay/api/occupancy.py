"""How many requests may be under way."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from backstay.web.ports import CROWDED
from backstay.web.problems import BUSY, RETRY_AFTER_SECONDS, Refused


class Places:
    """So many requests may be under way, whichever way they take."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._taken = 0

    @property
    def taken(self) -> int:
        """How many are under way now."""
        return self._taken

    def is_free(self) -> bool:
        """Whether there is a place for one more."""
        return self._taken < self.number

    def take(self) -> None:
        self._taken += 1

    def give_back(self) -> None:
        self._taken -= 1


class Occupancy:
    """Lets so many requests be under way; one more is refused, unless it asks how the process stands.

    So is one that came by a connection for which there is no room.
    """

    def __init__(self, inner: ASGIApp, places: Places, *, exempt: Collection[str]) -> None:
        self._inner = inner
        self._places = places
        self._exempt = frozenset(path.encode() for path in exempt)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["raw_path"] in self._exempt:
            await self._inner(scope, receive, send)
            return
        if CROWDED in scope.get("state", ()):
            raise _too_busy(f"as many connections are open as may be, beyond {self._places.number:,}")
        if not self._places.is_free():
            raise _too_busy(f"{self._places.number:,} requests are under way, which is the limit")
        self._places.take()
        try:
            await self._inner(scope, receive, send)
        finally:
            self._places.give_back()


def _too_busy(why: str) -> Refused:
    return Refused(
        BUSY,
        f"{why} (setting connections_max); try again in {RETRY_AFTER_SECONDS} s",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
