"""The head of a request that appends events, judged by its bytes: plain, or not. Pure.

Plain is what every reader of HTTP understands in the same way, and what needs none of the rarer rules. Of
anything else nothing is said here: whoever takes any request takes that one as well.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from backstay.api import bodies
from backstay.api.calls import Header
from backstay.api.contents import NDJSON
from backstay.api.shapes import ID_PATTERN
from backstay.api.streams import EVENT_ID, EVENT_KEY
from backstay.domain.stream import KEY_LENGTH_MAX
from backstay.errors import InvalidInput

#: With what a plain request begins, and with what its head ends.
BEGINNING: Final = b"POST /v1/streams/"
END: Final = b"\r\n\r\n"
#: A longer head is not plain.
HEAD_BYTES_MAX: Final = 2 * 1024
# Who sends often sends the same headers, all but for their length.
HEADERS_KEPT: Final = 1_024

# Nothing in a query that would have to be decoded.
_KEY: Final = rf"[A-Za-z0-9._:@~/-]{{1,{KEY_LENGTH_MAX}}}"
_FIRST_LINE: Final = re.compile(
    rf"POST /v1/streams/(?P<stream>{ID_PATTERN})/events"
    rf"(?:\?(?:key=(?P<key>{_KEY})(?:&id=(?P<id>{ID_PATTERN}))?"
    rf"|id=(?P<id_2>{ID_PATTERN})(?:&key=(?P<key_2>{_KEY}))?))? HTTP/1\.1".encode()
)
# Neither folded, nor empty, nor with anything around the value but the one space before it.
_HEADER: Final = re.compile(rb"([A-Za-z0-9-]+): ?([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")
_LENGTH: Final = re.compile(r"[0-9]{1,9}")

#: What says something about the request itself: given twice, it is not plain.
_ONCE: Final = frozenset(
    {
        "authorization", "backstay-id", "backstay-key", "connection", "content-length", "content-type",
        "host", "origin", "sec-fetch-site",
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


class Headers(msgspec.Struct, frozen=True):
    length: int
    lines: bool
    shown: Shown
    key: str | None
    id: str | None


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
    first_line, _, rest = head.partition(b"\r\n")
    match = _FIRST_LINE.fullmatch(first_line)
    headers = None if match is None else _headers(rest)
    if match is None or headers is None:
        return None
    key, event_id = match["key"] or match["key_2"], match["id"] or match["id_2"]
    if headers.lines and (key or event_id or headers.key or headers.id):
        return None  # Of lines, each says its own.
    if (key and headers.key) or (event_id and headers.id):
        return None  # Said twice.
    return PlainHead(
        match["stream"].decode(),
        key.decode() if key else headers.key,
        event_id.decode() if event_id else headers.id,
        headers.length,
        headers.lines,
        headers.shown,
    )


@lru_cache(maxsize=HEADERS_KEPT)
def _headers(text: bytes) -> Headers | None:
    given: dict[str, str] = {}
    for line in text.split(b"\r\n"):
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
    try:
        key, event_id = _named(given, EVENT_KEY), _named(given, EVENT_ID)
    except InvalidInput:
        return None
    looked_at = ("host", "origin", "sec-fetch-site", "authorization")
    shown = Shown(*((given[name],) if name in given else () for name in looked_at))
    return Headers(int(length), media_type == NDJSON, shown, key, event_id)


def _named(given: dict[str, str], header: Header) -> str | None:
    value = given.get(header.name.lower())
    return None if value is None else header.checked([value])
