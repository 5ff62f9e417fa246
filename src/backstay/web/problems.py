"""Every error as an ``application/problem+json`` (RFC 9457). One table says which error is which problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from backstay.domain.ndjson import BadLine
from backstay.errors import (
    BackstayError,
    Closed,
    Conflict,
    EventConflict,
    IdConflict,
    IllegalMove,
    InvalidId,
    InvalidInput,
    InvalidRequest,
    LockLost,
    NotJson,
    OffsetAhead,
    Overloaded,
    PayloadTooLarge,
    QueueFull,
    QueueNotEmpty,
    StoreFull,
    StoreUnavailable,
    StreamFull,
    Unavailable,
    UnknownAgent,
    UnknownAlert,
    UnknownCollection,
    UnknownEvent,
    UnknownGroup,
    UnknownJob,
    UnknownMessage,
    UnknownQueue,
    UnknownStep,
    UnknownStream,
    UnknownTask,
    UnknownToken,
    UnknownWorkflow,
)
from backstay.observe import log

MEDIA_TYPE: Final = "application/problem+json"

# A detail may quote what it refuses, which may be a megabyte.
DETAIL_LENGTH_MAX: Final = 1_000

# When the same call may succeed later and nobody knows when: soon, but not at once.
RETRY_AFTER_SECONDS: Final = 1


# Where the store is, and what it said, is nobody's business but the operator's.
STORE_AWAY: Final = "the store does not answer; the server's log says why"


class Kind(msgspec.Struct, frozen=True):
    """A sort of problem: what a program tells them apart by."""

    slug: str
    status: HTTPStatus
    title: str

    @property
    def type(self) -> str:
        return f"urn:backstay:problem:{self.slug}"


class RejectedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was refused, by its number from 1 on: which problem it is, and what to do about it."""

    line: int
    type: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    # The state that forbids what was asked for.
    state: str | msgspec.UnsetType = msgspec.UNSET
    # Of lines of which none was good: what is wrong with each, up to a bound.
    errors: list[RejectedLine] | msgspec.UnsetType = msgspec.UNSET
    # The roles of this process, and how each stands.
    roles: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


NOT_JSON: Final = Kind("not-json", HTTPStatus.BAD_REQUEST, "The body is not JSON")
NO_GOOD_LINE: Final = Kind("no-good-line", HTTPStatus.BAD_REQUEST, "None of the lines is an event")
UNAUTHORIZED: Final = Kind("unauthorized", HTTPStatus.UNAUTHORIZED, "A token is needed")
FORBIDDEN: Final = Kind("forbidden", HTTPStatus.FORBIDDEN, "This is not allowed")
UNKNOWN_PATH: Final = Kind("unknown-path", HTTPStatus.NOT_FOUND, "There is nothing at this path")
METHOD_NOT_ALLOWED: Final = Kind(
    "method-not-allowed", HTTPStatus.METHOD_NOT_ALLOWED, "This path does not take this method"
)
BODY_TOO_SLOW: Final = Kind("body-too-slow", HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time")
BODY_TOO_LARGE: Final = Kind(
    "body-too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is larger than any may be"
)
MEDIA_TYPE_UNSUPPORTED: Final = Kind(
    "media-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body is of a type that is not taken here"
)
INVALID: Final = Kind(
    "invalid-request", HTTPStatus.UNPROCESSABLE_ENTITY, "Something in the request is not as it must be"
)
TOO_MANY_GUESSES: Final = Kind(
    "too-many-guesses", HTTPStatus.TOO_MANY_REQUESTS, "Too many wrong tokens came from this address"
)
TOO_MANY_WATCHERS: Final = Kind(
    "too-many-watchers", HTTPStatus.TOO_MANY_REQUESTS, "As many streams are open as may be"
)
INTERNAL: Final = Kind("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong in the server")
DEAF: Final = Kind("deaf", HTTPStatus.SERVICE_UNAVAILABLE, "A role of this process makes no progress")
NOT_READY: Final = Kind("not-ready", HTTPStatus.SERVICE_UNAVAILABLE, "This process takes no work now")
BUSY: Final = Kind("busy", HTTPStatus.SERVICE_UNAVAILABLE, "As many requests are under way as may be")
UNAVAILABLE: Final = Kind("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "Not now; try again")

#: The most precise entry for the class of an error counts.
KINDS: Final[Mapping[type[BackstayError], Kind]] = {
    InvalidRequest: INVALID,
    InvalidId: Kind("invalid-id", HTTPStatus.UNPROCESSABLE_ENTITY, "An id does not fit the pattern"),
    InvalidInput: Kind("invalid-input", HTTPStatus.UNPROCESSABLE_ENTITY, "A value does not fit its type"),
    NotJson: NOT_JSON,
    PayloadTooLarge: Kind(
        "payload-too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "A value is larger than the payload limit"
    ),
    UnknownWorkflow: Kind("unknown-workflow", HTTPStatus.NOT_FOUND, "There is no such workflow"),
    UnknownTask: Kind("unknown-task", HTTPStatus.NOT_FOUND, "There is no such task"),
    UnknownStep: Kind("unknown-step", HTTPStatus.NOT_FOUND, "There is no such step"),
    UnknownAlert: Kind("unknown-alert", HTTPStatus.NOT_FOUND, "There is no such alert"),
    UnknownToken: Kind("unknown-token", HTTPStatus.NOT_FOUND, "There is no such token"),
    UnknownAgent: Kind("unknown-agent", HTTPStatus.NOT_FOUND, "There is no such agent"),
    UnknownQueue: Kind("unknown-queue", HTTPStatus.NOT_FOUND, "There is no such queue or topic"),
    UnknownMessage: Kind("unknown-message", HTTPStatus.NOT_FOUND, "There is no such message"),
    UnknownStream: Kind("unknown-stream", HTTPStatus.NOT_FOUND, "There is no such stream or partition"),
    UnknownGroup: Kind("unknown-group", HTTPStatus.NOT_FOUND, "No such group reads the stream"),
    UnknownEvent: Kind("unknown-event", HTTPStatus.NOT_FOUND, "There is no such event in quarantine"),
    UnknownCollection: Kind("unknown-collection", HTTPStatus.NOT_FOUND, "There is no such job collection"),
    UnknownJob: Kind("unknown-job", HTTPStatus.NOT_FOUND, "There is no such job"),
    Conflict: Kind("conflict", HTTPStatus.CONFLICT, "The state is not what the caller thought"),
    IdConflict: Kind("id-conflict", HTTPStatus.CONFLICT, "The id is taken by a task with other content"),
    LockLost: Kind("lock-lost", HTTPStatus.CONFLICT, "The message is no longer locked by this token"),
    QueueNotEmpty: Kind("queue-not-empty", HTTPStatus.CONFLICT, "There are messages in the queue"),
    EventConflict: Kind(
        "event-conflict", HTTPStatus.CONFLICT, "The id is taken by an event with other content"
    ),
    OffsetAhead: Kind("offset-ahead", HTTPStatus.CONFLICT, "The offset lies beyond the end of the partition"),
    IllegalMove: Kind("illegal-move", HTTPStatus.CONFLICT, "The state forbids this"),
    Unavailable: UNAVAILABLE,
    StoreFull: Kind("store-full", HTTPStatus.SERVICE_UNAVAILABLE, "There is no room left for the store"),
    StreamFull: Kind("stream-full", HTTPStatus.SERVICE_UNAVAILABLE, "There is no room left in the stream"),
    Overloaded: Kind("overloaded", HTTPStatus.TOO_MANY_REQUESTS, "Too many tasks wait already"),
    QueueFull: Kind("queue-full", HTTPStatus.TOO_MANY_REQUESTS, "The queue holds as many messages as it may"),
    Closed: Kind("closed", HTTPStatus.SERVICE_UNAVAILABLE, "This process is about to stop"),
}


class Refused(Exception):
    """What only the HTTP interface has a reason to refuse."""

    def __init__(
        self, kind: Kind, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})
        self.members = members


def kind_of(error: type[BackstayError]) -> Kind | None:
    """Which problem an error is; ``None`` for one that no request should meet."""
    return next((KINDS[base] for base in error.__mro__ if base in KINDS), None)


def as_refusal(error: Exception) -> Refused | None:
    """The refusal that ``error`` stands for; ``None`` when it is a mistake of ours."""
    if isinstance(error, Refused):
        return error
    kind = kind_of(type(error)) if isinstance(error, BackstayError) else None
    if kind is None:
        return None
    return Refused(kind, detail_of(error), headers=_headers(error), **_members(error))


def detail_of(error: Exception) -> str:
    """What a caller is told of ``error``; what is kept from them is logged."""
    if not isinstance(error, StoreUnavailable):
        return str(error)
    log.warning("the store does not answer: %s", error)
    return STORE_AWAY


def rejected_line(bad: BadLine) -> RejectedLine:
    kind = kind_of(type(bad.error)) or INTERNAL
    detail = STORE_AWAY if isinstance(bad.error, StoreUnavailable) else bad.detail
    return RejectedLine(line=bad.line, type=kind.type, detail=detail)


def mistake() -> Refused:
    """All that a caller is told of a mistake of ours."""
    return Refused(INTERNAL, "this is a mistake of the server, which its log explains; nothing is known here")


def response_of(refusal: Refused) -> Response:
    kind = refusal.kind
    problem = Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=_shortened(str(refusal)),
        **refusal.members,
    )
    return Response(
        msgspec.json.encode(problem),
        status_code=kind.status,
        headers=refusal.headers,
        media_type=MEDIA_TYPE,
    )


def _shortened(detail: str) -> str:
    return detail if len(detail) <= DETAIL_LENGTH_MAX else f"{detail[: DETAIL_LENGTH_MAX - 1]}…"


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, Overloaded | QueueFull):
        return {"Retry-After": str(math.ceil(error.retry_after.total_seconds()))}
    return {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, Unavailable) else {}


def _members(error: Exception) -> dict[str, Any]:
    return {"state": str(error.source)} if isinstance(error, IllegalMove) else {}
