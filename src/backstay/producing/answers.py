"""What the answer of a server means for each event of a batch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from backstay.agents.http_answers import HttpAnswer
from backstay.errors import (
    BackstayError,
    Conflict,
    EventConflict,
    InvalidInput,
    InvalidRequest,
    Unavailable,
    UnknownStream,
)

_TYPE: Final = "urn:backstay:problem:"
_CONFLICT: Final = f"{_TYPE}event-conflict"
_UNKNOWN_STREAM: Final = f"{_TYPE}unknown-stream"
_LATER: Final = frozenset(f"{_TYPE}{kind}" for kind in ("stream-full", "store-full", "unavailable"))
_NO_GOOD_LINE: Final = f"{_TYPE}no-good-line"

Kind = TypeVar("Kind")


class Rejected(msgspec.Struct):
    line: int
    type: str = ""
    detail: str = ""


class Accepted(msgspec.Struct):
    accepted: int
    rejected: int
    errors: list[Rejected]


class Problem(msgspec.Struct):
    type: str = ""
    title: str = ""
    detail: str = ""
    errors: list[Rejected] = []


class Garbled(Exception):
    """What answered is no server of Backstay, or one of another kind."""


def is_read(status: int) -> bool:
    """Whether the whole of an answer is wanted: each event's fate may stand in it."""
    return status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)


def outcomes(answer: HttpAnswer, stream: str, ids: Sequence[str]) -> list[BackstayError | None]:
    """Of each event of a batch, why it was refused; None where it was accepted. Raises Garbled."""
    if answer.status == HTTPStatus.ACCEPTED:
        told = _read(answer, Accepted)
        if told.accepted + told.rejected != len(ids) or told.rejected != len(told.errors):
            raise Garbled(f"it does not say what became of each of {len(ids)} events")
        return _by_line(told.errors, stream, ids)
    problem = _read(answer, Problem)
    if problem.type == _NO_GOOD_LINE and len(problem.errors) == len(ids):
        return _by_line(problem.errors, stream, ids)
    return [_refusal(problem, answer, stream) for _ in ids]


def _read(answer: HttpAnswer, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.MsgspecError as error:
        raise Garbled(f"its answer with status {answer.status} cannot be read: {error}") from error


def _by_line(errors: Sequence[Rejected], stream: str, ids: Sequence[str]) -> list[BackstayError | None]:
    found: list[BackstayError | None] = [None] * len(ids)
    for one in errors:
        if not 1 <= one.line <= len(ids):
            raise Garbled(f"it speaks of line {one.line}, and was sent {len(ids)}")
        found[one.line - 1] = _why(one, stream, ids[one.line - 1])
    return found


def _why(rejected: Rejected, stream: str, id: str) -> BackstayError:
    if rejected.type == _CONFLICT:
        return EventConflict(stream, id)
    if rejected.type in _LATER:
        return Unavailable(f"event {id!r} was not taken: {rejected.detail}; send it again with this id")
    return InvalidInput(f"event {id!r}: {rejected.detail}")


def _refusal(problem: Problem, answer: HttpAnswer, stream: str) -> BackstayError:
    """Why a server took nothing of a batch, and will not the next time."""
    if problem.type == _UNKNOWN_STREAM:
        return UnknownStream(stream)
    said = answer.request.without_secrets(problem.detail or problem.title or f"status {answer.status}")
    kind = Conflict if answer.status == HTTPStatus.CONFLICT else InvalidRequest
    return kind(f"the server refuses events for stream {stream!r}: {said}")
