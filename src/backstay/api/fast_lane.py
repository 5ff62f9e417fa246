"""The fast lane: plain requests that append events, taken without the layers around the table of routes.

It takes only what those layers would accept, and asks the same rules: who is let in, what an event is, how
many requests may be under way. Whatever else it is shown is left as it is to the layers. What the log refuses
is left to them together with the refusal: they know what to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from backstay.api.occupancy import Places
from backstay.api.plain_heads import PlainHead, Shown
from backstay.api.streams import checked_event, taken_in
from backstay.domain.access import Role, Token
from backstay.domain.ndjson import Judged
from backstay.domain.stream import NewEvent
from backstay.errors import BackstayError, InvalidRequest, UnknownStream
from backstay.messaging.lines import PART_BYTES, judged_at_once, told_of
from backstay.messaging.posting import Answers, Posting
from backstay.web.access import Keyring, Visitor, is_allowed
from backstay.web.bodies import MARGIN_BYTES
from backstay.web.problems import Refused

#: A longer body is left to the layers, which need not hold it before they look at it.
BODY_BYTES_MAX: Final = PART_BYTES

#: The body of the plain answer; or what the layers are to say is wrong; None: they are to try.
Outcome = bytes | Exception | None
Answered = Callable[[Outcome], None]

_encode: Final = msgspec.json.Encoder().encode


class FastLane:
    """One for all connections."""

    def __init__(
        self,
        posting: Posting,
        keyring: Keyring,
        places: Places,
        *,
        role: Role | None,
        payload_bytes_max: int,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> None:
        self._posting = posting
        self._keyring = keyring
        self._places = places
        self._role = role
        self._payload_bytes_max = payload_bytes_max
        self._body_bytes_max = min(BODY_BYTES_MAX, payload_bytes_max + MARGIN_BYTES)
        #: Of the plain answer; the length in them is that of no answer at all.
        self.headers = headers
        #: How many requests it has taken.
        self.taken = 0

    def connected(self, address: str | None) -> Doorkeeper:
        """Who lets in what comes by a connection from ``address``."""
        return Doorkeeper(self._keyring, address, role=self._role)

    def may_take(self, head: PlainHead) -> bool:
        """Whether a request with this head is taken, if its body is good."""
        return (
            head.length <= self._body_bytes_max
            and self._places.is_free()
            and self._posting.takes(head.stream)
        )

    def judged(self, head: PlainHead, body: bytes) -> NewEvent | Judged | None:
        """The event of a request, or its lines; None when the layers are to judge."""
        if head.lines:
            found = judged_at_once(body, bytes_max=self._payload_bytes_max)
            return found if found is not None and found.events else None
        try:
            return checked_event(
                head.stream, body, key=head.key, id=head.id, bytes_max=self._payload_bytes_max
            )
        except InvalidRequest:
            return None

    def append(self, head: PlainHead, found: NewEvent | Judged, answered: Answered) -> None:
        """Append what was judged; ``answered`` is called once that is durable, or refused."""
        self.taken += 1
        self._places.take()
        if isinstance(found, Judged):
            self._posting.post(head.stream, found.events, partial(self._lines_told, found, answered))
        else:
            self._posting.post(head.stream, (found,), partial(self._event_told, answered))

    def _event_told(self, answered: Answered, answers: Answers | BackstayError) -> None:
        self._places.give_back()
        if isinstance(answers, BackstayError):
            answered(_refused(answers))
            return
        [answer] = answers
        # As it is, an answer is written in the same way as what the route makes of it (``streams.placed``).
        answered(answer if isinstance(answer, BackstayError) else _encode(answer))

    def _lines_told(self, found: Judged, answered: Answered, answers: Answers | BackstayError) -> None:
        self._places.give_back()
        answered(_refused(answers) if isinstance(answers, BackstayError) else _summed_up(found, answers))


def _refused(error: BackstayError) -> Outcome:
    # Another process may have made the stream, and the log with it: the layers look.
    return None if isinstance(error, UnknownStream) else error


def _summed_up(found: Judged, answers: Answers) -> Outcome:
    try:
        return _encode(taken_in(told_of(found, answers)))
    except Refused as refused:
        return refused


class Doorkeeper:
    """Says whether what comes by one connection is let in. Who shows the same again is known."""

    def __init__(self, keyring: Keyring, address: str | None, *, role: Role | None) -> None:
        self._keyring = keyring
        self._address = address
        self._role = role
        self._tokens: list[Token] | None = None
        self._shown: Shown | None = None
        self._lets_in = False

    def lets_in(self, shown: Shown) -> bool:
        """Whether the guard would; False, too, when it would have to look the tokens up first."""
        tokens = self._keyring.fresh()
        if tokens is None:
            return False
        if tokens is not self._tokens or shown != self._shown:
            self._tokens, self._shown = tokens, shown
            self._lets_in = is_allowed(self._visitor(shown), tokens, self._role)
        return self._lets_in

    def _visitor(self, shown: Shown) -> Visitor:
        return Visitor(
            method="POST",
            path="",  # Of paths, the guard knows only those that are open to everybody.
            address=self._address,
            host=shown.host,
            origin=shown.origin,
            fetch_site=shown.fetch_site,
            authorization=shown.authorization,
        )
