"""What mounted applications do before the first request and after the last: the lifespan protocol of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
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

_STARTED: Final = "lifespan.startup.complete"
_NOT_STARTED: Final = "lifespan.startup.failed"
_NOT_ENDED_WELL: Final = "lifespan.shutdown.failed"


@asynccontextmanager
async def started(
    mounts: Mapping[str, AsgiApplication], *, unless: asyncio.Event
) -> AsyncIterator[dict[str, AsgiApplication]]:
    """The applications, each started and, at the end, shut down; only those that were when ``unless`` is set.

    Raises Unavailable when one does not start.
    """
    lifespans: dict[str, Lifespan] = {}
    try:
        for path, application in mounts.items():
            if unless.is_set():
                break
            lifespans[path] = Lifespan(path, application)
            await _until(unless, lifespans[path].start())
            if unless.is_set() and not lifespans[path].is_served:
                lifespans.pop(path).give_up()
        yield {path: lifespan.application for path, lifespan in lifespans.items()}
    finally:
        try:
            deadline = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
            for lifespan in reversed(lifespans.values()):
                await lifespan.end(deadline)
        finally:
            for lifespan in lifespans.values():
                lifespan.give_up()


class Lifespan:
    """One application, whose side of the protocol runs in a task of its own until it is given up.

    An application that ends without having asked for a message knows no lifespan; it is served all the same.
    """

    def __init__(self, path: str, application: AsgiApplication) -> None:
        self._path = path
        self._application = application
        self._state: dict[str, Any] = {}
        self._asked = False
        self._given_up = False
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        # Whether it has started, once it said so.
        self._answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._side = asyncio.create_task(self._run(), name=f"backstay-lifespan {path}")

    @property
    def is_served(self) -> bool:
        """Whether it has started, or knows nothing of starting."""
        if self._answer.done():
            return self._answer.result()
        return self._side.done() and not self._asked

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
        if not self.is_served:
            raise Unavailable(f"the application mounted at '{self._path}' did not start; the log says why")

    async def end(self, deadline: float) -> None:
        """Tell it that there are no more requests, and leave it the time until then."""
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        try:
            async with asyncio.timeout_at(deadline):
                if self._answer.done() and self._answer.result():
                    await asyncio.wait({self._side})
        except TimeoutError:
            log.error("the application mounted at '%s' did not end in time and is left alone", self._path)

    def give_up(self) -> None:
        self._given_up = True
        self._side.cancel()

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, with what it put aside when it started; who calls, we say."""
        state = {**self._state, **scope.get("state", {})}
        await self._application({**scope, "state": state}, receive, send)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._application(scope, self._receive, self._send)
        except asyncio.CancelledError:
            if self._given_up:
                raise
            self._failed("it was cancelled")
        except Exception as error:  # noqa: BLE001  Other people's code may raise anything at all.
            # Without having asked it says in its own way that this is nothing for it.
            if self._asked:
                self._failed(error)
        else:
            if self._asked:
                self._failed("it ended without having started")

    async def _receive(self) -> Message:
        self._asked = True
        return await self._messages.get()

    async def _send(self, message: Message) -> None:
        kind, said = message.get("type"), message.get("message") or "it said no more"
        if kind == _STARTED and not self._answer.done():
            self._answer.set_result(True)
        elif kind == _NOT_STARTED:
            self._failed(said)
        elif kind == _NOT_ENDED_WELL:
            log.error("the application mounted at '%s' did not end well: %s", self._path, said)

    def _failed(self, why: str | BaseException) -> None:
        """It did not start, or, if it had, did not end as it should; told once."""
        if not self._answer.done():
            self._answer.set_result(False)
            told = why if isinstance(why, BaseException) else None
            log.error("the application mounted at '%s' did not start: %s", self._path, why, exc_info=told)
        elif self._answer.result() and isinstance(why, BaseException):
            log.error("the application mounted at '%s' failed", self._path, exc_info=why)


async def _until(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``, but no longer than until the event."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        working.cancel()
    if working.done():
        working.result()
