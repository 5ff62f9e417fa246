"""Something in the store that is read now and then, however many ask for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from backstay.clock import Clock

Value = TypeVar("Value")


class Sampled(Generic[Value]):
    """What ``read`` gave, ``seconds`` ago at most. One reads, the others wait for it."""

    def __init__(self, read: Callable[[], Awaitable[Value]], *, seconds: float, clock: Clock) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._one_reads = asyncio.Lock()
        self._last: Value | None = None
        self._fresh_until = -math.inf

    async def get(self) -> Value:
        if self._last is None or not self._is_fresh():
            async with self._one_reads:
                if self._last is None or not self._is_fresh():
                    until = self._clock.monotonic() + self._seconds
                    self._last = await self._read()
                    self._fresh_until = until
        return self._last

    def fresh(self) -> Value | None:
        """The same for those who cannot wait; None when it would have to be read."""
        return self._last if self._is_fresh() else None

    def forget(self) -> None:
        """Read again for the next one who asks."""
        self._fresh_until = -math.inf

    def _is_fresh(self) -> bool:
        return self._clock.monotonic() < self._fresh_until
