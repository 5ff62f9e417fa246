"""Numbers that repeat: the same offsets in every round of one length."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cycle:
    """``origin + n * length + offset`` for every whole n and each of ``offsets``.

    Offsets rise, and lie between 0 and ``length``. A search costs the same however far it goes.
    """

    origin: int
    length: int
    offsets: tuple[int, ...]

    def at_or_after(self, number: int) -> int | None:
        """The smallest number of the cycle that is not below ``number``; None if there are no offsets."""
        if not self.offsets:
            return None
        rounds, rest = divmod(number - self.origin, self.length)
        place = bisect_left(self.offsets, rest)
        if place == len(self.offsets):
            rounds, place = rounds + 1, 0
        return self.origin + rounds * self.length + self.offsets[place]

    def count(self, low: int, high: int) -> int:
        """How many numbers of the cycle are not below ``low``, and below ``high``."""
        return self._below(high) - self._below(low)

    def _below(self, number: int) -> int:
        """How many lie between the origin and ``number``; those before the origin are negative."""
        rounds, rest = divmod(number - self.origin, self.length)
        return rounds * len(self.offsets) + bisect_left(self.offsets, rest)
