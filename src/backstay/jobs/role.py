"""The role ``jobs`` of a process: its ticker, and what keeps the store small."""

from __future__ import annotations

import asyncio

from backstay.clock import Clock
from backstay.domain.lease import Owner
from backstay.jobs.pruner import Pruner
from backstay.jobs.ticker import Ticker
from backstay.settings import Settings
from backstay.store.base import Store


class JobsRole:
    """Any number of processes may have it."""

    def __init__(self, store: Store, owner: Owner, *, settings: Settings, clock: Clock) -> None:
        self.ticker = Ticker(store, owner, settings=settings, clock=clock)
        self.pruner = Pruner(store.jobs, settings=settings, clock=clock)

    async def run(self) -> None:
        """Until cancelled. Raises LeaseLost when this instance was declared dead."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.ticker.run(), name="backstay-ticker")
            group.create_task(self.pruner.run(), name="backstay-job-pruner")

    def close(self) -> None:
        """Start nothing any more."""
        self.ticker.close()

    def silent_seconds(self) -> float:
        """For how long the quieter of them has said nothing."""
        return max(self.ticker.pulse.silent_seconds(), self.pruner.pulse.silent_seconds())
