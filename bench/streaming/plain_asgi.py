"""``python -m bench.streaming.plain_asgi bare|same URL PORT``: ASGI applications for events, without layers.

*bare* reads the body, checks that it is JSON as strictly as we do, appends it to the same log, and answers
202 after the commit: what uvicorn and ASGI cost at the least. *same* does what the fast lane does: it asks
the same rules who is let in, what may be said and how much, and answers with the same headers.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
import uvicorn
import uvloop

from backstay.api.application import secured
from backstay.api.fast_lane import BODY_BYTES_MAX
from backstay.api.occupancy import Places
from backstay.api.shapes import ID_PATTERN
from backstay.api.streams import EVENT_ID, EVENT_KEY, checked_event, placed
from backstay.clock import SystemClock
from backstay.domain import jsontext
from backstay.domain.access import Role
from backstay.domain.stream import Appended, NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from backstay.runtime.http import BACKLOG
from backstay.runtime.interpreter import set_up_for_roles
from backstay.settings import Settings
from backstay.web import bodies
from backstay.web.access import Visitor, is_allowed
from bench.streaming.apps import STREAM

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HOST: Final = "127.0.0.1"
_KEY: Final = b"backstay-key"
_TARGET: Final = re.compile(rf"/v1/streams/({ID_PATTERN})/events")
#: What no answer of ours leaves without.
_SECURED: Final = secured(())


class BareAsgi:
    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._clock = SystemClock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await _answer(send, 200, b"{}")
            return
        body = await _body_in(receive)
        [key] = [value for name, value in scope["headers"] if name == _KEY]
        event = NewEvent(body=jsontext.canonical(body), key=key.decode())
        [appended] = await self._log.append(STREAM, [event], now=self._clock.now())
        assert isinstance(appended, Appended)
        told = {"partition": appended.partition, "offset": appended.offset}
        await _answer(send, 202, msgspec.json.encode(told))


class SameAsgi:
    """What the fast lane does, as a handler; what it would leave to the layers is refused."""

    def __init__(self, log: EmbeddedLog) -> None:
        settings = Settings()
        self._log = log
        self._clock = SystemClock()
        self._places = Places(settings.connections_max)
        self._bytes_max = settings.payload_bytes_max

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await _answer(send, 200, b"{}")
            return
        target = _TARGET.fullmatch(scope["path"])
        given = _headers_in(scope)
        if target is None or not _is_let_in(scope, given) or not self._places.is_free():
            await _answer(send, 403, b"{}")
            return
        self._places.take()
        try:
            told = await self._append(target[1], given, await _body_in(receive))
        finally:
            self._places.give_back()
        await _answer(send, 202, told, _SECURED)

    async def _append(self, stream: str, given: dict[str, list[str]], body: bytes) -> bytes:
        event = checked_event(
            stream,
            body,
            key=EVENT_KEY.checked(given["backstay-key"]) if "backstay-key" in given else None,
            id=EVENT_ID.checked(given["backstay-id"]) if "backstay-id" in given else None,
            bytes_max=self._bytes_max,
        )
        [appended] = await self._log.append(stream, [event], now=self._clock.now())
        assert isinstance(appended, Appended)
        return msgspec.json.encode(placed(appended))


def _headers_in(scope: Message) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        given.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return given


def _is_let_in(scope: Message, given: dict[str, list[str]]) -> bool:
    visitor = Visitor(
        method=scope["method"],
        path=scope["path"],
        address=scope["client"][0],
        host=given.get("host", ()),
        origin=given.get("origin", ()),
        fetch_site=given.get("sec-fetch-site", ()),
        authorization=given.get("authorization", ()),
    )
    [content_type], [length] = given["content-type"], given["content-length"]
    is_json = bodies.media_type_in(content_type) == bodies.JSON
    return is_json and int(length) <= BODY_BYTES_MAX and is_allowed(visitor, (), Role.SUBMIT)


async def _body_in(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    return body


async def _answer(
    send: Send, status: int, body: bytes, more: list[tuple[bytes, bytes]] | tuple[()] = ()
) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


APPLICATIONS: Final[dict[str, Callable[[EmbeddedLog], Any]]] = {"bare": BareAsgi, "same": SameAsgi}


async def _serve(kind: str, url: str, port: int) -> None:
    log = EmbeddedLog(url)
    await log.open()
    await log.declare(Stream(name=STREAM), now=SystemClock().now())
    config = uvicorn.Config(
        APPLICATIONS[kind](log),
        host=HOST,
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
    )
    await uvicorn.Server(config).serve()
    await log.close()


def main() -> None:
    kind, url, port = sys.argv[1:]
    with set_up_for_roles(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(kind, url, int(port)))


if __name__ == "__main__":
    main()
