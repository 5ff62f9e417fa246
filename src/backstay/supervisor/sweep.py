"""One bounded round over what nobody moves.

The sweep only ever frees: it makes a task claimable again and counts why. What the count means (try
again, rest, undo, call a person) is decided by the scheduler that claims the task next, which knows
the workflow's ``Recovery``. So any number of sweeps may run at once.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import msgspec

from backstay.clock import Clock
from backstay.domain.lease import Owner
from backstay.errors import Unavailable
from backstay.observe import RECOVERED, STORE_UNAVAILABLE, emit
from backstay.settings import Settings
from backstay.store.base import Store

SWEEP_LIMIT: Final = 500

# A living scheduler judges its own steps the moment their complete-by passes. Only when it has not
# done so for this long is it itself the problem.
EXPIRY_GRACE: Final = timedelta(seconds=5)


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round did."""

    freed: int
    woken: int
    overrun: int
    steps_expired: int

    @property
    def recovered(self) -> int:
        return self.freed + self.overrun + self.steps_expired


class Sweep:
    """Runs beside every scheduler; each round is a handful of indexed statements."""

    def __init__(self, store: Store, owner: Owner, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._owner = owner
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        """A round each period, until cancelled."""
        while True:
            try:
                await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(self._settings.supervisor_period.total_seconds())

    async def run_once(self) -> Round:
        now = self._clock.now()
        done = Round(
            freed=await self._store.bury(lease=self._settings.lease, now=now, spare=self._owner),
            woken=await self._store.wake(now=now, limit=SWEEP_LIMIT),
            overrun=await self._store.expire_runs(now=now, limit=SWEEP_LIMIT),
            steps_expired=await self._store.expire_steps(grace=EXPIRY_GRACE, now=now, limit=SWEEP_LIMIT),
        )
        if done.recovered:
            emit(RECOVERED, freed=done.freed, overrun=done.overrun, steps_expired=done.steps_expired)
        return done
