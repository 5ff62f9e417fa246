"""What happened, said once: event names, and the one call that reports them.

An alert is one log line with ``alert=<kind>`` and ``task_id=<id>``. Counters are kept per process.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from typing import Any, Final

log: Final = logging.getLogger("backstay")

LATE_REPLY: Final = "late_reply"
LEASE_LOST: Final = "lease_lost"
WRITE_REFUSED: Final = "write_refused"
RECOVERED: Final = "recovered"
STEP_RETRIED: Final = "step_retried"
STEP_REPEATED: Final = "step_repeated"
BREAKER_OPENED: Final = "breaker_opened"
AGENT_SLOWED: Final = "agent_slowed"
DRAINING: Final = "draining"
DRAIN_CUT_SHORT: Final = "drain_cut_short"
FEWER_CONNECTIONS: Final = "fewer_connections"
LEAD_TAKEN: Final = "lead_taken"
LEAD_LOST: Final = "lead_lost"
PRUNED: Final = "pruned"
INSTANCE_DEAD: Final = "instance_dead"
STORE_UNAVAILABLE: Final = "store_unavailable"
STORE_DEAF: Final = "store_deaf"
MESSAGE_DEAD: Final = "message_dead"
MESSAGE_LOCK_LOST: Final = "message_lock_lost"
MESSAGE_ABANDONED: Final = "message_abandoned"
MESSAGE_DUPLICATE: Final = "message_duplicate"
STATUS_LOST: Final = "status_lost"
PARTITION_TAKEN: Final = "partition_taken"
PARTITION_GIVEN_UP: Final = "partition_given_up"
PARTITION_TAKEN_AWAY: Final = "partition_taken_away"
PARTITION_LOST: Final = "partition_lost"
READERS_DIFFER: Final = "readers_differ"
EVENT_QUARANTINED: Final = "event_quarantined"
PIPELINE_WAITS: Final = "pipeline_waits"
ALERT_TOLD: Final = "alert_told"
ALERT_UNTOLD: Final = "alert_untold"
ALERTS_FORGOTTEN: Final = "alerts_forgotten"
OCCURRENCE_STARTED: Final = "occurrence_started"
OCCURRENCE_SKIPPED: Final = "occurrence_skipped"

#: All of them: they are counted from zero, so that a rule can be written before the first one happens.
EVENTS: Final = (
    LATE_REPLY,
    LEASE_LOST,
    WRITE_REFUSED,
    RECOVERED,
    STEP_RETRIED,
    STEP_REPEATED,
    BREAKER_OPENED,
    AGENT_SLOWED,
    DRAINING,
    DRAIN_CUT_SHORT,
    FEWER_CONNECTIONS,
    LEAD_TAKEN,
    LEAD_LOST,
    INSTANCE_DEAD,
    STORE_UNAVAILABLE,
    STORE_DEAF,
    MESSAGE_DEAD,
    MESSAGE_LOCK_LOST,
    MESSAGE_ABANDONED,
    MESSAGE_DUPLICATE,
    STATUS_LOST,
    PARTITION_TAKEN,
    PARTITION_GIVEN_UP,
    PARTITION_TAKEN_AWAY,
    PARTITION_LOST,
    READERS_DIFFER,
    EVENT_QUARANTINED,
    PIPELINE_WAITS,
    ALERT_TOLD,
    ALERT_UNTOLD,
    ALERTS_FORGOTTEN,
    OCCURRENCE_STARTED,
    OCCURRENCE_SKIPPED,
)

counters: Final[Counter[str]] = Counter()

#: How many events this process appended to a stream; how many of them it finished for a group.
appended: Final[Counter[str]] = Counter()
processed: Final[Counter[tuple[str, str]]] = Counter()


class Histogram:
    """How many values were at most as large as each of ``bounds``, and all of them together."""

    def __init__(self, *bounds: float) -> None:
        self.bounds = bounds
        self.clear()

    def add(self, value: float) -> None:
        self.numbers[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def clear(self) -> None:
        self.numbers = [0] * (len(self.bounds) + 1)
        self.sum = 0.0


#: How many seconds after their instant this process started occurrences of jobs.
lateness: Final = Histogram(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


#: How long commits of this process took, and how long new tasks waited before it claimed them.
commit_seconds: Final = Histogram(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
claim_seconds: Final = Histogram(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 3600)

#: Alerts that this process raised, by kind.
raised: Final[Counter[str]] = Counter()


def emit(event: str, *, level: int = logging.INFO, times: int = 1, **fields: Any) -> None:
    """Count ``event`` and, if somebody listens at ``level``, log it with its fields."""
    counters[event] += times
    if log.isEnabledFor(level):
        log.log(level, "%s%s", event, _text(fields), extra={"event": event, "fields": fields})


def alert(kind: str, *, task_id: str | None = None, **fields: Any) -> None:
    """Call a person: something stopped that will not go on by itself."""
    counters[kind] += 1
    raised[kind] += 1
    told = {"alert": str(kind), "task_id": task_id, **fields}
    log.error(
        "alert=%s task_id=%s%s",
        kind,
        task_id or "-",
        _text(fields),
        extra={"event": "alert", "fields": told},
    )


def _text(fields: dict[str, Any]) -> str:
    # One event is one line, whatever a value holds.
    return "".join(
        f" {name}={str(value).encode('unicode_escape').decode()}"
        for name, value in fields.items()
        if value is not None
    )
