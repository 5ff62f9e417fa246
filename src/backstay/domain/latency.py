"""How long calls took lately, and how many failed: counted by size, so that processes can be added up.

Percentiles of several processes do not add up to one; counts by size do. Each size is a quarter larger than
the one before it, and within a size calls are taken to be spread evenly: a percentile is off by a quarter at
the most, and by far less as a rule.

Instants are seconds of a monotonic clock, passed in by the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

#: From 0.1 ms to almost three hours, ten to a decade. Calls are reported by the number of their size, and
#: processes of two releases report to each other: none of these may ever change.
SIZES: Final = tuple(10 ** (number / 10 - 4) for number in range(81))

#: Half of what is "lately". The older half is forgotten when the newer one is full.
HALF_SECONDS: Final = 30.0


class Calls(msgspec.Struct, frozen=True):
    """How the calls of the last half minute, or whole one, ended."""

    # Of each size that there were any of.
    sizes: dict[int, int] = {}
    # How many of them failed.
    failed: int = 0

    @property
    def number(self) -> int:
        return sum(self.sizes.values())

    def within(self, share: float) -> float | None:
        """In how many seconds this share of the calls had ended; ``None`` when there were none."""
        return _within(self.sizes, share * self.number)


class Recently:
    """Counts calls as they end. Not thread-safe: one event loop owns it."""

    __slots__ = ("_failed", "_failed_before", "_numbers", "_numbers_before", "_since")

    def __init__(self, now: float) -> None:
        self._numbers = [0] * (len(SIZES) + 1)
        self._numbers_before = self._numbers[:]
        self._failed = self._failed_before = 0
        self._since = now

    def ended(self, seconds: float) -> None:
        """A call ended, however it did. Every step comes by here: it costs a search among eighty numbers."""
        self._numbers[bisect_left(SIZES, seconds)] += 1

    def failed(self) -> None:
        """The call that ended had failed."""
        self._failed += 1

    def read(self, now: float) -> Calls:
        """What to report. Also forgets what is too old, so that it has to be called regularly."""
        if now - self._since >= HALF_SECONDS:
            is_old = now - self._since >= 2 * HALF_SECONDS
            self._numbers_before = [0] * len(self._numbers) if is_old else self._numbers
            self._failed_before = 0 if is_old else self._failed
            self._numbers, self._failed = [0] * len(self._numbers), 0
            self._since = now
        numbers = map(sum, zip(self._numbers, self._numbers_before, strict=True))
        return Calls(
            sizes={size: number for size, number in enumerate(numbers) if number},
            failed=self._failed + self._failed_before,
        )


def together(several: Iterable[Calls]) -> Calls:
    """The calls of several processes."""
    sizes: Counter[int] = Counter()
    failed = 0
    for calls in several:
        sizes.update(calls.sizes)
        failed += calls.failed
    return Calls(sizes=dict(sizes), failed=failed)


def _within(sizes: Mapping[int, int], rank: float) -> float | None:
    passed = 0
    for size, number in sorted(sizes.items()):
        if passed + number >= rank:
            return _between(size, (rank - passed) / number)
        passed += number
    return None


def _between(size: int, share: float) -> float:
    """Seconds within a size, this far from its lower end."""
    if size >= len(SIZES):
        return SIZES[-1]  # Longer than that; how much is not known.
    upper = SIZES[max(0, size)]
    lower = SIZES[size - 1] if size > 0 else 0.0
    return lower + (upper - lower) * share
