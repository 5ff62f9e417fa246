"""What a job says of a message to a queue or topic; whose its namespace is, and where.

messageId                  the id; else that of the action, which all its attempts share
sessionId                  the session
timeToLive                 ttl
scheduledEnqueueTimeUtc    at
all others                 properties of the same name; those of the job's own count before them

A namespace is Backstay's own, unless the settings say where Azure Service Bus has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.message import Property
from backstay.domain.recurrence import read_moment, read_span
from backstay.errors import InvalidRequest

OURS: Final = "backstay"
AZURE: Final = "azure"
#: Where Azure has a namespace of which only the name is told, unless it is a host already.
AZURE_HOST: Final = "{name}.servicebus.windows.net"
#: By whether there is TLS.
PORTS: Final = {True: 5671, False: 5672}
PORT_MAX: Final = 65_535

#: Of each type: the member with the message, and in it that with the name.
_MEMBERS: Final = {
    "ServiceBusQueue": ("serviceBusQueueMessage", "queueName"),
    "ServiceBusTopic": ("serviceBusTopicMessage", "topicPath"),
}
_OF_ITS_OWN: Final = frozenset({"messageId", "sessionId", "timeToLive", "scheduledEnqueueTimeUtc"})
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_ADDRESS: Final = re.compile(r"(amqps?)://(\[[0-9a-f:.]+\]|[a-z0-9][a-z0-9.-]*)(?::([0-9]{1,5}))?")


class Addressed(msgspec.Struct, frozen=True, kw_only=True):
    """What an action sends, and where to."""

    kind: str
    member: str
    name: str
    namespace: str
    message: Mapping[str, Any]

    @property
    def to_topic(self) -> bool:
        return self.kind == "ServiceBusTopic"


def addressed(action: Mapping[str, Any]) -> Addressed:
    kind = action["type"]
    member, named = _MEMBERS[kind]
    message = action[member]
    return Addressed(
        kind=kind, member=member, name=message[named], namespace=message["namespace"], message=message
    )


class Brokered(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is sent. ``said`` is of the broker's own words, ``custom`` of the job's."""

    id: str
    session: str | None
    ttl: timedelta | None
    at: datetime | None
    said: dict[str, Property]
    custom: dict[str, str]

    @property
    def properties(self) -> dict[str, Property]:
        return self.said | self.custom


def brokered(message: Mapping[str, Any], *, key: str) -> Brokered:
    """``key`` is the same for all attempts: where ids are told apart, they are one message."""
    # An empty text is how clients write that there is none.
    given = {
        name: one
        for name, one in message.get("brokeredMessageProperties", {}).items()
        if one not in ("", None)
    }
    span, moment = given.get("timeToLive"), given.get("scheduledEnqueueTimeUtc")
    return Brokered(
        id=given.get("messageId", key),
        session=given.get("sessionId"),
        ttl=None if span is None else read_span(span, "timeToLive").length,
        at=None if moment is None else read_moment(moment, "scheduledEnqueueTimeUtc").at,
        said={name: one for name, one in given.items() if name not in _OF_ITS_OWN},
        custom=dict(message.get("customMessageProperties") or {}),
    )


# Namespaces


class Bus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a namespace of Azure Service Bus is."""

    host: str
    port: int
    tls: bool = True


def namespaces_of(text: str) -> dict[str, Bus | None]:
    """Where each namespace is, of ``orders=backstay, legacy=azure``; None: in this store.

    Raises InvalidRequest.
    """
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        # Names of hosts, in which letter case does not count.
        name, _, whose = (one.strip() for one in part.lower().partition("="))
        bus = _bus(name, whose)
        if not name or (bus is None and whose != OURS):
            raise InvalidRequest(
                f"has {part!r}; write name={OURS}, name={AZURE}, or where it is: name=amqps://host:port,"
                " or amqp:// without TLS, with commas between several"
            )
        found[name] = bus
    return found


def _bus(name: str, whose: str) -> Bus | None:
    if whose == AZURE:
        if _HOST.fullmatch(name) is None:
            return None
        host = name if "." in name else AZURE_HOST.replace("{name}", name)
        return Bus(host=host, port=PORTS[True])
    read = _ADDRESS.fullmatch(whose)
    if read is None:
        return None
    scheme, host, port = read.groups()
    tls = scheme == "amqps"
    number = PORTS[tls] if port is None else int(port)
    return Bus(host=host.strip("[]"), port=number, tls=tls) if 1 <= number <= PORT_MAX else None
