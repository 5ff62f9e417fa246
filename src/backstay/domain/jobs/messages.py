"""What the history says of an attempt or a gap, in the words of the original service where it had some."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from backstay.domain.jobs.records import CatchUp
from backstay.domain.recurrence import Moment
from backstay.domain.text import is_text

#: Of a response so much is kept: of its body, and of its headers together.
EXCERPT_LENGTH_MAX: Final = 1_024
HEADERS_LENGTH_MAX: Final = 4_096
#: Of any other text that somebody else wrote.
_REASON_LENGTH_MAX: Final = 1_024

#: Of a connection that the guard stopped.
ADDRESS_REFUSED: Final = (
    "The address is not public, and this server does not call it; outbound_allow in its settings allows more."
)

#: Statuses as .NET names them; it has no name for others, and writes the number.
_STATUS_NAMES: Final = {
    100: "Continue",
    101: "SwitchingProtocols",
    102: "Processing",
    103: "EarlyHints",
    200: "OK",
    201: "Created",
    202: "Accepted",
    203: "NonAuthoritativeInformation",
    204: "NoContent",
    205: "ResetContent",
    206: "PartialContent",
    207: "MultiStatus",
    208: "AlreadyReported",
    226: "IMUsed",
    300: "MultipleChoices",
    301: "MovedPermanently",
    302: "Found",
    303: "SeeOther",
    304: "NotModified",
    305: "UseProxy",
    306: "Unused",
    307: "TemporaryRedirect",
    308: "PermanentRedirect",
    400: "BadRequest",
    401: "Unauthorized",
    402: "PaymentRequired",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    407: "ProxyAuthenticationRequired",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    411: "LengthRequired",
    412: "PreconditionFailed",
    413: "RequestEntityTooLarge",
    414: "RequestUriTooLong",
    415: "UnsupportedMediaType",
    416: "RequestedRangeNotSatisfiable",
    417: "ExpectationFailed",
    421: "MisdirectedRequest",
    422: "UnprocessableEntity",
    423: "Locked",
    424: "FailedDependency",
    426: "UpgradeRequired",
    428: "PreconditionRequired",
    429: "TooManyRequests",
    431: "RequestHeaderFieldsTooLarge",
    451: "UnavailableForLegalReasons",
    500: "InternalServerError",
    501: "NotImplemented",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "GatewayTimeout",
    505: "HttpVersionNotSupported",
    506: "VariantAlsoNegotiates",
    507: "InsufficientStorage",
    508: "LoopDetected",
    510: "NotExtended",
    511: "NetworkAuthenticationRequired",
}


def status_name(status: int) -> str:
    return _STATUS_NAMES.get(status, str(status))


# HTTP


def http_answered(host: str, status: int, headers: Iterable[tuple[str, str]], body: str) -> str:
    """A response came, whatever it says."""
    told = _kept("".join(f"{name}: {value}\r\n" for name, value in headers), HEADERS_LENGTH_MAX)
    text = _kept(body, EXCERPT_LENGTH_MAX)
    return (
        f"Http Action - Response from host '{_kept(host)}': '{status_name(status)}'"
        f" Response Headers: {told} Body: {text}"
    )


def http_failed(host: str, kind: str, text: str) -> str:
    """None came; ``kind`` is one of .NET's words for why."""
    return f"Http Action - Request to host '{_kept(host)}' failed: {kind} {_kept(text)}"


# Others


def workflow_started(workflow: str, task_id: str) -> str:
    return f"Workflow Action - Task '{task_id}' of workflow '{workflow}' is started."


def workflow_failed(workflow: str, reason: str) -> str:
    return f"Workflow Action - No task of workflow '{workflow}' is started: {_kept(reason)}"


def service_bus_sent(kind: str, name: str, namespace: str, id: str) -> str:
    return f"{_service_bus(kind, name, namespace)} succeeded: it is sent as '{_kept(id)}'."


def service_bus_failed(kind: str, name: str, namespace: str, reason: str) -> str:
    return f"{_service_bus(kind, name, namespace)} failed: {_kept(reason)}"


def service_bus_missing(kind: str, name: str, namespace: str) -> str:
    return f"{_service_bus(kind, name, namespace)} failed: the {_of_bus(kind)} does not exist."


def service_bus_key_gone(kind: str, name: str, namespace: str) -> str:
    return (
        f"{_service_bus(kind, name, namespace)} failed: Azure wants to know who sends it;"
        " write authentication with sasKeyName and sasKey into the job."
    )


def service_bus_not_installed(kind: str, name: str, namespace: str) -> str:
    return (
        f"{_service_bus(kind, name, namespace)} failed: this process lacks a package;"
        " pip install 'backstay[azure]'"
    )


def _of_bus(kind: str) -> str:
    return "queue" if kind == "ServiceBusQueue" else "topic"


def _service_bus(kind: str, name: str, namespace: str) -> str:
    return f"{kind} Action - Message to {_of_bus(kind)} '{_kept(name)}' in namespace '{_kept(namespace)}'"


def storage_sent(account: str, queue: str) -> str:
    return f"{_storage(account, queue)} succeeded."


def storage_failed(account: str, queue: str, reason: str) -> str:
    return f"{_storage(account, queue)} failed: {_kept(reason)}"


def storage_queue_missing(queue: str, account: str) -> str:
    return f"StorageQueue Action - The queue '{_kept(queue)}' of account '{_kept(account)}' does not exist."


def storage_account_missing(account: str, queue: str) -> str:
    return (
        f"StorageQueue Action - The account '{_kept(account)}' could not be found;"
        f" nothing is sent to its queue '{_kept(queue)}'."
    )


def storage_token_gone() -> str:
    return (
        "StorageQueue Action - The message is not sent: its sasToken is gone,"
        " with the job or by a change of it."
    )


def storage_not_installed() -> str:
    return (
        "StorageQueue Action - The message is not sent: this process lacks a package;"
        " pip install 'backstay[azure]'"
    )


def _storage(account: str, queue: str) -> str:
    return f"StorageQueue Action - Message to account '{_kept(account)}', queue '{_kept(queue)}'"


def not_run_here(kind: str) -> str:
    """An action that can be written down and not be run."""
    return f"{kind} Action - This release does not run actions of this type; use another."


def secret_gone(name: str) -> str:
    return f"Http Action - The request is not sent: its {name} is gone, with the job or by a change of it."


def secret_unopened(kind: str, reason: str) -> str:
    return (
        f"{kind} Action - Nothing is sent: a secret of the job cannot be opened: {_kept(reason)};"
        " give the key back to this process, or write the secret into the job again."
    )


def certificate_failed(reason: str) -> str:
    return f"Http Action - The request is not sent: its certificate cannot be used: {_kept(reason)}"


def token_failed(host: str, reason: str) -> str:
    """No token came; of what the authority said only the status is told."""
    return f"Http Action - The request is not sent: no token came from '{_kept(host)}': {_kept(reason)}"


def went_wrong(kind: str, reason: str) -> str:
    """What nobody had foreseen."""
    return f"{kind} Action - The attempt failed: {_kept(reason)}; the log of the process tells more."


# Gaps


def overlapped(number: int, first: datetime, last: datetime) -> str:
    return f"{_skipped(number, first, last)} an earlier one was at work, and overlap is 'skip'."


def not_caught_up(number: int, first: datetime, last: datetime, catch_up: CatchUp) -> str:
    return f"{_skipped(number, first, last)} nothing was started in time, and catchUp is '{catch_up}'."


def unreadable(reason: str) -> str:
    return f"The job is over: this release cannot read when it runs: {_kept(reason)}"


def _skipped(number: int, first: datetime, last: datetime) -> str:
    if number == 1:
        return f"The occurrence of {Moment(first).text} was skipped:"
    return f"{number:,} occurrences from {Moment(first).text} to {Moment(last).text} were skipped:"


def _kept(text: str, most: int = _REASON_LENGTH_MAX) -> str:
    """Its beginning, with what no store can keep replaced: others wrote it."""
    return "".join(char if is_text(char) else "\ufffd" for char in text[:most])
