"""What an action may say: how it is checked, and how it is answered.

type              message member           members (those that are needed: *)
Http, Https       request                  uri* method* headers body authentication
StorageQueue      queueMessage             storageAccount* queueName* sasToken* message*
ServiceBusQueue   serviceBusQueueMessage   queueName* namespace* message* transportType* authentication …
ServiceBusTopic   serviceBusTopicMessage   topicPath* and the rest as above
Workflow          workflow                 name* input attributes; our own
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from backstay.domain.jobs.certificates import TOLD, checked_certificate, pfx_bytes
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.readers import Reader, choice, members, text, texts, truth
from backstay.domain.jobs.records import LOST
from backstay.domain.jobs.retrying import read_retry_policy
from backstay.domain.recurrence import read_moment, read_span
from backstay.domain.task import ATTRIBUTE_LENGTH_MAX, ATTRIBUTES_MAX, check_id
from backstay.errors import InvalidId, InvalidJob

URI_LENGTH_MAX: Final = 2_048
HEADERS_MAX: Final = 50
HEADERS_LENGTH_MAX: Final = 4_096
BODY_LENGTH_MAX: Final = 8_192
TENANT_LENGTH_MAX: Final = 255

METHODS: Final = ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS")

#: The member that holds the message of a type.
MESSAGES: Final[Mapping[str, str]] = {
    "Http": "request",
    "Https": "request",
    "StorageQueue": "queueMessage",
    "ServiceBusQueue": "serviceBusQueueMessage",
    "ServiceBusTopic": "serviceBusTopicMessage",
    "Workflow": "workflow",
}

_URI: Final = re.compile(r"https?://(?P<host>[^\s/?#]+)[^\s]*", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TENANT: Final = re.compile(r"[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*")
# What would end the line, or is no text.
_NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

read_type: Final = choice(MESSAGES)


def read_action(value: Mapping[str, Any], field: str) -> Json:
    """An action, its errorAction included. Secrets are still in it."""
    readers = {"errorAction": read_error_action}
    return _action(value, field) | members(value, field, readers)


def read_error_action(value: Mapping[str, Any], field: str) -> Json:
    return _action(value, field)


def _action(value: Mapping[str, Any], field: str) -> Json:
    if "type" not in value:
        raise InvalidJob(f"{field}.type", f"is missing; write one of {', '.join(MESSAGES)}")
    kind = read_type(value["type"], f"{field}.type")
    message = MESSAGES[kind]
    for name in dict.fromkeys(MESSAGES.values()):
        if name != message and name in value:
            raise InvalidJob(
                f"{field}.{name}", f"does not go with type {kind}; leave it out, and write {message}"
            )
    readers = {message: _READERS[message], "type": read_type, "retryPolicy": read_retry_policy}
    return members(value, field, readers, needed=message)


# Requests


def _request(value: Mapping[str, Any], field: str) -> Json:
    readers: dict[str, Reader] = {
        "uri": _uri,
        "method": _method,
        "headers": _headers,
        "body": text(least=0, most=BODY_LENGTH_MAX),
        "authentication": _authentication,
    }
    return members(value, field, readers, needed="uri method")


def _uri(value: Any, field: str) -> str:
    """Answered as it came, with every percent sign."""
    uri: str = text(most=URI_LENGTH_MAX)(value, field)
    found = _URI.fullmatch(uri)
    if found is None:
        raise InvalidJob(field, "is no address; write http:// or https://, a host, and no blanks")
    # No request would leave; and a password in it would lie in the store for everybody to read.
    if "@" in found["host"]:
        raise InvalidJob(field, "has a user in it; leave it out, and write authentication of type Basic")
    if "\\" in uri:
        raise InvalidJob(field, "has a backslash in it; write / or %5C")
    return uri


def _method(value: Any, field: str) -> str:
    choice(METHODS)(value, field)
    # In the letter case in which it came.
    return str(value)


def _headers(value: Any, field: str) -> dict[str, str]:
    headers = texts(value, field)
    if len(headers) > HEADERS_MAX:
        raise InvalidJob(field, f"has {len(headers)} headers; write at most {HEADERS_MAX}")
    length = sum(len(name) + len(one) for name, one in headers.items())
    if length > HEADERS_LENGTH_MAX:
        raise InvalidJob(
            field, f"has {length:,} characters in names and values; write at most {HEADERS_LENGTH_MAX:,}"
        )
    for name, one in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or _NOT_IN_A_HEADER.search(one):
            raise InvalidJob(
                field,
                "has a header that cannot be sent; write names of letters, digits and -, values of one line",
            )
    return headers


def _authentication(value: Mapping[str, Any], field: str) -> Json:
    if "type" not in value:
        raise InvalidJob(f"{field}.type", f"is missing; write one of {', '.join(_AUTHENTICATIONS)}")
    kind = _authentication_type(value["type"], f"{field}.type")
    readers = _AUTHENTICATIONS[kind]
    read = members(value, field, readers, needed=" ".join(readers))
    # What a certificate says of itself is read from it each time, so that it is never that of another.
    said = _said(value, read, field) if kind == "ClientCertificate" else {}
    return {**read, **said, "type": kind}


def _said(value: Mapping[str, Any], read: Json, field: str) -> Json:
    if read["pfx"] is LOST:
        # What it said when it was written.
        return {name: value[name] for name in TOLD if name in value}
    return {} if read["password"] is LOST else checked_certificate(read, field)


def _base64(value: Any, field: str) -> str:
    written: str = text()(value, field)
    if written is LOST:
        return written
    try:
        pfx_bytes(written)
    except ValueError:
        raise InvalidJob(field, "is not base64; write the .pfx file in base64") from None
    return written


def _tenant(value: Any, field: str) -> str:
    tenant: str = text(most=TENANT_LENGTH_MAX)(value, field)
    if not is_tenant(tenant):
        raise InvalidJob(field, "is no tenant; write its id or its domain: letters, digits, . and -")
    return tenant


def is_tenant(tenant: str) -> bool:
    """Whether it may stand in an address, as one part of the way and nothing else."""
    return _TENANT.fullmatch(tenant) is not None


_AUTHENTICATIONS: Final[Mapping[str, dict[str, Reader]]] = {
    "NotSpecified": {},
    "Basic": {"username": text(least=0), "password": text(least=0)},
    "ClientCertificate": {"pfx": _base64, "password": text(least=0)},
    "ActiveDirectoryOAuth": {"tenant": _tenant, "audience": text(), "clientId": text(), "secret": text()},
}
_authentication_type: Final = choice(_AUTHENTICATIONS)


# Queues and topics


def _queue_message(value: Mapping[str, Any], field: str) -> Json:
    readers = {
        "storageAccount": text(),
        "queueName": text(),
        "sasToken": text(),
        "message": text(least=0),
    }
    return members(value, field, readers, needed=" ".join(readers))


def _service_bus(name: str) -> Reader:
    readers: dict[str, Reader] = {
        name: text(),
        "namespace": text(),
        "message": text(least=0),
        "transportType": choice(("notSpecified", "netMessaging", "amqp")),
        "authentication": _shared_access,
        "brokeredMessageProperties": _brokered,
        "customMessageProperties": texts,
    }

    def reader(value: Mapping[str, Any], field: str) -> Json:
        return members(value, field, readers, needed=f"{name} namespace message transportType")

    return reader


def _shared_access(value: Mapping[str, Any], field: str) -> Json:
    readers = {
        "sasKeyName": text(),
        "sasKey": text(),
        "type": choice(("notSpecified", "sharedAccessKey")),
    }
    return members(value, field, readers)


_BROKERED: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(("contentType", "correlationId"), text(least=0)),
    "forcePersistence": truth,
    **dict.fromkeys(
        ("label", "messageId", "partitionKey", "replyTo", "replyToSessionId"),
        text(least=0),
    ),
    "scheduledEnqueueTimeUtc": lambda value, field: read_moment(value, field).text,
    "sessionId": text(least=0),
    "timeToLive": lambda value, field: read_span(value, field).text,
    **dict.fromkeys(("to", "viaPartitionKey"), text(least=0)),
}


def _brokered(value: Mapping[str, Any], field: str) -> Json:
    return members(value, field, _BROKERED)


# Workflows


def _workflow(value: Mapping[str, Any], field: str) -> Json:
    readers: dict[str, Reader] = {
        "name": _id,
        "input": lambda value, _: value,
        "attributes": _attributes,
    }
    return members(value, field, readers, needed="name")


def _id(value: Any, field: str) -> str:
    try:
        return check_id(value, name=field)
    except InvalidId as error:
        raise InvalidJob(field, str(error).removeprefix(f"{field} ")) from error


def _attributes(value: Any, field: str) -> dict[str, str]:
    """What a task may be given, so that it is not refused when it starts."""
    attributes = texts(value, field)
    too_long = any(
        not 1 <= len(name) <= ATTRIBUTE_LENGTH_MAX or len(one) > ATTRIBUTE_LENGTH_MAX
        for name, one in attributes.items()
    )
    if len(attributes) > ATTRIBUTES_MAX or too_long:
        raise InvalidJob(
            field,
            f"has too much in it; write at most {ATTRIBUTES_MAX} of them,"
            f" with {ATTRIBUTE_LENGTH_MAX} characters in a name and a value",
        )
    return attributes


_READERS: Final[Mapping[str, Reader]] = {
    "request": _request,
    "queueMessage": _queue_message,
    "serviceBusQueueMessage": _service_bus("queueName"),
    "serviceBusTopicMessage": _service_bus("topicPath"),
    "workflow": _workflow,
}
