"""What an HTTP service said, and what that means for the step: success, not now, or no.

408, 425, 429 and 5xx may pass, and are tried again; Retry-After is honoured. Everything else that is
not a success is final: trying again would not help.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar, overload
from urllib.parse import urlsplit

import msgspec

from backstay.agents.http_requests import HttpRequest
from backstay.definitions.codec import TypeCodec
from backstay.domain.durations import describe
from backstay.domain.retry import RETRY_AFTER_MAX
from backstay.errors import HttpFailed, HttpUnavailable, InvalidRequest

EXCERPT_LENGTH_MAX: Final = 200

_SUCCESS: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)
_TRANSIENT: Final = frozenset({408, 425, 429, *range(500, 600)})
# The service says that it did not even look at the request.
_NOT_PROCESSED: Final = frozenset({425, 429})

_DELTA_SECONDS: Final = re.compile(r"[0-9]+")
# A number of that many digits is beyond every cap, and int() need not read it.
_DELTA_DIGITS_MAX: Final = 9

Kind = TypeVar("Kind")


class Problem(msgspec.Struct):
    """RFC 9457, as far as people read it."""

    title: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that counts as a success; ``headers`` are found whatever their case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    request: HttpRequest = field(repr=False)

    def text(self) -> str:
        """The body as UTF-8; what is not is replaced."""
        return self.body.decode("utf-8", "replace")

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, kind: type[Kind]) -> Kind: ...

    @overload
    def json(self, kind: Any) -> Any: ...

    def json(self, kind: Any = Any) -> Any:
        """The body decoded from JSON and checked against ``kind``.

        Raises HttpFailed when it is not that: the service has done its work, and will not say it better.
        """
        try:
            return TypeCodec(kind, "the body").decode(self.body)
        except InvalidRequest as error:
            content_type = self.headers.get("Content-Type", "no content type")
            complaint = _in_one_line(f"with {content_type}, but {error}")
            raise HttpFailed(
                _message(self, f" {self.request.without_secrets(complaint)}"),
                status=self.status,
                unsure=True,
            ) from None


# The verdict


def is_success(status: int, ok: Collection[int]) -> bool:
    return status in _SUCCESS or status in ok


def is_transient(status: int) -> bool:
    return status in _TRANSIENT


def error_for(answer: HttpAnswer, *, now: datetime) -> HttpFailed | HttpUnavailable:
    """What a step raises for an answer that is not a success."""
    status = answer.status
    if is_transient(status):
        pause = retry_after(answer.headers, now=now)
        wish = "" if pause is None else f", to be asked again after {describe(pause)}"
        message = _message(answer, wish)
        unsure = status not in _NOT_PROCESSED
        return HttpUnavailable(message, status=status, retry_after=pause, unsure=unsure)
    if status in _REDIRECT:
        # The service may well have done its work, as when it answers 303 to a POST.
        return HttpFailed(_message(answer, _elsewhere(answer)), status=status, unsure=True)
    return HttpFailed(_message(answer), status=status, unsure=False)


def too_large(request: HttpRequest, status: int, *, response_bytes_max: int) -> HttpFailed:
    """What a step raises for a success that nobody may read."""
    return HttpFailed(
        f"{request.shown} answered {_named(status)} with more than {response_bytes_max:,} bytes"
        " (response_bytes_max of the agent)",
        status=status,
        unsure=True,
    )


def retry_after(headers: Mapping[str, str], *, now: datetime) -> timedelta | None:
    """How long the service wants to be left alone: given in seconds, or as an instant."""
    text = headers.get("Retry-After", "").strip()
    if _DELTA_SECONDS.fullmatch(text):
        seconds = text.lstrip("0") or "0"
        known = timedelta(seconds=int(seconds)) if len(seconds) <= _DELTA_DIGITS_MAX else RETRY_AFTER_MAX
        return min(known, RETRY_AFTER_MAX)
    at = _instant(text)
    if at is None:
        return None
    # By its own clock, if it shows that: hosts disagree about what time it is.
    pause = at - (_instant(headers.get("Date", "")) or now)
    return max(timedelta(0), min(pause, RETRY_AFTER_MAX))


def _instant(text: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


# What people read


def _message(answer: HttpAnswer, remark: str = "") -> str:
    said = _excerpt(answer)
    return f"{answer.request.shown} answered {_named(answer.status)}{remark}" + (f": {said}" if said else "")


def _named(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _elsewhere(answer: HttpAnswer) -> str:
    """Where a redirect points, without what may be secret there."""
    try:
        target = urlsplit(answer.headers.get("Location", ""))
    except ValueError:
        target = urlsplit("")
    address = _in_one_line(
        target._replace(netloc=target.netloc.rpartition("@")[2], query="", fragment="").geturl()
    )
    points = f", which points to {_cut(address)}" if address else ""
    return f"{points}; redirects are not followed"


def _excerpt(answer: HttpAnswer) -> str:
    text = _problem(answer) or answer.text()
    # First hidden, then cut: half a secret is one too.
    return _cut(_in_one_line(answer.request.without_secrets(text)))


def _problem(answer: HttpAnswer) -> str:
    """Title and detail of an ``application/problem+json``."""
    if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/problem+json":
        return ""
    try:
        problem = msgspec.json.decode(answer.body, type=Problem)
    except msgspec.MsgspecError:
        return ""
    # The phrase of the status is said already.
    title = "" if _named(answer.status).endswith(f" {problem.title}") else problem.title
    return ": ".join(part for part in (title, problem.detail) if part)


def _in_one_line(text: str) -> str:
    """Without line ends, and without what would move the cursor of an operator's terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _cut(text: str) -> str:
    return text if len(text) <= EXCERPT_LENGTH_MAX else f"{text[: EXCERPT_LENGTH_MAX - 1]}…"
