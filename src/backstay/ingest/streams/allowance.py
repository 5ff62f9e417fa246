"""How many tasks of one workflow may be started before some of them have been taken up.

What waits is counted now and then; in between, what is started uses up what was left.
"""

from __future__ import annotations

import asyncio
from typing import Final

from backstay.clock import Clock
from backstay.store.base import Store

# Between two counts, while too many wait.
PAUSE_SECONDS: Final = 0.1


class Allowance:
    """Shared by all partitions of a pipeline. Other processes have one of their own."""

    def __init__(self, store: Store, workflow: str, *, max_pending: int, clock: Clock) -> None:
        self._store = store
        self._workflow = workflow
        self._max_pending = max_pending
        self._clock = clock
        self._left = 0
        # Granted, and not written or given back yet: no count can know of these.
        self._granted = 0
        self._counting = asyncio.Lock()
        self._counts = 0
        self._counted_at = float("-inf")

    async def take(self, wanted: int) -> int:
        """As many of ``wanted`` as may be started now; waits a moment and gives none while too many wait."""
        if self._left <= 0:
            await self._count()
        granted = max(0, min(wanted, self._left))
        self._left -= granted
        self._granted += granted
        return granted

    def give_back(self, number: int) -> None:
        """These were not needed."""
        self._left += number
        self._granted -= number

    def written(self, number: int) -> None:
        """These tasks are in the store: a count knows of them."""
        self._granted -= number

    async def _count(self) -> None:
        before = self._counts
        async with self._counting:
            if self._counts != before:
                return  # Somebody else has counted meanwhile.
            passed = self._clock.monotonic() - self._counted_at
            await asyncio.sleep(max(0.0, PAUSE_SECONDS - passed))
            waiting = await self._store.backlog(at_most=self._max_pending, workflow=self._workflow)
            self._counts += 1
            self._counted_at = self._clock.monotonic()
            self._left = self._max_pending - waiting - self._granted


class Share:
    """What one partition has of an allowance, for what is in its hands."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._granted = 0

    async def take(self, wanted: int) -> int:
        granted = await self._allowance.take(wanted)
        self._granted += granted
        return granted

    def keep(self, needed: int) -> None:
        """Give back what is more than ``needed``: read in vain, filtered, or set aside."""
        unused = max(0, self._granted - needed)
        self._granted -= unused
        self._allowance.give_back(unused)

    def written(self, tasks: int) -> None:
        # What was in quarantine is started without having been allowed: a person wanted it.
        granted = min(tasks, self._granted)
        self._granted -= granted
        self._allowance.written(granted)
