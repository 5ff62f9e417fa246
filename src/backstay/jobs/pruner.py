"""Ends jobs that nobody will, deletes those that have been over for long, and what became of occurrences."""

from __future__ import annotations

import asyncio
from typing import Final

from backstay.clock import Clock
from backstay.errors import Unavailable
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.settings import Settings
from backstay.store.jobs import Jobs

PERIOD_SECONDS: Final = 60.0
# Rows of one transaction; and transactions of one round. What is left, the next round deletes.
PAGE: Final = 500
PAGES_MAX: Final = 20
_PULSE_SECONDS: Final = 1.0


class Pruner:
    """One of any number: what two of them find is deleted once."""

    def __init__(self, jobs: Jobs, *, settings: Settings, clock: Clock) -> None:
        self._jobs = jobs
        self._settings = settings
        self._clock = clock
        self.pulse = Pulse(clock)

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            for _ in range(int(PERIOD_SECONDS / _PULSE_SECONDS)):
                self.pulse.felt()
                await asyncio.sleep(_PULSE_SECONDS)

    async def run_once(self) -> int:
        """One round; how much was deleted."""
        now, settings = self._clock.now(), self._settings
        await self._jobs.close_stranded(now=now, limit=PAGE)
        deleted = 0
        for _ in range(PAGES_MAX):
            self.pulse.felt()
            found = await self._jobs.prune(
                finished_before=now - settings.job_retention,
                entries_before=now - settings.job_history_retention,
                limit=PAGE,
            )
            deleted += found
            if found < PAGE:
                break
        return deleted
