"""Plain requests that append events, answered by the protocol itself; others go to the application.

    bytes ──► one plain request? ── yes ──► the log ──► appended? ── yes ──► the answer
                     │ no                                   │ no
                     └──────────────► parser, ASGI ◄────────┘   the same bytes, and why not

A connection has one request under way at a time, by whichever way: so answers are in order. What comes behind
it is kept, and no more is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from backstay.api.fast_lane import FastLane, Outcome
from backstay.api.plain_heads import BEGINNING, END, HEAD_BYTES_MAX, PlainHead, plain_head
from backstay.runtime.protocol import BoundedProtocol
from backstay.web.ports import FAILED

#: Many send a body right after its head. One that does not come at once is waited for by the application.
PATIENCE_SECONDS: Final = 1.0

#: Of answers, until the next second.
HEADS_KEPT: Final = 256

_ACCEPTED: Final = 202

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class Beginning:
    """A request of which a part of the body has yet to come."""

    head: PlainHead
    body_from: int
    data: bytearray
    missing: int
    patience: asyncio.TimerHandle


class FastProtocol(BoundedProtocol):
    """One connection."""

    def __init__(self, *args: Any, lane: FastLane, answers: PlainAnswers, **options: Any) -> None:
        super().__init__(*args, **options)
        self._lane = lane
        self._answers = answers
        self._beginning: Beginning | None = None
        # The request that is under way by the fast lane.
        self._taken: bytes | None = None
        # The parser is in the midst of a request.
        self._parsing = False
        # What became of it, if it is to be told by the application.
        self._failed: Exception | None = None
        self._is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._door = self._lane.connected(self.client[0] if self.client else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """No more requests; one that is under way is answered."""
        self._is_ending = True
        if self._taken is None:
            self._leave_to_application(self._stop_waiting())
            super().shutdown()

    # What comes in

    def data_received(self, data: bytes) -> None:
        if self._beginning is not None:
            self._go_on(self._beginning, data)
            return
        if self._unparsed:
            data, self._unparsed = self._unparsed + data, b""
        if self._taken is not None:
            self._unparsed = data
            self.flow.pause_reading()
        elif not (self._is_free() and self._begin(data)):
            super().data_received(data)

    def _is_free(self) -> bool:
        """Whether nothing else is under way, and whoever is there reads what they are answered."""
        return (
            not self._parsing
            # Before the first request of its own there is no cycle, whatever uvicorn declares.
            and (self.cycle is None or self.cycle.response_complete)  # type: ignore[redundant-expr]
            and not self._came_too_late
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _begin(self, data: bytes) -> bool:
        """Take the request with which ``data`` begins; whether it is taken."""
        end = data.find(END, 0, HEAD_BYTES_MAX) if data.startswith(BEGINNING) else -1
        head = plain_head(data[:end]) if end > 0 else None
        if head is None or not self._door.lets_in(head.shown) or not self._lane.may_take(head):
            return False
        body_from = end + len(END)
        missing = body_from + head.length - len(data)
        if missing > 0:
            self._wait_for_the_rest(Beginning(head, body_from, bytearray(data), missing, self._patience()))
            return True
        return self._append(head, data, body_from)

    def _append(self, head: PlainHead, data: bytes, body_from: int) -> bool:
        body_to = body_from + head.length
        found = self._lane.judged(head, data[body_from:body_to])
        if found is None:
            return False
        self._expect_no_head()
        self._unset_keepalive_if_required()
        self._taken, self._unparsed = data[:body_to], data[body_to:]
        if self._unparsed:
            self.flow.pause_reading()
        self._lane.append(head, found, self._answer)
        return True

    # A body that comes in pieces

    def _patience(self) -> asyncio.TimerHandle:
        return self.loop.call_later(PATIENCE_SECONDS, self._lose_patience)

    def _wait_for_the_rest(self, beginning: Beginning) -> None:
        self._expect_no_head()
        self._unset_keepalive_if_required()
        self._beginning = beginning

    def _go_on(self, beginning: Beginning, data: bytes) -> None:
        beginning.data += data
        beginning.missing -= len(data)
        if beginning.missing > 0:
            return
        whole = self._stop_waiting()
        # Others may have come first meanwhile.
        if not (
            self._lane.may_take(beginning.head) and self._append(beginning.head, whole, beginning.body_from)
        ):
            self._leave_to_application(whole)

    def _lose_patience(self) -> None:
        self._leave_to_application(self._stop_waiting())

    def _stop_waiting(self) -> bytes:
        """What has come of a request so far, which is no longer waited for here."""
        beginning, self._beginning = self._beginning, None
        if beginning is None:
            return b""
        beginning.patience.cancel()
        return bytes(beginning.data)

    def _leave_to_application(self, data: bytes) -> None:
        """Untouched, and what came behind it after it."""
        behind, self._unparsed = self._unparsed, b""
        if data and not self.transport.is_closing():
            super().data_received(data + behind)

    # The answer

    def _answer(self, outcome: Outcome) -> None:
        taken, self._taken = self._taken, None
        assert taken is not None
        if self.transport.is_closing():
            return  # Nobody is left to be told.
        if isinstance(outcome, bytes):
            default = self.server_state.default_headers
            self.transport.write(self._answers.text(outcome, default, is_last=self._is_ending))
        else:
            self._failed = outcome
            self._leave_to_application(taken)
        if self._is_ending:
            super().shutdown()
        elif isinstance(outcome, bytes):
            self._expect_head()
            if self._unparsed:
                self._parse_on()
            if self.flow.read_paused:
                self.flow.resume_reading()

    def _takes_more(self) -> bool:
        if self._taken is not None:
            return False
        if self.cycle is None:
            return not self._unparsed  # type: ignore[unreachable]
        return super()._takes_more()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._parsing = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self._failed is not None:
            self.scope["state"][FAILED], self._failed = self._failed, None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        # Behind a wish for another protocol the parser reads nothing more, and so nothing more is HTTP.
        self._parsing = self.parser.should_upgrade()
        super().on_message_complete()


class PlainAnswers:
    """Plain answers as the application's go out, for all connections; what does not change is prepared."""

    def __init__(self, headers: Headers) -> None:
        names = [name for name, _ in headers]
        length = names.index(b"content-length")
        self._first = headers[:length]
        self._rest = b"\r\n" + _lines(headers[length + 1 :])
        self._default: Headers | None = None
        self._begin = b""
        # By the length of the body; most are as long as many others.
        self._heads: dict[int, bytes] = {}

    def text(self, body: bytes, default: Headers, *, is_last: bool) -> bytes:
        """The whole answer. ``default`` is what the server sends with every one, such as the date."""
        if default is not self._default:
            self._default = default
            self._begin = STATUS_LINE[_ACCEPTED] + _lines([*default, *self._first]) + b"content-length: "
            self._heads.clear()
        if is_last:
            return self._head(len(body), b"connection: close\r\n") + body
        head = self._heads.get(len(body))
        return (self._kept_head(len(body)) if head is None else head) + body

    def _kept_head(self, length: int) -> bytes:
        if len(self._heads) == HEADS_KEPT:
            self._heads.clear()
        head = self._heads[length] = self._head(length)
        return head

    def _head(self, length: int, more: bytes = b"") -> bytes:
        return b"%b%d%b%b\r\n" % (self._begin, length, self._rest, more)


def _lines(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % (name.lower(), value) for name, value in headers)
