"""When an instance counts as dead, and who leads.

An instance is one start of one process. Its row carries an ``epoch``: every write names the
epoch it acts under, and declaring the instance dead moves the epoch on, so that whatever the
instance still tries is refused, however late it wakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

# Of a lease. A heartbeat fits into it twice, so an interval between two of them is shorter than this.
_LONGEST_INTERVAL: Final = 0.75


class Owner(msgspec.Struct, frozen=True):
    """Who acts: an instance and the epoch it was given when it registered."""

    id: str
    epoch: int


class Leader(msgspec.Struct, frozen=True, kw_only=True):
    """Who leads the supervisors, and until when unless it renews.

    ``epoch`` moves on with every change of leader: what an earlier one still tries to write is refused.
    ``holder`` is None while nobody leads.
    """

    holder: str | None = None
    epoch: int = 0
    until: datetime | None = None

    def vacant(self, now: datetime) -> bool:
        """Whether anybody may take over."""
        return self.holder is None or self.until is None or now >= self.until


def is_stale(heartbeat_at: datetime, *, lease: timedelta, now: datetime) -> bool:
    """Whether an instance that last gave a sign of life at ``heartbeat_at`` has lost its lease."""
    return now - heartbeat_at > lease


def may_judge(answered_at: Iterable[float], *, lease: timedelta, now: float) -> bool:
    """Whether the silence of others says anything to an instance whose own signs of life were answered then.

    After an outage everybody is late, and somebody is back first. It must not bury those whose first sign
    of life is still on its way: not before a whole lease has gone by in which none of its own was late.
    Seconds of a clock that never jumps.
    """
    seconds = lease.total_seconds()
    return not any(
        after - before > seconds * _LONGEST_INTERVAL and now - after < seconds
        for before, after in pairwise([*answered_at, now])
    )
