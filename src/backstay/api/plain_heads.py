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

from backstay.api import bodies
from backstay.api.contents import NDJSON
from backstay.api.shapes import ID_PATTERN
from backstay.api.streams import EVENT_ID, EVENT_KEY
from backstay.domain.stream import KEY_LENGTH_MAX

#: With what a plain request begins, and with what its head ends.
BEGINNING: Final = b"POST /v1/streams/"
END: Final = b"\r\n\r\n"
#: A longer head is not plain.
HEAD_BYTES_MAX: Final = 2 * 1024
# Who sends often sends the same headers, all but for their length, to the same streams.
HEADERS_KEPT: Final = 1_024
TARGETS_KEPT: Final = 1_024

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
# What is another for every event, and stands apart from what a sender always says.
_OF_EVENT: Final = re.compile(rb"\r\n(?i:backstay-(key|id)): ?" + _VALUE + rb"(?=\r\n|\Z)")
_LENGTH: Final = re.compile(r"[0-9]{1,9}")
_is_key: Final = re.compile(EVENT_KEY.pattern).fullmatch
_is_id: Final = re.compile(EVENT_ID.pattern).fullmatch

#: What says something about the request itself: given twice, it is not plain.
_ONCE: Final = frozenset(
    {
        "authorization", "connection", "content-length", "content-type", "host", "origin", "sec-fetch-site",
    }
)  # fmt: skip
#: What changes how a request is read, or answered.
_UNUSUAL: Final = frozenset(
    {"content-encoding", "expect", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


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
    end = head.find(b"\r\n")
    rest, *named = _OF_EVENT.split(head[end:])
    if named:
        rest += b"".join(named[2::3])
    target, headers = _target(head[:end]), _headers(rest)
    if target is None or headers is None:
        return None
    said = _said(target, named) if named else (target.key, target.id)
    if said is None or (headers.lines and said != (None, None)):
        return None  # Of lines, each says its own.
    return PlainHead(target.stream, *said, headers.length, headers.lines, headers.shown)


def _said(target: Target, named: Sequence[bytes]) -> tuple[str | None, str | None] | None:
    """The key and the id of an event, said by its target or by headers; None if not once, or not well."""
    key, event_id = target.key, target.id
    for name, value in zip(named[0::3], named[1::3], strict=True):
        text = value.decode()
        if name.lower() == b"key" and key is None and _is_key(text):
            key = text
        elif name.lower() == b"id" and event_id is None and _is_id(text):
            event_id = text
        else:
            return None
    return key, event_id


def _target(line: bytes) -> Target | None:
    return _known_target(line) if b"?" not in line else _understood_target(line)


def _understood_target(line: bytes) -> Target | None:
    match = _FIRST_LINE.fullmatch(line)
    if match is None:
        return None
    key, event_id = match["key"] or match["key_2"], match["id"] or match["id_2"]
    return Target(
        match["stream"].decode(), key.decode() if key else None, event_id.decode() if event_id else None
    )


_known_target: Final = lru_cache(maxsize=TARGETS_KEPT)(_understood_target)


@lru_cache(maxsize=HEADERS_KEPT)
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
