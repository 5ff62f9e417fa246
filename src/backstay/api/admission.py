"""How many tasks may wait: counted now and then in the store, and in between by what came in here.

The count is never asked for per request. It may be off by what other processes accepted, and what was
claimed, within a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from backstay.clock import Clock
from backstay.errors import Overloaded
from backstay.web.sampled import Sampled

SAMPLE_SECONDS: Final = 1.0


class Admission:
    """Lets tasks in until too many wait."""

    def __init__(self, count: Callable[[], Awaitable[int]], *, limit: int, clock: Clock) -> None:
        self._count = count
        self._limit = limit
        self._counted = Sampled(self._sample, seconds=SAMPLE_SECONDS, clock=clock)
        self._entered_since = 0

    async def waiting(self) -> int:
        """How many tasks wait, as far as known."""
        return await self._counted.get() + self._entered_since

    async def _sample(self) -> int:
        known = self._entered_since
        counted = await self._count()
        # What entered while the store counted may be in its count or not: it stays in ours.
        self._entered_since -= known
        return counted

    async def check(self) -> None:
        """Raise Overloaded when nobody else may wait."""
        waiting = await self.waiting()
        if waiting >= self._limit:
            raise Overloaded(
                waiting=waiting, limit=self._limit, retry_after=timedelta(seconds=SAMPLE_SECONDS)
            )

    @contextmanager
    def entering(self) -> Iterator[None]:
        """A task enters inside this block: it counts at once, and no longer when that fails."""
        self._entered_since += 1
        try:
            yield
        except BaseException:
            self._entered_since -= 1
            raise
