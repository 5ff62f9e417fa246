"""HTTP/1.1 on one connection: requests out, answers in, in the same order."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Final, NamedTuple, Protocol, cast

from bench.openloop.outcome import Tally

#: An answer with a longer head, or without a length, is none.
HEAD_BYTES_MAX: Final = 64 * 1024

# A head that says how long its body is. No line of it is empty, so that none of the body is taken for one.
_HEAD: Final = re.compile(
    rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n"
    rb"(?:[^\r\n]+\r\n)*?content-length:[ \t]*(\d+)[ \t]*\r\n"
    rb"(?:[^\r\n]+\r\n)*\r\n",
    re.IGNORECASE,
)
_END_OF_HEAD: Final = b"\r\n\r\n"
# Heads that were understood; within a second most are the same, and a server's time is what is measured.
HEADS_KEPT: Final = 256


class Sent(NamedTuple):
    """A request that is under way."""

    number: int
    due: float
    tally: Tally


class Owner(Protocol):
    """Who wants to know what becomes of a connection."""

    def opened(self, connection: Connection) -> None: ...
    def answered(self, connection: Connection, sent: Sent, status: int) -> None: ...
    def lost(self, connection: Connection, reason: str) -> None: ...


class Heads:
    """Heads of answers, each understood once, for all connections."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int] | None] = {}

    def understood(self, head: bytes) -> tuple[int, int] | None:
        """The status, and the length of the body, that a head without its end says; None if it is none."""
        try:
            return self._known[head]
        except KeyError:
            return self._learnt(head)

    def _learnt(self, head: bytes) -> tuple[int, int] | None:
        if len(self._known) == HEADS_KEPT:
            self._known.clear()
        match = _HEAD.fullmatch(head + _END_OF_HEAD)
        found = self._known[head] = None if match is None else (int(match[1]), int(match[2]))
        return found


class Connection(asyncio.Protocol):
    """Whatever is ``under_way`` when the connection is lost has no answer, and gets none."""

    def __init__(self, owner: Owner, heads: Heads) -> None:
        self._owner = owner
        self._heads = heads
        self._rest = b""
        self.under_way: deque[Sent] = deque()
        self.transport: asyncio.Transport
        self.is_open = False
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.is_open = True
        self._owner.opened(self)

    def send(self, request: bytes, sent: Sent) -> None:
        self.under_way.append(sent)
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        begin = 0
        while begin < len(data) and self.is_open:
            end = data.find(_END_OF_HEAD, begin)
            said = self._heads.understood(data[begin:end]) if end >= 0 else None
            if said is None:
                if end >= 0 or len(data) - begin > HEAD_BYTES_MAX:
                    self.give_up("not an answer")
                break
            status, length = said
            end += len(_END_OF_HEAD) + length
            if end > len(data):
                break
            if not self.under_way:
                self.give_up("an answer to nothing")
                return
            begin = end
            self._owner.answered(self, self.under_way.popleft(), status)
        self._rest = data[begin:]

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "closed within an answer" if self._rest else "closed without an answer"
        self._end(reason if exc is None else type(exc).__name__)

    def close(self) -> None:
        """Nobody wants to know any more."""
        self.is_open = False
        self.transport.abort()

    def give_up(self, reason: str) -> None:
        self._end(reason)
        self.transport.abort()

    def _end(self, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self._owner.lost(self, reason)
            self.gone.set()
