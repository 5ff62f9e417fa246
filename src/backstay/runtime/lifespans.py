"""What mounted applications do before the first request and after the last: the lifespan protocol of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from backstay.definitions.mounts import AsgiApplication
from backstay.errors import Unavailable
from backstay.observe import log

# Each of them, one after the other: who starts later may need who started before.
STARTUP_SECONDS: Final = 60.0
# All of them together, in the opposite order; after that the process ends without them.
SHUTDOWN_SECONDS: Final = 10.0

_COMPLETE: Final = "lifespan.startup.complete"
_FAILED: Final = "lifespan.startup.failed"


@asynccontextmanager
async def started(
    mounts: Mapping[str, AsgiApplication], *, unless: asyncio.Event
) -> AsyncIterator[dict[str, AsgiApplication]]:
    """The applications, each started and, at the end, shut down; no more of them once ``unless`` is set.

    Raises Unavailable when one does not start.
    """
    lifespans: dict[str, Lifespan] = {}
    try:
        for path, application in mounts.items():
            lifespans[path] = Lifespan(path, application)
            await _first_of(lifespans[path].start(), unless.wait())
            if unless.is_set():
                break
        yield {path: lifespan.application for path, lifespan in lifespans.items()}
    finally:
        deadline = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
        for lifespan in reversed(lifespans.values()):
            await lifespan.end(deadline)


class Lifespan:
    """One application, whose side of the protocol runs in a task of its own until ``end``.

    An application that ends without having asked for a message knows no lifespan; it is served all the same.
    """

    def __init__(self, path: str, application: AsgiApplication) -> None:
        self._path = path
        self._application = application
        self._state: dict[str, Any] = {}
        self._asked = False
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._side = asyncio.create_task(self._run(), name=f"backstay-lifespan {path}")

    async def start(self) -> None:
        """Until it has started. Raises Unavailable when it does not."""
        self._messages.put_nowait({"type": "lifespan.startup"})
        either: set[asyncio.Future[Any]] = {self._side, self._answer}
        try:
            async with asyncio.timeout(STARTUP_SECONDS):
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise Unavailable(
                f"the application mounted at '{self._path}' did not start within {STARTUP_SECONDS:.0f} s"
            ) from None
        if self._has_said(_FAILED):
            raise Unavailable(f"the application mounted at '{self._path}' did not start; the log says why")

    async def end(self, deadline: float) -> None:
        """Tell it that there are no more requests, if it has started; it is stopped in any case."""
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        try:
            if self._has_said(_COMPLETE):
                async with asyncio.timeout_at(deadline):
                    await asyncio.wait({self._side})
        except TimeoutError:
            log.error("the application mounted at '%s' did not end in time and is left alone", self._path)
        finally:
            self._side.cancel()

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, with what it put aside when it started; who calls, we say."""
        state = {**self._state, **scope.get("state", {})}
        await self._application({**scope, "state": state}, receive, send)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._application(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001  Other people's code may raise anything at all.
            # Without having asked it says in its own way that this is nothing for it.
            if self._asked:
                log.error("the application mounted at '%s' failed", self._path, exc_info=error)
                self._say({"type": _FAILED})

    async def _receive(self) -> Message:
        self._asked = True
        return await self._messages.get()

    async def _send(self, message: Message) -> None:
        self._say(message)

    def _say(self, message: Message) -> None:
        if not self._answer.done():
            self._answer.set_result(message)

    def _has_said(self, kind: str) -> bool:
        return self._answer.done() and self._answer.result()["type"] == kind


async def _first_of(work: Awaitable[None], other: Awaitable[object]) -> None:
    """Do ``work``, but no longer than until ``other`` is there."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(other)
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not working.done():
            working.cancel()
    if working.done() and not working.cancelled():
        working.result()
