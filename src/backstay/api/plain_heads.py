"""The head of a request that appends events, judged by its bytes: plain, or not. Pure.

Plain is what every reader of HTTP understands in the same way, and what needs none of the rarer rules. Of
anything else nothing is said here: whoever takes any request takes that one as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from backstay.api.contents import NDJSON
from backstay.api.shapes import ID_PATTERN
from backstay.api.streams import EVENT_ID, EVENT_KEY
from backstay.domain.stream import KEY_LENGTH_MAX
from backstay.web import bodies

#: With what a plain request begins, and with what its head ends.
BEGINNING: Final = b"POST /v1/streams/"
END: Final = b"\r\n\r\n"
#: A longer head is not plain.
HEAD_BYTES_MAX: Final = 2 * 1024
# Who sends often sends the same head, all but for its length, to the same streams.
HEADS_KEPT: Final = 2_048

# Nothing in a query that would have to be decoded.
_KEY: Final = rf"[A-Za-z0-9._:@~/-]{{1,{KEY_LENGTH_MAX}}}"
_FIRST_LINE: Final = re.compile(
    rf"POST /v1/streams/(?P<stream>{ID_PATTERN})/events"
    rf"(?:\?(?:key=(?P<key>{_KEY})(?:&id=(?P<id>{ID_PATTERN}))?"
    rf"|id=(?P<id_2>{ID_PATTERN})(?:&key=(?P<key_2>{_KEY}))?))? HTTP/1\.1".encode()
)
# Neither folded, nor empty, nor with anything around the value but the one space before it.
_VALUE: Final = rb"([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)"
_HEADER: Final = re.compile(rb"([A-Za-z0-9-]+): ?" + _VALUE)


def _without_groups(pattern: str) -> str:
    return pattern.replace("(", "(?:")


# What is another for every event, and stands apart from what a sender always says: two groups a line, of
# which one is there. What is not as it should be is left where it is, and is not plain.
_split_off_event: Final = re.compile(
    r"\r\n(?i:backstay)-(?:"
    rf"(?i:key): ?({_without_groups(EVENT_KEY.pattern)})|(?i:id): ?({_without_groups(EVENT_ID.pattern)})"
    r")(?=\r\n|\Z)".encode()
).split
_LENGTH: Final = re.compile(r"[0-9]{1,9}")

#: What says something about the request itself: given twice, it is not plain.
_ONCE: Final = frozenset(
    {
        "authorization", "connection", "content-length", "content-type", "host", "origin", "sec-fetch-site",
    }
)  # fmt: skip
#: What changes how a request is read, or answered; and what says something of an event, and is not well said.
_UNUSUAL: Final = frozenset(
    {
        "content-encoding", "expect", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
        EVENT_KEY.name.lower(), EVENT_ID.name.lower(),
    }
)  # fmt: skip


class Shown(msgspec.Struct, frozen=True):
    """What the guard looks at; each is given once, or not at all."""

    host: tuple[str, ...]
    origin: tuple[str, ...]
    fetch_site: tuple[str, ...]
    authorization: tuple[str, ...]


class Target(msgspec.Struct, frozen=True):
    """What the first line says."""

    stream: str
    key: str | None = None
    id: str | None = None


class Headers(msgspec.Struct, frozen=True):
    """What the other lines say, but for those that say something of the event itself."""

    length: int
    lines: bool
    shown: Shown


class PlainHead(msgspec.Struct, frozen=True, gc=False):
    """What there is to know of a plain request before its body."""

    stream: str
    key: str | None
    id: str | None
    # How many bytes the body has, and whether they are lines of events.
    length: int
    lines: bool
    shown: Shown


def plain_head(head: bytes) -> PlainHead | None:
    """What ``head`` says, which is given without its END; None when it is not plain."""
    rest, *named = _split_off_event(head)
    if not named:
        return _understood_of(rest)
    known = _understood_of(rest + b"".join(named[2::3]))
    if known is None or known.lines:  # Of lines, each says its own.
        return None
    return _with_event(known, named)


def _with_event(known: PlainHead, named: Sequence[bytes | None]) -> PlainHead | None:
    """With what was split off: lines that say something of the event. None if anything is said twice."""
    key, event_id = known.key, known.id
    for begin in range(0, len(named), 3):
        said_key, said_id = named[begin], named[begin + 1]
        if said_key is not None and key is None:
            key = said_key.decode()
        elif said_id is not None and event_id is None:
            event_id = said_id.decode()
        else:
            return None
    return PlainHead(known.stream, key, event_id, known.length, known.lines, known.shown)


def _understood_of(head: bytes) -> PlainHead | None:
    # Keys and ids in a query are not kept: the next event has others.
    has_query = b"?" in head and b"?" in head.partition(b"\r\n")[0]
    return _understood_head(head) if has_query else _known_head(head)


def _understood_head(head: bytes) -> PlainHead | None:
    line, line_break, rest = head.partition(b"\r\n")
    target, headers = _target(line), _headers(line_break + rest)
    if target is None or headers is None:
        return None
    if headers.lines and (target.key, target.id) != (None, None):
        return None
    return PlainHead(target.stream, target.key, target.id, headers.length, headers.lines, headers.shown)


_known_head: Final = lru_cache(maxsize=HEADS_KEPT)(_understood_head)


def _target(line: bytes) -> Target | None:
    match = _FIRST_LINE.fullmatch(line)
    if match is None:
        return None
    key, event_id = match["key"] or match["key_2"], match["id"] or match["id_2"]
    return Target(
        match["stream"].decode(), key.decode() if key else None, event_id.decode() if event_id else None
    )


def _headers(text: bytes) -> Headers | None:
    """Of lines that begin with a line break each."""
    given: dict[str, str] = {}
    for line in text.split(b"\r\n")[1:]:
        match = _HEADER.fullmatch(line)
        if match is None:
            return None
        name = match[1].decode().lower()
        if name in _UNUSUAL or (name in _ONCE and name in given):
            return None
        given[name] = match[2].decode()
    return _understood(given)


def _understood(given: dict[str, str]) -> Headers | None:
    media_type = bodies.media_type_in(given.get("content-type", ""))
    length = given.get("content-length", "")
    if media_type not in (bodies.JSON, NDJSON) or not _LENGTH.fullmatch(length) or int(length) == 0:
        return None
    if given.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    looked_at = ("host", "origin", "sec-fetch-site", "authorization")
    shown = Shown(*((given[name],) if name in given else () for name in looked_at))
    return Headers(int(length), media_type == NDJSON, shown)
