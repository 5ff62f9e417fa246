"""Which members the documents of jobs and collections have, and where else they may be written.

A shape is a table of members. What is in none is ignored, whoever sent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Whole:
    """A value that is given, and replaced, as a whole."""


@dataclass(frozen=True, slots=True)
class Texts:
    """An object of names that nobody knows beforehand; those that differ in letter case only are the same."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An object with these members."""

    members: Mapping[str, Any]
    #: Members that have moved: from where they may be written as well to where they belong.
    moved: Mapping[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)


WHOLE: Final = Whole()
TEXTS: Final = Texts()


def _whole(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, WHOLE)


_RETRY_POLICY: Final = Shape(_whole("retryType", "retryInterval", "retryCount"))
_REQUEST_AUTHENTICATION: Final = Shape(
    _whole("username", "password", "pfx", "tenant", "audience", "clientId", "secret", "type")
)
_REQUEST: Final = Shape(
    {
        **_whole("uri", "method"),
        "headers": TEXTS,
        **_whole("body"),
        "authentication": _REQUEST_AUTHENTICATION,
        "retryPolicy": _RETRY_POLICY,
    }
)
_QUEUE_MESSAGE: Final = Shape(_whole("storageAccount", "queueName", "sasToken", "message"))
_BROKERED: Final = Shape(
    _whole(
        "contentType",
        "correlationId",
        "forcePersistence",
        "label",
        "messageId",
        "partitionKey",
        "replyTo",
        "replyToSessionId",
        "scheduledEnqueueTimeUtc",
        "sessionId",
        "timeToLive",
        "to",
        "viaPartitionKey",
    )
)


def _service_bus(name: str) -> Shape:
    return Shape(
        {
            **_whole(name, "namespace", "message", "transportType"),
            "authentication": Shape(_whole("sasKeyName", "sasKey", "type")),
            "brokeredMessageProperties": _BROKERED,
            "customMessageProperties": TEXTS,
        }
    )


_WORKFLOW: Final = Shape({**_whole("name", "input"), "attributes": TEXTS})

_ERROR_ACTION: Final = Shape(
    {
        "request": _REQUEST,
        "queueMessage": _QUEUE_MESSAGE,
        "serviceBusQueueMessage": _service_bus("queueName"),
        "serviceBusTopicMessage": _service_bus("topicPath"),
        "workflow": _WORKFLOW,
        "type": WHOLE,
        "retryPolicy": _RETRY_POLICY,
    },
    moved={("request", "retryPolicy"): ("retryPolicy",)},
)
_ACTION: Final = Shape(
    {**_ERROR_ACTION.members, "errorAction": _ERROR_ACTION},
    moved=_ERROR_ACTION.moved,
)
_RECURRENCE: Final = Shape(
    {
        **_whole("frequency", "count", "endTime", "interval"),
        "schedule": Shape(
            _whole("minutes", "hours", "weekDays", "monthDays", "monthlyOccurrences", "months")
        ),
    }
)

#: The properties of a job.
JOB: Final = Shape(
    {
        "startTime": WHOLE,
        "action": _ACTION,
        "recurrence": _RECURRENCE,
        **_whole("state", "catchUp", "overlap"),
        "retryPolicy": _RETRY_POLICY,
        "errorAction": _ERROR_ACTION,
    },
    moved={("retryPolicy",): ("action", "retryPolicy"), ("errorAction",): ("action", "errorAction")},
)

#: A collection, from the top of its document.
COLLECTION: Final = Shape(
    {
        **_whole("name", "location"),
        "tags": TEXTS,
        "properties": Shape(
            {
                "sku": Shape(_whole("name")),
                "state": WHOLE,
                "quota": Shape(
                    {
                        **_whole("maxJobCount", "maxJobOccurrence"),
                        "maxRecurrence": Shape(_whole("frequency", "interval")),
                    }
                ),
            }
        ),
    }
)
