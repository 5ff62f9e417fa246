"""Ends jobs that nobody will, deletes those that have been over for long, and what became of occurrences."""

from __future__ import annotations

from typing import Final

from backstay.clock import Clock
from backstay.pulse import Pulse
from backstay.rounds import keep_rounds
from backstay.settings import Settings
from backstay.store.jobs import Jobs

PERIOD_SECONDS: Final = 60.0
# Rows of one transaction; and transactions of one round. What is left, the next round deletes.
PAGE: Final = 500
PAGES_MAX: Final = 20


class Pruner:
    """One of any number: what two of them find is deleted once."""

    def __init__(self, jobs: Jobs, *, settings: Settings, clock: Clock) -> None:
        self._jobs = jobs
        self._settings = settings
        self._clock = clock
        self.pulse = Pulse(clock)

    async def run(self) -> None:
        await keep_rounds(self.run_once, seconds=PERIOD_SECONDS, pulse=self.pulse)

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
