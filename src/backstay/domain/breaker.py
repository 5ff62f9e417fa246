"""The circuit breaker: when an agent stops calling a service, and when it asks again.

    closed --(failures within the window)--> open --(time passes)--> half-open
    half-open --(a probe succeeds)--> closed        half-open --(a probe fails)--> open, for longer

Instants are seconds of a monotonic clock, passed in by the caller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from backstay.domain.durations import Duration, duration
from backstay.errors import InvalidRequest

FAILURES_MAX: Final = 10_000

#: So many turns of a breaker are remembered.
TURNS_MAX: Final = 20


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, init=False)
class Breaker:
    """Open after ``failures`` failures within a time window, for ``open_for``; then let ``probes`` calls try.

    Each time the probes fail, the breaker stays open twice as long, up to ``open_for_max``.
    """

    failures: int
    within: timedelta
    open_for: timedelta
    open_for_max: timedelta
    probes: int

    def __init__(
        self,
        failures: int = 5,
        within: Duration = "10s",
        open_for: Duration = "30s",
        *,
        open_for_max: Duration = "5m",
        probes: int = 1,
    ) -> None:
        if not 1 <= failures <= FAILURES_MAX:
            raise InvalidRequest(
                f"Breaker.failures is {failures}; it must lie between 1 and {FAILURES_MAX:,}"
            )
        if probes < 1:
            raise InvalidRequest(f"Breaker.probes is {probes}; it must be at least 1")
        open_time = duration(open_for, name="Breaker.open_for")
        assign = object.__setattr__
        assign(self, "failures", failures)
        assign(self, "within", duration(within, name="Breaker.within"))
        assign(self, "open_for", open_time)
        assign(self, "open_for_max", max(open_time, duration(open_for_max, name="Breaker.open_for_max")))
        assign(self, "probes", probes)


@dataclass(frozen=True, slots=True)
class Turn:
    """The breaker came to another state."""

    at: float
    state: BreakerState
    # How many failures had opened it, and what the last of them said.
    failures: int = 0
    error: str | None = None


class Circuit:
    """The live state of one breaker. Not thread-safe: one event loop owns it."""

    def __init__(self, policy: Breaker) -> None:
        self._policy = policy
        #: The last of them, oldest first. Half open it is from the first probe on.
        self.turns: deque[Turn] = deque(maxlen=TURNS_MAX)
        self._failures: deque[float] = deque(maxlen=policy.failures)
        self._open_until: float | None = None
        self._openings = 0
        self._probing = 0

    def state(self, now: float) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def retry_at(self, now: float) -> float:
        """The earliest instant at which a call may be let through."""
        return now if self._open_until is None else max(now, self._open_until)

    def admit(self, now: float) -> bool:
        """Whether a call may be made now; while half open this counts the probe it lets through."""
        match self.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                if self._probing >= self._policy.probes:
                    return False
                self._probing += 1
                if self.turns[-1].state is BreakerState.OPEN:
                    self.turns.append(Turn(now, BreakerState.HALF_OPEN))
                return True

    def admits(self, now: float, at_most: int) -> int:
        """How many calls would be let through now, up to ``at_most``. Counts nothing."""
        match self.state(now):
            case BreakerState.CLOSED:
                return at_most
            case BreakerState.OPEN:
                return 0
            case BreakerState.HALF_OPEN:
                return min(at_most, self._policy.probes - self._probing)

    def withdraw(self) -> None:
        """An admitted call was not made, or ended without a verdict on the service."""
        self._probing = max(0, self._probing - 1)

    def succeeded(self, now: float) -> None:
        if self._probing == 0:
            return  # Closed anyway; or a call that began before the breaker opened: it proves nothing now.
        self.turns.append(Turn(now, BreakerState.CLOSED))
        self._open_until = None
        self._openings = 0
        self._probing = 0
        self._failures.clear()

    def failed(self, now: float, error: str | None = None) -> None:
        match self.state(now):
            case BreakerState.OPEN:
                return  # A call that began before the breaker opened; it is judged already.
            case BreakerState.HALF_OPEN:
                if self._probing:
                    self._open(now, Turn(now, BreakerState.OPEN, 1, error))
            case BreakerState.CLOSED:
                self._failures.append(now)
                window = self._policy.within.total_seconds()
                if len(self._failures) == self._policy.failures and now - self._failures[0] <= window:
                    self._open(now, Turn(now, BreakerState.OPEN, self._policy.failures, error))

    def _open(self, now: float, turn: Turn) -> None:
        # 2**20 times any open time is beyond every cap.
        longer = self._policy.open_for.total_seconds() * 2 ** min(self._openings, 20)
        self._open_until = now + min(longer, self._policy.open_for_max.total_seconds())
        self._openings += 1
        self._probing = 0
        self._failures.clear()
        self.turns.append(turn)
