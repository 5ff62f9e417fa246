"""Whether the silence of others says anything about them: not when our own voice did not carry either.

After an outage everybody is late, and somebody is back first. He must not bury those whose first sign
of life is still on its way.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from itertools import pairwise
from typing import Final

from backstay.clock import Clock

# Of a lease. A heartbeat fits into it twice, so that an interval between two of them is shorter than this.
_LONGEST_INTERVAL: Final = 0.75

_REMEMBERED: Final = 100


class Contact:
    """The signs of life that this process gave, as far as the server answered them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered_at: deque[float] = deque(maxlen=_REMEMBERED)

    def answered(self) -> None:
        self._answered_at.append(self._clock.monotonic())

    def unbroken(self, lease: timedelta) -> bool:
        """Whether none of ours was late within the last ``lease``; true of a process that just began."""
        now, seconds = self._clock.monotonic(), lease.total_seconds()
        return not any(
            after - before > seconds * _LONGEST_INTERVAL and now - after < seconds
            for before, after in pairwise([*self._answered_at, now])
        )
