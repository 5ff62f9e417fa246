"""The message that every system passes on. Peers import this: it needs the standard library only."""

from __future__ import annotations

import time
from typing import Any, Final

QUEUE: Final = "orders"
BODY: Final = {"order": 7, "customer": "c9", "lines": [{"sku": "a-1", "count": 2}]}

#: What is measured, in the words of the tables.
SEND: Final = "send"
SEND_IN_ONE_CALL: Final = "send in one call"
RECEIVE: Final = "receive and complete"
IDLE: Final = "one through an idle queue"

#: So many wait in the queue when receiving begins, per second that is measured.
BACKLOG_PER_SECOND: Final = 2_000

IDLE_MESSAGES_PER_SECOND: Final = 20
#: Long enough for a receiver to have gone back to waiting before the next message comes.
IDLE_PAUSE_SECONDS: Final = 0.05


def stamped() -> dict[str, Any]:
    """The message with the time of its sending, by a clock that all processes of a machine share."""
    return BODY | {"sent_at": time.monotonic()}


def age_seconds(body: dict[str, Any]) -> float:
    """How long ago a stamped message was sent."""
    return float(time.monotonic() - body["sent_at"])
