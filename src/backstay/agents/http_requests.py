"""What an HttpAgent sends, decided before anything is sent: the address, the headers, the time.

Whatever comes from a caller may hold data of strangers. It can fill the place that it was meant for,
and no other: not another host, not the path above the service, not the query, not a second header.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from backstay.definitions.ambient import StepContext
from backstay.definitions.codec import encode
from backstay.domain.hiding import without
from backstay.domain.request import is_traceparent
from backstay.errors import InvalidDefinition, InvalidHttpRequest, InvalidInput

HttpPath = str | Sequence[str | int]
"""``"/drones/7"``, sent as it is written; or ``("drones", drone_id)``, where every part is quoted."""

QueryValue = str | int | float | bool
HttpQuery = Mapping[str, QueryValue | Sequence[QueryValue]]

SHOWN_LENGTH_MAX: Final = 300

# A request ends this much before the step's complete-by, or a twentieth of its time if that is less:
# past the complete-by an agent says nothing, and nobody would hear which request got no answer.
MARGIN_MAX: Final = timedelta(milliseconds=50)
_MARGIN_SHARE: Final = 20

_MILLISECOND: Final = timedelta(milliseconds=1)
_DOTS: Final = (".", "..")
# RFC 3986: what a path may hold as it is. A percent sign begins an escape; others are refused below.
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~"
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_METHOD: Final = re.compile(r"[A-Z]{1,20}")
# RFC 9110: names are tokens.
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HOLDS_SECRET: Final = re.compile(r"auth|cookie|key|token|secret|password|signature", re.IGNORECASE)
_WORD_BREAK: Final = re.compile(r"[\s;,=]+")
# Anything shorter may well be a word of the sentence, and guards nothing.
_SECRET_LENGTH_MIN: Final = 8


@dataclass(frozen=True, slots=True)
class Terms:
    """What the step that makes a request grants it: its time, and the headers that tell the service."""

    time: timedelta
    headers: Mapping[str, str]


def terms_in_step(step: StepContext, *, timeout: timedelta | None) -> Terms:
    """A little less than the time that remains to the step, or ``timeout`` if that is shorter."""
    remaining = step.remaining
    time = remaining - min(remaining / _MARGIN_SHARE, MARGIN_MAX)
    time = _whole_milliseconds(time if timeout is None else min(time, timeout))
    complete_by = step.complete_by.astimezone(UTC).isoformat(timespec="milliseconds")
    headers = {
        "Idempotency-Key": step.idempotency_key,
        "Backstay-Remaining": _seconds(time),
        "Backstay-Complete-By": complete_by.replace("+00:00", "Z"),
    }
    if is_traceparent(step.traceparent):
        headers["Traceparent"] = step.traceparent
    return Terms(time, headers)


def terms_elsewhere(time: timedelta, *, timeout: timedelta | None) -> Terms:
    """Outside a task nobody repeats a request, so there is no key by which to know it again."""
    granted = _whole_milliseconds(time if timeout is None else min(time, timeout))
    return Terms(granted, {"Backstay-Remaining": _seconds(granted)})


def _whole_milliseconds(time: timedelta) -> timedelta:
    return time // _MILLISECOND * _MILLISECOND


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():.3f}"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, ready to be sent. ``shown`` is how errors speak of it: without query and credentials."""

    shown: str
    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    time: timedelta

    def without_secrets(self, text: str) -> str:
        """``text`` without what this request's headers kept secret: services do echo requests."""
        return without(text, tuple(self._secrets()))

    def _secrets(self) -> Iterator[str]:
        for name, value in self.headers.items():
            if _HOLDS_SECRET.search(name) and name != "Idempotency-Key":
                words = _WORD_BREAK.split(value)
                yield from (part for part in (value, *words) if len(part) >= _SECRET_LENGTH_MIN)


class Service:
    """Where a service is, and which headers every request to it carries."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None) -> None:
        parts = _split(url)
        self._headers = {**_credentials(parts), **_checked(headers or {})}
        if parts.username is not None and any(name.title() == "Authorization" for name in headers or {}):
            raise InvalidDefinition("credentials are given twice: in the url and as a header Authorization")
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    def request(
        self,
        method: str,
        path: HttpPath,
        *,
        terms: Terms,
        json: Any,
        params: HttpQuery | None,
        headers: Mapping[str, str] | None,
    ) -> HttpRequest:
        """The request for ``path`` below the service. Raises InvalidHttpRequest."""
        if not _METHOD.fullmatch(method):
            raise InvalidHttpRequest(f"method is {method[:40]!r}; it must be a word such as PUT, in capitals")
        address = self._base + _quoted(path)
        shown = f"{method} {address}"
        if len(shown) > SHOWN_LENGTH_MAX:
            shown = f"{shown[: SHOWN_LENGTH_MAX - 1]}…"
        body = None if json is None else _json(json, shown)
        content = {} if body is None else {"Content-Type": "application/json"}
        return HttpRequest(
            shown=shown,
            method=method,
            url=address + _query(params or {}),
            headers={**content, **self._headers, **terms.headers, **_checked(headers or {})},
            body=body,
            time=terms.time,
        )


# The address of the service


def _split(url: str) -> SplitResult:
    """The parts of a service's url. The complaint does not repeat it: it may hold a password."""
    try:
        parts = urlsplit(url)
        well_formed = parts.port != 0 and url.isascii() and not re.search(r"\s", url)
    except ValueError:
        raise InvalidDefinition("the url of the service cannot be understood") from None
    if not well_formed or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidDefinition(
            "the url of the service must be http://host or https://host, with a port and a path"
            " if need be, all in ASCII"
        )
    if parts.query or parts.fragment:
        raise InvalidDefinition("the url of the service must hold neither query nor fragment: use params=…")
    if parts.path:
        _quoted(parts.path)
    return parts


def _credentials(parts: SplitResult) -> dict[str, str]:
    """``https://user:password@host`` as the header that it stands for, so that no address holds it."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


# What is added to it


def _quoted(path: HttpPath) -> str:
    try:
        return _as_written(path) if isinstance(path, str) else "".join(f"/{_segment(one)}" for one in path)
    except UnicodeEncodeError:
        raise InvalidHttpRequest("path holds half of a surrogate pair, which no URL can hold") from None


def _as_written(path: str) -> str:
    if not path.startswith("/") or "//" in path:
        raise _bad_path(path, "it must begin with one slash and hold no empty part, so that it stays below")
    if "?" in path or "#" in path:
        raise _bad_path(path, "it must hold neither ? nor #; a query is given as params=…")
    if _STRAY_PERCENT.search(path):
        raise _bad_path(path, "a percent sign in it must begin an escape")
    if any(unquote(segment) in _DOTS for segment in path.split("/")):
        raise _bad_path(path, "it must not climb: . and .. are refused")
    return quote(path, safe=_PATH_SAFE)


def _segment(part: str | int) -> str:
    text = str(part)
    # Without its id, DELETE /drones/7 would be about all drones; and dots climb even when they are escaped.
    if not text or text in _DOTS:
        raise InvalidHttpRequest(f"path has a part {text!r}; a part must be neither empty nor . nor ..")
    return quote(text, safe="")


def _bad_path(path: str, why: str) -> InvalidHttpRequest:
    # What stands behind a question mark may be a secret.
    shown = path.partition("?")[0][:100]
    return InvalidHttpRequest(
        f"path is {shown!r}; {why}. Parts that are not known beforehand are quoted when the path"
        ' is given in parts, as in ("drones", drone_id)'
    )


def _query(params: HttpQuery) -> str:
    if not params:
        return ""
    try:
        return "?" + urlencode({name: _written(value) for name, value in params.items()}, doseq=True)
    except UnicodeEncodeError:
        raise InvalidHttpRequest("params hold half of a surrogate pair, which no URL can hold") from None


def _written(value: QueryValue | Sequence[QueryValue]) -> str | list[str]:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return [str(_written(one)) for one in value]
    raise InvalidHttpRequest(f"params hold a {type(value).__name__}; write it as text or number")


def _json(value: Any, shown: str) -> bytes:
    try:
        return encode(value, f"json of {shown}")
    except InvalidInput as error:
        raise InvalidHttpRequest(str(error)) from error


def _checked(headers: Mapping[str, Any]) -> dict[str, str]:
    """The headers, each name in the one way it is written here. Complaints do not repeat values."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidHttpRequest(f"a header is named {name[:40]!r}, which is not a name for a header")
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidHttpRequest(f"header {name} has a value that is not one line of text")
    return {name.title(): value for name, value in headers.items()}
