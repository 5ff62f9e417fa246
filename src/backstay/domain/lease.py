"""When an instance counts as dead.

An instance is one start of one process. Its row carries an ``epoch``: every write names the
epoch it acts under, and declaring the instance dead moves the epoch on, so that whatever the
instance still tries is refused, however late it wakes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec


class Owner(msgspec.Struct, frozen=True):
    """Who acts: an instance and the epoch it was given when it registered."""

    id: str
    epoch: int


def is_stale(heartbeat_at: datetime, *, lease: timedelta, now: datetime) -> bool:
    """Whether an instance that last gave a sign of life at ``heartbeat_at`` has lost its lease."""
    return now - heartbeat_at > lease
