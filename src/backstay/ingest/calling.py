"""Calls for a person from where nobody can wait for the store: logged at once, kept as soon as it can be."""

from __future__ import annotations

import asyncio
from typing import Final

from backstay.clock import Clock
from backstay.domain.alert import NewAlert
from backstay.errors import Unavailable
from backstay.ingest.waiting import within
from backstay.observe import STORE_UNAVAILABLE, alert, emit
from backstay.store.alerting import Alerting

#: So many wait to be kept; trouble beyond that is in the log.
CALLS_MAX: Final = 1_000
RETRY_SECONDS: Final = 1.0


class Calls:
    """One for all readers of a process."""

    def __init__(self, alerting: Alerting, clock: Clock) -> None:
        self._alerting = alerting
        self._clock = clock
        self._waiting: list[NewAlert] = []
        self._called = asyncio.Event()

    def call(self, new: NewAlert) -> None:
        alert(new.kind, target=new.target, message=new.message)
        if len(self._waiting) < CALLS_MAX:
            self._waiting.append(new)
            self._called.set()

    async def run(self) -> None:
        """Keep what is called, until cancelled."""
        while True:
            await self._called.wait()
            self._called.clear()
            try:
                await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await within(RETRY_SECONDS, self._called)
                self._called.set()

    async def run_once(self) -> None:
        calls = [*self._waiting]
        if calls:
            await self._alerting.call(calls, now=self._clock.now())
            del self._waiting[: len(calls)]
