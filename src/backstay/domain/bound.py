"""How full a queue may be, and how often that is looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MESSAGES_USUAL: Final = 1_000_000
MESSAGES_MOST: Final = 100_000_000

#: One that may hold no more than these is counted before it keeps a pipeline waiting: that takes a moment
#: only, and a small queue may have been emptied in the meantime.
COUNTED_ANEW_MAX: Final = 10_000

#: When a queue was full, there may be room again after so long.
RETRY_AFTER: Final = timedelta(seconds=1)

# About as many as a busy store takes in, and counts, in a second.
_PER_SECOND: Final = 100_000
_SOONEST: Final = timedelta(seconds=1)


def look_again_after(counted: int, limit: int, *, believed: int | None = None) -> timedelta:
    """How long a count of the messages in a queue is good for, if by now so many are ``believed`` there.

    The less room there is, the sooner others may have filled it; and the more messages there are, the
    longer it takes to count them, and the less often that should be. But nothing is refused for long
    because of what came since: others may have received it.
    """
    if believed is not None and counted < limit <= believed:
        return _SOONEST
    return max(_SOONEST, timedelta(seconds=max(limit - counted, counted) / _PER_SECOND))
