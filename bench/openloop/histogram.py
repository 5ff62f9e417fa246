"""Durations, counted in buckets that are less than a hundredth wide, in memory that does not grow."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Any, Final, Self

# Up to here each microsecond has a bucket of its own; then each doubling has half as many.
_EXACT: Final = 256
_HALF: Final = _EXACT // 2
_EXACT_BITS: Final = 8
# More than an hour: whoever waits longer has timed out.
_BITS_MAX: Final = 32
_MICROS_MAX: Final = 2**_BITS_MAX - 1
_BUCKETS: Final = _EXACT + (_BITS_MAX - _EXACT_BITS) * _HALF


class Histogram:
    """Percentiles are the upper ends of their buckets: off by 0.8 % at the most, and never to our favour."""

    __slots__ = ("_counts", "count", "micros_max")

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _BUCKETS))
        self.count = 0
        self.micros_max = 0

    def record(self, seconds: float) -> None:
        micros = int(seconds * 1_000_000)
        self.micros_max = max(self.micros_max, micros)
        self.count += 1
        self._counts[_bucket(micros)] += 1

    def percentile_ms(self, percent: float) -> float:
        """So many of a hundred were not longer than this; 0 when there are none."""
        wanted = max(1, math.ceil(self.count * percent / 100))
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return round(min(_upper_end(bucket), self.micros_max) / 1000, 3)
        return 0.0

    @property
    def max_ms(self) -> float:
        return round(self.micros_max / 1000, 3)

    # Between processes

    def as_json(self) -> dict[str, Any]:
        counts = {str(bucket): count for bucket, count in enumerate(self._counts) if count}
        return {"counts": counts, "micros_max": self.micros_max}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        histogram = cls()
        for bucket, count in found["counts"].items():
            histogram._counts[int(bucket)] = count
            histogram.count += count
        histogram.micros_max = found["micros_max"]
        return histogram


def _bucket(micros: int) -> int:
    if micros < _EXACT:
        return max(0, micros)
    micros = min(micros, _MICROS_MAX)
    shift = micros.bit_length() - _EXACT_BITS
    return _EXACT + (shift - 1) * _HALF + (micros >> shift) - _HALF


def _upper_end(bucket: int) -> int:
    """The longest duration, in microseconds, that this bucket counts."""
    if bucket < _EXACT:
        return bucket
    shift, place = divmod(bucket - _EXACT, _HALF)
    return ((place + _HALF + 1) << (shift + 1)) - 1
