"""What a server answers: what was asked for, or why not."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from backstay.agents.http_answers import HttpAnswer, Problem, is_success
from backstay.errors import BackstayError, HttpFailed

Kind = TypeVar("Kind")


class Refused(BackstayError):
    """A server did not do what it was asked, for a reason that has no class of its own here."""


class ArmError(msgspec.Struct):
    code: str
    message: str


class ArmRefusal(msgspec.Struct):
    """How the REST API of jobs refuses."""

    error: ArmError


def is_fine(status: int) -> bool:
    return is_success(status, ())


def read(answer: HttpAnswer, kind: type[Kind]) -> Kind:
    try:
        return answer.json(kind)
    except HttpFailed as error:
        raise Refused(f"{error}; is that a Backstay server?") from None


def told(answer: HttpAnswer) -> str | None:
    """What the server says of a refusal; ``None`` when what came is no word of a Backstay server."""
    content_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    try:
        match content_type:
            case "application/problem+json":
                problem = msgspec.json.decode(answer.body, type=Problem)
                said = problem.detail or problem.title
            case "application/json":  # As the REST API of jobs refuses.
                said = msgspec.json.decode(answer.body, type=ArmRefusal).error.message
            case _:
                return None
    except msgspec.MsgspecError:
        return None
    return answer.request.without_secrets(said) if said else None
