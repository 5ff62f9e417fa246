"""Events as lines of JSON: each is judged by itself, and a bad one keeps no good one out.

A line is ``{"body": …, "key": …, "id": …, "headers": {…}}``; all but the body may be left out. It is read
as strictly as a body that comes alone (``jsontext``), and yet many are judged in a moment: what most lines
are like is judged by counting, and only what that cannot tell is looked at piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from backstay.domain import jsontext
from backstay.domain.stream import KEY_LENGTH_MAX, NewEvent, checked_headers, checked_key
from backstay.domain.task import check_id
from backstay.errors import BackstayError, InvalidInput, InvalidRequest, PayloadTooLarge

#: What is said of a line may quote it, and it may be a megabyte.
DETAIL_LENGTH_MAX: Final = 300
#: Beside its body a line has room for everything else.
MARGIN_BYTES: Final = 64 * 1024

_LINE: Final = "the line"


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An event as it is written on a line."""

    body: Any
    key: str | None = None
    id: str | None = None
    headers: dict[str, str] | None = None


class BadLine(msgspec.Struct, frozen=True):
    """A line that was refused, by its number from 1 on, and why."""

    line: int
    error: BackstayError

    @property
    def detail(self) -> str:
        text = str(self.error)
        return text if len(text) <= DETAIL_LENGTH_MAX else f"{text[: DETAIL_LENGTH_MAX - 1]}…"


class Judged(msgspec.Struct, frozen=True):
    """What is in some lines: events, the number of the line of each, and lines that are none."""

    events: list[NewEvent]
    numbers: list[int]
    bad: list[BadLine]

    def add(self, others: Judged) -> None:
        self.events.extend(others.events)
        self.numbers.extend(others.numbers)
        self.bad.extend(others.bad)


_decode_line: Final = msgspec.json.Decoder(Line).decode


def judged(lines: Iterable[bytes], *, first: int = 1, bytes_max: int) -> Judged:
    """Judge lines, the first of which has the number ``first``. A blank line is nothing at all."""
    found = Judged([], [], [])
    for number, text in enumerate(lines, first):
        if not text or text.isspace():
            continue
        try:
            found.events.append(event_in(text, bytes_max=bytes_max))
            found.numbers.append(number)
        except InvalidRequest as error:
            # Without its traceback, which would keep the line, and this frame, alive.
            found.bad.append(BadLine(number, error.with_traceback(None)))
    return found


def event_in(text: bytes, *, bytes_max: int) -> NewEvent:
    """The event that a line is. Raises a kind of InvalidRequest, which says what is wrong with it."""
    # Before anything else: what is far too long is not even looked at.
    if len(text) > bytes_max + MARGIN_BYTES:
        raise PayloadTooLarge(_LINE, size_bytes=len(text), limit_bytes=bytes_max + MARGIN_BYTES)
    event = _seen_at_once(text)
    if event is None:
        event = looked_at(text)
    if len(event.body) > bytes_max:
        raise PayloadTooLarge("the body", size_bytes=len(event.body), limit_bytes=bytes_max)
    return event


def _seen_at_once(text: bytes) -> NewEvent | None:
    """The event that a line is, if that can be told at a glance; None means nothing."""
    if not jsontext.is_plain(text):
        return None
    try:
        line = _decode_line(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None  # What is wrong, it is told when the line is looked at.
    body, key, headers = jsontext.written(line.body), line.key, line.headers
    colons = body.count(b":") + 1
    if key is not None:
        if not 1 <= len(key) <= KEY_LENGTH_MAX:
            return None
        colons += key.count(":") + 1
    if line.id is not None:
        colons += check_id(line.id).count(":") + 1
    if headers is not None:
        colons += jsontext.written(checked_headers(headers)).count(b":") + 1
    # A member that is null is not counted here; such a line is looked at.
    if colons != text.count(b":"):
        return None
    return NewEvent(body=body, key=key, id=line.id, headers=headers)


def looked_at(text: bytes) -> NewEvent:
    """The same, whatever the line is like."""
    # The line itself is one level more than its body may have.
    value = jsontext.value_of(text, _LINE, levels=jsontext.NESTING_MAX + 1)
    try:
        line = msgspec.convert(value, Line)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{_LINE} does not fit: {error}") from error
    return NewEvent(
        body=jsontext.written(line.body),
        key=None if line.key is None else checked_key(line.key),
        id=None if line.id is None else check_id(line.id),
        headers=None if line.headers is None else checked_headers(line.headers),
    )
