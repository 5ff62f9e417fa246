"""What a request of a job says, and where a redirect leads. No I/O."""

from __future__ import annotations

import base64
import hashlib
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from backstay.domain import jsontext
from backstay.domain.hiding import without
from backstay.domain.jobs.messages import http_failed
from backstay.domain.jobs.occurrences import Run
from backstay.domain.recurrence import Moment

REDIRECTS_MAX: Final = 5
#: Anything shorter is in many a text by chance: to hide it there would only tell what it is.
HIDDEN_LENGTH_MIN: Final = 4

#: They belong to the connection, or are made here.
_NOT_THEIRS: Final = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
#: What another host may see of the job's own headers: nothing that says who asks.
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})

_KEEPING: Final = frozenset({307, 308})
_REDIRECTS: Final = frozenset({301, 302, 303}) | _KEEPING
_BODILESS: Final = frozenset({"GET", "HEAD"})
_SCHEMES: Final = frozenset({"http", "https"})


class NotSent(Exception):
    """A request that is not made; ``message`` is for the history."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent. ``ours`` are the headers that tell what it is about; they go wherever it goes."""

    method: str
    url: str
    body: bytes | None = field(repr=False)
    theirs: Mapping[str, str] = field(repr=False)
    ours: Mapping[str, str]
    redirects: int = 0
    #: By which the job shows who it is; only where the job itself leads.
    identity: ssl.SSLContext | None = field(default=None, repr=False)
    #: What nobody is to read in the history: receivers do echo requests.
    hidden: tuple[str, ...] = field(default=(), repr=False)

    def without_secrets(self, text: str, *, is_whole: bool = True) -> str:
        """``text`` without what this request keeps secret."""
        return without(text, self.hidden, is_whole=is_whole)

    @property
    def headers(self) -> dict[str, str]:
        # A name of theirs counts, but for those that say what the request is about.
        named = {name.lower() for name in self.ours}
        usual = {"Accept-Encoding": "identity", "User-Agent": "Backstay"}
        theirs = {name: value for name, value in self.theirs.items() if name.lower() not in named}
        given = {name.lower() for name in theirs}
        return {
            **{name: value for name, value in usual.items() if name.lower() not in given},
            **theirs,
            **self.ours,
            # Nobody else may use a connection that was opened in this job's name.
            **({} if self.identity is None else {"Connection": "close"}),
        }

    @property
    def host(self) -> str:
        return host_of(self.url)


def host_of(url: str) -> str:
    """For people to read; an address that cannot be read is shown as it is."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def checked_target(url: str) -> SplitResult:
    """Where a request is about to go, at the beginning and after every redirect. Raises NotSent.

    Which addresses may be reached is decided when a connection is opened (``backstay.outbound``): here may
    stand a name, and nobody knows yet what it stands for.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        raise NotSent(http_failed(url, "UnknownError", "The address cannot be read")) from None
    if not known:
        raise NotSent(http_failed(host_of(url), "UnknownError", "The address is none of http or https"))
    if "@" in parts.netloc or "\\" in url:
        # Readers of addresses disagree on where the host begins then, and one of them may have been a check.
        raise NotSent(http_failed(host_of(url), "UnknownError", "There is a user or a backslash in it"))
    return parts


def request_of(run: Run, action: Mapping[str, Any], *, key: str, attempt: str, password: str) -> HttpRequest:
    """The request of ``action``. ``key`` is the same for all attempts, ``attempt`` another for each."""
    given = action["request"]
    theirs = {
        name: value for name, value in given.get("headers", {}).items() if name.lower() not in _NOT_THEIRS
    }
    authentication = given.get("authentication", {})
    if authentication.get("type") == "Basic":
        theirs = {name: value for name, value in theirs.items() if name.lower() != "authorization"}
        theirs["Authorization"] = _basic(authentication["username"], password)
    hidden = _spellings(password, f"{authentication.get('username', '')}:{password}") if password else ()
    body = given.get("body")
    checked_target(given["uri"])
    return HttpRequest(
        method=given["method"].upper(),
        url=given["uri"],
        body=None if body is None else body.encode(),
        theirs=theirs,
        ours=_told(run, key=key, attempt=attempt),
        hidden=hidden,
    )


def bearing(request: HttpRequest, token: str) -> HttpRequest:
    """With a token, whatever the job's own headers say."""
    theirs = {**_without(request.theirs, "authorization"), "Authorization": f"Bearer {token}"}
    return replace(request, theirs=theirs, hidden=(*request.hidden, *_spellings(token)))


def identifying(request: HttpRequest, identity: ssl.SSLContext) -> HttpRequest:
    """With a certificate. Raises NotSent where nobody would see it."""
    if urlsplit(request.url).scheme != "https":
        raise NotSent(
            http_failed(request.host, "SecureChannelFailure", "A client certificate needs an https address.")
        )
    return replace(request, identity=identity)


def _basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def _spellings(*secrets: str) -> tuple[str, ...]:
    """In every way in which a receiver might say them."""
    spelled: set[str] = set()
    for secret in secrets:
        encoded = base64.b64encode(secret.encode())
        spelled |= {secret, encoded.decode(), encoded.rstrip(b"=").decode(), quote(secret, safe="")}
        spelled |= {jsontext.written(secret).decode()[1:-1], quote(encoded, safe="")}
    return tuple(one for one in spelled if len(one) >= HIDDEN_LENGTH_MIN)


def _told(run: Run, *, key: str, attempt: str) -> dict[str, str]:
    """Named as the original service named them, or would have."""
    occurrence = run.occurrence
    return {
        "x-ms-scheduler-jobid": run.job,
        "x-ms-scheduler-jobcollectionid": run.collection.name,
        "x-ms-scheduler-execution-region": _ascii(run.region),
        "x-ms-scheduler-expected-execution-time": Moment(occurrence.at).text,
        "x-ms-execution-tag": hashlib.sha256(occurrence.task_id.encode()).hexdigest()[:32],
        "x-ms-client-request-id": str(uuid.uuid5(uuid.NAMESPACE_URL, attempt)),
        "Idempotency-Key": key,
    }


def _ascii(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


# Redirects


def redirected(request: HttpRequest, status: int, location: str | None) -> HttpRequest | None:
    """The request to send next, or None where this answer is the last. Raises NotSent.

    307 and 308 are asked for the same again; after another redirect a GET follows. To another host goes
    neither what the job authenticates itself with nor any header of its own that might; from TLS no way leads
    to where there is none.
    """
    if status not in _REDIRECTS or location is None:
        return None
    if request.redirects == REDIRECTS_MAX:
        raise NotSent(
            http_failed(request.host, "ProtocolError", "Too many automatic redirections were attempted.")
        )
    here, there = urlsplit(request.url), checked_target(_joined(request.url, location))
    if here.scheme == "https" and there.scheme == "http":
        raise NotSent(
            http_failed(there.hostname or "", "SecureChannelFailure", "The redirection leads out of TLS.")
        )
    moved = replace(request, url=there.geturl(), redirects=request.redirects + 1)
    if status not in _KEEPING and request.method not in _BODILESS:
        moved = replace(moved, method="GET", body=None, theirs=_without(moved.theirs, "content-type"))
    if _origin(here) != _origin(there):
        kept = {name: value for name, value in moved.theirs.items() if name.lower() in _HARMLESS}
        moved = replace(moved, theirs=kept, identity=None)
    return moved


def _joined(url: str, location: str) -> str:
    try:
        # Receivers do write blanks; in the first line of a request one would end the address.
        return urljoin(url, location.replace(" ", "%20"))
    except ValueError:
        return location


def _without(headers: Mapping[str, str], left_out: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() != left_out}


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
