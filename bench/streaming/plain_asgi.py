"""``python -m bench.streaming.plain_asgi URL PORT``: the shortest ASGI application for events.

It reads the body, checks that it is JSON as strictly as we do, appends it to the same log, and answers
202 after the commit. No routes, no access rules, no limits: what uvicorn and ASGI cost at the least.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
import uvicorn
import uvloop

from backstay.clock import SystemClock
from backstay.domain import jsontext
from backstay.domain.stream import Appended, NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from backstay.runtime.http import BACKLOG
from backstay.runtime.interpreter import set_up_for_roles
from bench.streaming.apps import STREAM

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HOST: Final = "127.0.0.1"
_KEY: Final = b"backstay-key"


class PlainAsgi:
    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._clock = SystemClock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await _answer(send, 200, b"{}")
            return
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        [key] = [value for name, value in scope["headers"] if name == _KEY]
        event = NewEvent(body=jsontext.canonical(body), key=key.decode())
        [appended] = await self._log.append(STREAM, [event], now=self._clock.now())
        assert isinstance(appended, Appended)
        told = {"partition": appended.partition, "offset": appended.offset}
        await _answer(send, 202, msgspec.json.encode(told))


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _serve(url: str, port: int) -> None:
    log = EmbeddedLog(url)
    await log.open()
    await log.declare(Stream(name=STREAM), now=SystemClock().now())
    config = uvicorn.Config(
        PlainAsgi(log),
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
    url, port = sys.argv[1:]
    with set_up_for_roles(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(url, int(port)))


if __name__ == "__main__":
    main()
