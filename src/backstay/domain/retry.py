"""How long an agent waits before it tries a step again within one attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from backstay.domain.durations import Duration, duration
from backstay.errors import InvalidRequest

ATTEMPTS_MAX: Final = 1_000

FACTOR_MAX: Final = 1_000

# Beyond 2**60 every sane policy is at its cap; FACTOR_MAX to this power still fits into a float.
_EXPONENT_MAX: Final = 60

# A service may ask for any time; whoever waits longer than this has forgotten why.
RETRY_AFTER_MAX: Final = timedelta(days=1)

_NOTHING: Final = timedelta(0)


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """Exponential back-off: ``first``, then ``factor`` times longer each time, never above ``cap``.

    With ``jitter`` a delay is drawn evenly between half of it and the whole, so that many
    callers who failed together do not come back together.
    """

    attempts: int
    first: timedelta
    factor: float
    cap: timedelta
    jitter: bool

    def __init__(
        self,
        attempts: int = 4,
        first: Duration = "100ms",
        factor: float = 2,
        cap: Duration = "2s",
        *,
        jitter: bool = True,
    ) -> None:
        if not 1 <= attempts <= ATTEMPTS_MAX:
            raise InvalidRequest(f"Retry.attempts is {attempts}; it must lie between 1 and {ATTEMPTS_MAX:,}")
        if not 1 <= factor <= FACTOR_MAX:
            raise InvalidRequest(f"Retry.factor is {factor}; it must lie between 1 and {FACTOR_MAX:,}")
        assign = object.__setattr__
        assign(self, "attempts", attempts)
        assign(self, "first", duration(first, name="Retry.first"))
        assign(self, "factor", factor)
        assign(self, "cap", duration(cap, name="Retry.cap"))
        assign(self, "jitter", jitter)

    def delay_after(
        self, tries: int, chance: Callable[[], float], *, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """The pause after the ``tries``-th failed try, or ``None`` when no try is left.

        ``chance`` gives a number in [0, 1). ``retry_after`` is what the service asked for: the pause is
        not shorter, whatever the cap, though nobody is left alone for longer than ``RETRY_AFTER_MAX``.
        """
        if tries >= self.attempts:
            return None
        delay = self._delay(tries)
        drawn = delay * (0.5 + chance() / 2) if self.jitter else delay
        return max(drawn, min(retry_after or _NOTHING, RETRY_AFTER_MAX))

    def _delay(self, tries: int) -> timedelta:
        if not self.first:
            return self.first
        # Compared as numbers: first * factor**n may not fit into a timedelta.
        growth = float(self.factor) ** min(tries - 1, _EXPONENT_MAX)
        return self.first * growth if growth < self.cap / self.first else self.cap
