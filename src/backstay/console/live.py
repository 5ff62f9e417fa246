"""Parts of pages as they change, as server-sent events: one rendering for all who watch the same.

A part is rendered again after a while; whoever saw it as it is hears nothing. What takes long to render is
rendered less often: no part takes more than a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backstay.console.rendering import digest
from backstay.errors import Closed, Unavailable, UnknownTask
from backstay.web.access import Caller
from backstay.web.common import Common
from backstay.web.watchers import BEAT, BEAT_EVERY_SECONDS, may_watch_on

#: How much longer than a rendering took the next one is waited for.
REST: Final = 20

_LINE_END: Final = re.compile(r"\r\n|\r|\n")

#: Gives the part as it is now; None: it will not change any more.
Fragment = Callable[[], Awaitable[str | None]]


class Broadcast:
    """Renders a part again and again, as long as somebody watches."""

    def __init__(self, fragment: Fragment, *, every: timedelta) -> None:
        self._fragment = fragment
        self._every = every.total_seconds()
        self._rendered = asyncio.Event()
        self._rendering = asyncio.create_task(self._render_on(), name="backstay-console-part")
        self.watchers = 0
        self.text: str | None = None
        self.mark = ""

    def close(self) -> None:
        self._rendering.cancel()

    def has_ended(self) -> bool:
        """Whether nothing else will come. Raises what nobody foresaw, if it ended by that."""
        if self._rendering.done():
            self._rendering.result()
            return True
        return False

    async def next(self, *, within: float) -> None:
        """Wait for the next rendering, but no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._rendered.wait()

    async def _render_on(self) -> None:
        time = asyncio.get_running_loop().time
        while True:
            began = time()
            try:
                text = await self._fragment()
            except (UnknownTask, Closed):
                return
            except Unavailable:
                text = self.text  # It may come back, and whoever watches has the time.
            else:
                if text is None:
                    return
            self._show(text)
            await asyncio.sleep(max(self._every, REST * (time() - began)))

    def _show(self, text: str | None) -> None:
        if text is not None and text != self.text:
            self.text, self.mark = text, digest(text)
        self._rendered.set()
        self._rendered = asyncio.Event()


class Broadcasts:
    """One for each part that somebody watches."""

    def __init__(self) -> None:
        self._by_key: dict[str, Broadcast] = {}

    @contextlib.contextmanager
    def on(self, key: str, fragment: Fragment, *, every: timedelta) -> Iterator[Broadcast]:
        """The one of this key, which is there until the last who shares it is gone."""
        broadcast = self._by_key.get(key)
        if broadcast is None or broadcast.has_ended():
            broadcast = self._by_key[key] = Broadcast(fragment, every=every)
        broadcast.watchers += 1
        try:
            yield broadcast
        finally:
            broadcast.watchers -= 1
            if not broadcast.watchers:
                broadcast.close()
                if self._by_key.get(key) is broadcast:
                    del self._by_key[key]


class EventStream(StreamingResponse):
    """Holds its seat until it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        common: Common,
        caller: Caller,
        on: Callable[[], AbstractContextManager[Broadcast]],
        *,
        seen: str,
    ) -> None:
        super().__init__(())
        common.watchers.take_seat()
        self._common = common
        self._caller = caller
        self._on = on
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                await Response(headers=self.headers)(scope, receive, send)
                return
            with self._on() as broadcast:
                self.body_iterator = self._events(broadcast)
                await super().__call__(scope, receive, send)
        finally:
            self._common.watchers.leave_seat()

    async def _events(self, broadcast: Broadcast) -> AsyncIterator[bytes]:
        monotonic = self._common.ports.clock.monotonic
        seen, beat_at = self._seen, monotonic() + BEAT_EVERY_SECONDS
        while await may_watch_on(self._caller, self._common.keyring, self._common.ports.health):
            has_ended = broadcast.has_ended()  # Asked first: then what is seen below is the last.
            if broadcast.text is not None and broadcast.mark != seen:
                seen = broadcast.mark
                yield event("part", broadcast.text)
            if has_ended:
                yield event("end", "")
                return
            if monotonic() >= beat_at:
                beat_at = monotonic() + BEAT_EVERY_SECONDS
                yield BEAT
            await broadcast.next(within=1.0)


def event(name: str, text: str) -> bytes:
    # Whatever ends a line of a stream ends one here, be it in what somebody else has written.
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    return f"event: {name}\n{lines}\n".encode()
