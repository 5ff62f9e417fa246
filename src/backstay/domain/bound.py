"""How full a queue may be, and how often that is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MESSAGES_USUAL: Final = 1_000_000
MESSAGES_MOST: Final = 100_000_000

#: When a queue was full, there may be room again after so long.
RETRY_AFTER: Final = timedelta(seconds=1)

# About as many as a busy store takes in, and counts, in a second.
_PER_SECOND: Final = 100_000
_SOONEST: Final = timedelta(seconds=1)


def look_again_after(number: int, limit: int) -> timedelta:
    """How long a count of the messages in a queue is good for.

    The less room there is, the sooner others may have filled it; and the more messages there are, the
    longer it takes to count them, and the less often that should be.
    """
    return max(_SOONEST, timedelta(seconds=max(limit - number, number) / _PER_SECOND))
