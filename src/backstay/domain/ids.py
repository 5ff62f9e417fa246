"""Ids for tasks that come without one, and how long the keys count that callers chose instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

#: How long an idempotency key stands for what it was first used for.
KEYS_KEPT: Final = timedelta(hours=24)


def new_id(now: datetime, random_bits: Callable[[int], int]) -> str:
    """A UUID of version 7: it begins with the time, so that new ones lie side by side in an index."""
    milliseconds = int(now.timestamp() * 1000)
    digits = f"{milliseconds << 80 | 7 << 76 | random_bits(12) << 64 | 0b10 << 62 | random_bits(62):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
