"""Whether a loop that should go round goes round."""

from __future__ import annotations

from backstay.clock import Clock


class Pulse:
    """When a role last showed that it is at work. A loop whose store is away is at work: it tries."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self.felt_at = clock.monotonic()

    def felt(self) -> None:
        self.felt_at = self.monotonic()

    def silent_seconds(self) -> float:
        return self.monotonic() - self.felt_at
