"""HTTP/1.1 as uvicorn speaks it with httptools, bounded where that is not.

A head may be so long and take so long, and so many connections may be open. What comes after the head is
bounded by the application, which knows how long a body may be.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The first line and the headers of a request; the end of it is looked for in pieces, so that what comes
# in one great read is bounded as well, to within one of them.
HEAD_BYTES_MAX: Final = 64 * 1024
PIECE_BYTES: Final = 8 * 1024

# From the opening of a connection, or from the last answer on it, until the head of a request is there.
HEAD_SECONDS: Final = 15

# Beyond those that may ask at once: for the ones that are about to close, and for who asks how we are.
CONNECTIONS_IN_RESERVE: Final = 50

_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 36\r\n"
    b"Connection: close\r\n"
    b"\r\n"
    b"The head of the request is too long."
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. ``limit_concurrency`` is how many there may be; one more is closed at once.

    uvicorn means something else by that limit: with so many connections open, idle ones included, it
    answers 503 to every request, and so to whoever asks for the health of the process.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        # Since the last head, part of a body, or end of a request: a head, or trailers, that go on and on.
        self._bytes_without_end = 0
        self._head_due: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._connections_max is not None and len(self.connections) >= self._connections_max:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            if self.transport.is_closing():
                return
            self._piece_received(data[begin : begin + PIECE_BYTES])

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
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_end = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_without_end = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A request that came before this answer was complete is under way now.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._expect_head()

    # The timer. uvicorn's own, for connections that are kept alive, stops at the first byte of a request.

    def _expect_head(self) -> None:
        self._expect_no_head()
        self._head_due = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _expect_no_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None
