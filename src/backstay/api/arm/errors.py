"""Every error as Azure Resource Manager writes it: ``{"error": {"code": …, "message": …}}``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from backstay.errors import InvalidJob, NotJson, UnknownCollection, UnknownJob
from backstay.web.problems import (
    DETAIL_LENGTH_MAX,
    INTERNAL,
    UNKNOWN_PATH,
    Kind,
    Refused,
)

MEDIA_TYPE: Final = "application/json; charset=utf-8"

#: What went wrong where nothing more precise is known.
_CODES: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "AuthenticationFailed",
    HTTPStatus.FORBIDDEN: "AuthorizationFailed",
    HTTPStatus.NOT_FOUND: "ResourceNotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "InvalidHttpVerb",
    HTTPStatus.REQUEST_TIMEOUT: "OperationTimedOut",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServerBusy",
}
#: All statuses that a refusal may have.
STATUSES: Final = tuple(HTTPStatus(status) for status in _CODES)


class ArmError(msgspec.Struct, frozen=True):
    """What went wrong, for programs and for people."""

    code: str
    message: str


class ArmErrorBody(msgspec.Struct, frozen=True):
    error: ArmError


class ArmRefused(Refused):
    """What only this interface has a reason to refuse."""

    def __init__(
        self, status: HTTPStatus, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(Kind(code, status, status.phrase), message, headers=headers)
        self.code = code


def response_to(error: Exception, refusal: Refused, path: str) -> Response:
    """The answer to a request for ``path``; ``refusal`` is what other interfaces would say of ``error``."""
    refused = _refused(error, refusal, path)
    body = ArmErrorBody(ArmError(refused.code, str(refused)[:DETAIL_LENGTH_MAX]))
    return Response(
        msgspec.json.encode(body),
        status_code=refused.kind.status,
        headers=refused.headers,
        media_type=MEDIA_TYPE,
    )


def _refused(error: Exception, refusal: Refused, path: str) -> ArmRefused:
    match error:
        case ArmRefused():
            return error
        case UnknownJob():
            return ArmRefused(HTTPStatus.NOT_FOUND, "NotFound", f"Job '{error.name}' cannot be found.")
        case UnknownCollection():
            return ArmRefused(
                HTTPStatus.NOT_FOUND,
                "ResourceNotFound",
                f"The Resource 'Microsoft.Scheduler/jobcollections/{error.name}' under resource group"
                f" '{error.resource_group}' was not found.",
                headers={"x-ms-failure-cause": "gateway"},
            )
        case InvalidJob():
            return ArmRefused(HTTPStatus.BAD_REQUEST, "BadRequest", error.recorded or str(error))
        case NotJson():
            return ArmRefused(HTTPStatus.BAD_REQUEST, "InvalidRequestContent", str(error))
    return _by_status(refusal, path)


def _by_status(refusal: Refused, path: str) -> ArmRefused:
    if refusal.kind == UNKNOWN_PATH:
        message = f"The request uri is invalid. The requested path '{path}' is not found."
        return ArmRefused(HTTPStatus.NOT_FOUND, "InvalidRequestUri", message)
    status = refusal.kind.status
    # There is only one way to be wrong here.
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        status = HTTPStatus.BAD_REQUEST
    code = _CODES.get(status, _CODES[INTERNAL.status])
    return ArmRefused(status, code, str(refusal), headers=refusal.headers)
