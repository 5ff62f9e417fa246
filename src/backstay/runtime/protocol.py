"""HTTP/1.1 as uvicorn speaks it with httptools, bounded where that is not.

A head may be so long and take so long, and so many connections may be open. What comes after the head is
bounded by the application, which knows how long a body may be.

Who sends faster than we work is not read, so that it is the sender who waits: while a request is under way
on a connection, little of what follows it is taken, and of a body no more than the application asks for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from backstay.web.ports import CROWDED

# The first line and the headers of a request; the end of it is looked for in pieces, so that what comes
# in one great read is bounded as well, to within one of them.
HEAD_BYTES_MAX: Final = 64 * 1024
PIECE_BYTES: Final = 8 * 1024

# From the opening of a connection, or from the last answer on it, until the head of a request is there.
HEAD_SECONDS: Final = 15
# The same where there are more connections than there should be.
CROWDED_HEAD_SECONDS: Final = 3

# Beyond those that may ask at once: for the ones that are about to close, and for who asks how we are.
CONNECTIONS_IN_RESERVE: Final = 50
# Beyond these: so many more are told, politely, that there is no room. Yet another is closed at once.
CONNECTIONS_TURNED_AWAY: Final = 500

_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 36\r\n"
    b"Connection: close\r\n"
    b"\r\n"
    b"The head of the request is too long."
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. ``limit_concurrency`` is how many there may be before it is too crowded.

    uvicorn means something else by that limit: with so many connections open, idle ones included, it
    answers 503 to every request, and so to whoever asks for the health of the process. Here those who
    were there before are served as ever, and those who came too late are told so by the application,
    which knows whom to tell (``CROWDED`` in the state of the request).
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        self._came_too_late = False
        # Since the last head, part of a body, or end of a request: a head, or trailers, that go on and on.
        self._bytes_without_end = 0
        self._head_due_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        # What was received behind requests that have yet to be answered.
        self._unparsed = b""

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._is_crowded(beyond=CONNECTIONS_TURNED_AWAY):
            self.transport = transport
            transport.abort()
            return
        self._came_too_late = self._is_crowded()
        super().connection_made(transport)
        self.flow = _Flow(transport, may_resume=self._takes_more)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unparsed = b""
        super().connection_lost(exc)
        self._let_go()

    def _let_go(self) -> None:
        """Of what refers to this connection: else it stays until garbage is looked for, which is seldom."""
        for waiting, _ in self.pipeline:  # None of them will begin.
            waiting.on_response = _nothing
        self.pipeline.clear()
        if isinstance(self.flow, _Flow):  # There is none where the connection was closed at once.
            self.flow.let_go()

    def _is_crowded(self, *, beyond: int = 0) -> bool:
        """Whether, before this connection, as many were open as there may be, and so many more."""
        others = len(self.connections) - (self in self.connections)
        return self._connections_max is not None and others >= self._connections_max + beyond

    # What comes in

    def data_received(self, data: bytes) -> None:
        data, self._unparsed = self._unparsed + data, b""
        for begin in range(0, len(data), PIECE_BYTES):
            if self.transport.is_closing():
                return
            if self.pipeline:  # Requests wait already for one that is under way: the rest can wait as well.
                self._unparsed = data[begin:]
                return
            self._piece_received(data[begin : begin + PIECE_BYTES])

    def _parse_on(self) -> None:
        if self._unparsed:
            self.data_received(b"")

    def _takes_more(self) -> bool:
        """Whether more may be read: that of a body, which a request asks for, may be here already."""
        if not self.cycle.response_complete:
            self._parse_on()
        return not self.pipeline and not self._unparsed

    def _piece_received(self, piece: bytes) -> None:
        self._bytes_without_end += len(piece)
        super().data_received(piece)
        if self._bytes_without_end > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse()

    def _refuse(self) -> None:
        # Before the first request there is no cycle, whatever uvicorn declares.
        if self.cycle is None or self.cycle.response_complete:  # type: ignore[redundant-expr]
            self.transport.write(_HEAD_TOO_LARGE)
        # Else an answer is under way, in the midst of which no other has a place.
        self.transport.close()

    # What the parser finds

    def on_headers_complete(self) -> None:
        self._bytes_without_end = 0
        self._expect_no_head()
        # Who came too late may ask again, and be served once others have left.
        self._came_too_late = self._came_too_late and self._is_crowded()
        if self._came_too_late:
            self.scope["state"][CROWDED] = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_end = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_without_end = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        # Unless a request that came before this answer was complete is under way now.
        if self.cycle.response_complete:
            self._expect_head()
            self._parse_on()
            self.flow.resume_reading()

    # The timer. uvicorn's own, for connections that are kept alive, stops at the first byte of a request.

    # One for all requests of a connection: it looks when it rings whether a later time counts by now.

    def _expect_head(self) -> None:
        seconds = CROWDED_HEAD_SECONDS if self._came_too_late else HEAD_SECONDS
        # Never earlier than said before: who came too late may be in time by now, but not the other way.
        self._head_due_at = self.loop.time() + seconds
        if self._timer is None:
            self._timer = self.loop.call_at(self._head_due_at, self._ring)

    def _expect_no_head(self) -> None:
        self._head_due_at = math.inf

    def _ring(self) -> None:
        self._timer = None
        if self._head_due_at <= self.loop.time():
            self.transport.close()
        elif self._head_due_at < math.inf:
            self._timer = self.loop.call_at(self._head_due_at, self._ring)


class _Flow(FlowControl):
    """Reads on only when it may: uvicorn does with every answer, and with every look at a body."""

    def __init__(self, transport: asyncio.Transport, *, may_resume: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._may_resume = may_resume

    def resume_reading(self) -> None:
        if self.read_paused and self._may_resume():
            super().resume_reading()

    def let_go(self) -> None:
        """Of the connection, which is lost."""
        self._may_resume = _never


def _never() -> bool:
    return False


def _nothing() -> None:
    pass
