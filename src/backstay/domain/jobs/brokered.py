"""What a job says of a message to a queue or topic, in the terms of Backstay's own; and whose a namespace is.

messageId                  the id; else that of the action, which all its attempts share
sessionId                  the session
timeToLive                 ttl
scheduledEnqueueTimeUtc    at
all others                 properties of the same name; those of the job's own count before them
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.message import Property
from backstay.domain.recurrence import read_moment, read_span
from backstay.errors import InvalidRequest

OURS: Final = "backstay"
AZURE: Final = "azure"

_OF_ITS_OWN: Final = frozenset({"messageId", "sessionId", "timeToLive", "scheduledEnqueueTimeUtc"})


class Brokered(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is sent."""

    id: str
    session: str | None
    ttl: timedelta | None
    at: datetime | None
    properties: dict[str, Property]


def brokered(message: Mapping[str, Any], *, key: str) -> Brokered:
    """``key`` is the same for all attempts: where ids are told apart, they are one message."""
    # An empty text is how clients write that there is none.
    given = {
        name: one
        for name, one in message.get("brokeredMessageProperties", {}).items()
        if one not in ("", None)
    }
    span, moment = given.get("timeToLive"), given.get("scheduledEnqueueTimeUtc")
    rest = {name: one for name, one in given.items() if name not in _OF_ITS_OWN}
    return Brokered(
        id=given.get("messageId", key),
        session=given.get("sessionId"),
        ttl=None if span is None else read_span(span, "timeToLive").length,
        at=None if moment is None else read_moment(moment, "scheduledEnqueueTimeUtc").at,
        properties=rest | dict(message.get("customMessageProperties") or {}),
    )


def namespaces_of(text: str) -> dict[str, str]:
    """Whose each namespace is, of ``orders=backstay, legacy=azure``. Raises InvalidRequest."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, whose = (one.strip() for one in part.partition("="))
        if not name or whose not in (OURS, AZURE):
            raise InvalidRequest(
                f"has {part!r}; write name={OURS} or name={AZURE}, with commas between several"
            )
        # Names of hosts, in which letter case does not count.
        found[name.lower()] = whose
    return found
