"""How many streams may be open at once."""

from __future__ import annotations

from typing import Final

from backstay.api.problems import TOO_MANY_WATCHERS, Refused

RETRY_AFTER_SECONDS: Final = 5


class Watchers:
    """Seats for those who watch a task."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._taken = 0

    def take_seat(self) -> None:
        """Raises Refused when all are taken."""
        if self._taken >= self._seats:
            raise Refused(
                TOO_MANY_WATCHERS,
                f"{self._seats:,} streams are open, which is the limit (setting watchers_max);"
                f" try again in {RETRY_AFTER_SECONDS} s, or ask for the task now and then",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
        self._taken += 1

    def leave_seat(self) -> None:
        self._taken -= 1
