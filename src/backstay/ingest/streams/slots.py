"""How many events of one pipeline are at work at once, over all its partitions."""

from __future__ import annotations

from collections.abc import Callable


class Slots:
    """So many may be at work; those who find none free are called in their turn."""

    def __init__(self, number: int) -> None:
        self._free = number
        # In the order in which they came; each stands in line once.
        self._line: dict[Callable[[], None], None] = {}

    def wanted_beside(self, called: Callable[[], None]) -> bool:
        """Whether anybody but this one stands in line."""
        return len(self._line) > (called in self._line)

    def take(self) -> bool:
        if not self._free:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        while self._free and self._line:
            called = next(iter(self._line))
            del self._line[called]
            called()

    def call_when_free(self, called: Callable[[], None]) -> None:
        self._line[called] = None

    def leave_line(self, called: Callable[[], None]) -> None:
        self._line.pop(called, None)
