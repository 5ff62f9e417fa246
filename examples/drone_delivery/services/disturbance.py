"""Applies the faults of the dial to requests: the shell around the rule in ``faults``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from http import HTTPStatus
from random import Random
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from drone_delivery.services.faults import (
    FOR_SECONDS_MAX,
    Dial,
    Failure,
    Faults,
    Setting,
    draw,
    in_force,
    turned,
)
from drone_delivery.services.file import ServiceFile
from drone_delivery.services.resources import Now
from drone_delivery.wire import decode, json, problem, read_body

DIAL_PATH: Final = "/faults"

# A hang without an end of its own ends with the patience of any caller.
HANG_SECONDS_MAX: Final = FOR_SECONDS_MAX

_OUTAGE: Final = problem(HTTPStatus.SERVICE_UNAVAILABLE, "the fault dial says outage; try again later")
_HUNG: Final = problem(
    HTTPStatus.SERVICE_UNAVAILABLE, "the fault dial said hang; nothing was done, try again"
)
_BEFORE: Final = problem(
    HTTPStatus.SERVICE_UNAVAILABLE, "an error of the fault dial; nothing was done, try again"
)
_AFTER: Final = problem(
    HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the fault dial; the work may be done, try again"
)


class Disturbance:
    """The dial of one service: kept in its file, asked at each request."""

    def __init__(self, file: ServiceFile, *, now: Now, chance: Random) -> None:
        self._file = file
        self._now = now
        self._chance = chance
        kept = file.read_dial()
        self._setting = Setting() if kept is None else msgspec.json.decode(kept, type=Setting)
        self._turned = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def dial(self) -> Dial:
        """As it is now."""
        return in_force(self._setting, self._now())

    def turn(self, dial: Dial) -> None:
        """Replace the whole dial, and let go of requests that hang."""
        setting = turned(dial, self._now())
        self._file.keep_dial(msgspec.json.encode(setting).decode())
        self._setting = setting
        self._turned.set()
        self._turned = asyncio.Event()

    def end(self) -> None:
        """Hold nothing any longer: the process is about to stop."""
        self._turned.set()
        self._ended.set()

    def draw(self) -> Faults:
        return draw(self.dial, self._chance)

    async def pause(self, seconds: float) -> None:
        if seconds > 0:
            await _first_of(self._ended.wait(), seconds=seconds)

    async def hang(self, receive: Receive) -> None:
        """Come back when the dial is turned, when the hang is over, or when the caller hangs up."""
        if self._ended.is_set():
            return
        ends_at = self._setting.ends_at
        seconds = HANG_SECONDS_MAX if ends_at is None else (ends_at - self._now()).total_seconds()
        await _first_of(self._turned.wait(), _hung_up(receive), seconds=max(0.0, seconds))

    def routes(self) -> list[Route]:
        async def dial(request: Request) -> Response:
            if request.method == "PUT":
                self.turn(decode(await read_body(request), Dial))
            return json(self.dial)

        return [Route(DIAL_PATH, dial, methods=["GET", "PUT"])]


class DisturbanceMiddleware:
    """Lets the requests for one resource meet their faults."""

    def __init__(self, app: ASGIApp, disturbance: Disturbance) -> None:
        self._app = app
        self._disturbance = disturbance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        faults = self._disturbance.draw()
        if faults.failure is Failure.OUTAGE:
            await _OUTAGE(scope, receive, send)
            return
        if faults.failure is Failure.HANG:
            await self._disturbance.hang(receive)
            await _HUNG(scope, receive, send)
            return
        arrived = await _arrived(scope, receive)
        await self._disturbance.pause(faults.seconds_before)
        if faults.failure is Failure.BEFORE_WORK:
            await _BEFORE(scope, receive, send)
            return
        answer = await self._answer(scope, arrived)
        await self._disturbance.pause(faults.seconds_after)
        if faults.failure is Failure.AFTER_WORK:
            await _AFTER(scope, receive, send)
            return
        for message in answer:
            await send(message)

    async def _answer(self, scope: Scope, receive: Receive) -> list[Message]:
        """The work done, and what is to be sent when the time has come."""
        answer: list[Message] = []

        async def hold_back(message: Message) -> None:
            answer.append(message)

        await self._app(scope, receive, hold_back)
        return answer


async def _arrived(scope: Scope, receive: Receive) -> Receive:
    """The request with its whole body, which a caller who hangs up from now on does not take back.

    So it is with a network that is slow: the caller has given up, and the request takes effect all the same.
    """
    body = await read_body(Request(scope, receive))

    async def replay() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # The body, for which nobody has a use.


async def _first_of(*events: Coroutine[Any, Any, object], seconds: float) -> None:
    """Come back after the first of ``events``, or when time is up."""
    waiting = [asyncio.ensure_future(event) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiting:
            waiter.cancel()
