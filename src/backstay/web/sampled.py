"""Something in the store that is read now and then, however many ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from backstay.clock import Clock
from backstay.errors import BackstayError

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
        self._times_forgotten = 0
        self._reading_ahead: asyncio.Task[None] | None = None

    async def get(self) -> Value:
        if self._last is None or not self._is_fresh():
            async with self._one_reads:
                if self._last is None or not self._is_fresh():
                    await self._read_anew()
        assert self._last is not None
        return self._last

    def fresh(self) -> Value | None:
        """The same for those who cannot wait; None when it would have to be read.

        Who asks often has it read before that: beside them, when half of its time has passed.
        """
        left = self._fresh_until - self._clock.monotonic()
        if left <= 0:
            return None
        if left < self._seconds / 2 and self._reading_ahead is None:
            self._reading_ahead = asyncio.get_running_loop().create_task(self._read_ahead())
        return self._last

    async def _read_ahead(self) -> None:
        try:
            # Who has to wait for it will hear what is wrong.
            with contextlib.suppress(BackstayError):
                async with self._one_reads:
                    await self._read_anew()
        finally:
            self._reading_ahead = None

    async def _read_anew(self) -> None:
        until, times_forgotten = self._clock.monotonic() + self._seconds, self._times_forgotten
        self._last = await self._read()
        # What was read before it was to be forgotten is old.
        if times_forgotten == self._times_forgotten:
            self._fresh_until = until

    def forget(self) -> None:
        """Read again for the next one who asks."""
        self._times_forgotten += 1
        self._fresh_until = -math.inf

    def _is_fresh(self) -> bool:
        return self._clock.monotonic() < self._fresh_until
