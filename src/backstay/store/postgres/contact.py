"""When the server answered our own signs of life: it decides whether the silence of others says anything."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Final

from backstay.clock import Clock
from backstay.domain.lease import may_judge

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
        return may_judge(self._answered_at, lease=lease, now=self._clock.monotonic())
