"""How many streams may be open at once, and how long each."""

from __future__ import annotations

from typing import Final

from backstay.errors import Closed, Unavailable
from backstay.web.access import Caller, Keyring, is_still_let_in
from backstay.web.ports import Health
from backstay.web.problems import TOO_MANY_WATCHERS, Refused

RETRY_AFTER_SECONDS: Final = 5

#: A stream on which nothing comes is given up by what lies in between.
BEAT_EVERY_SECONDS: Final = 15.0
BEAT: Final = b": still here\n\n"


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


async def may_watch_on(caller: Caller, keyring: Keyring, health: Health) -> bool:
    """Not when the process is about to stop, nor when the caller would no longer be let in."""
    if health.draining:
        return False
    try:
        return is_still_let_in(caller, await keyring.get())
    except Closed:
        return False
    except Unavailable:
        return True  # As long as nobody knows better.
