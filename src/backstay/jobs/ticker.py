"""Starts the occurrences of jobs whose instant has come.

    look ──▶ due ──▶ tick, each by itself ──▶ fire, all in one transaction ──▶ look again, or sleep
      ▲                                                                              │
      └──────────── the next instant, a change of some job, or a second later ◀──────┘

Any number of tickers may run. What two of them see at once one of them writes: ``fire`` compares, so that an
instant is claimed and its task entered in the same moment, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import datetime, timedelta
from typing import Final

from backstay.clock import Clock
from backstay.domain.jobs.occurrences import task_of
from backstay.domain.jobs.records import EntryStatus
from backstay.domain.jobs.ticking import Rules, Tick, tick
from backstay.domain.lease import Owner
from backstay.errors import Unavailable
from backstay.observe import (
    OCCURRENCE_SKIPPED,
    OCCURRENCE_STARTED,
    STORE_UNAVAILABLE,
    alert,
    emit,
    lateness,
)
from backstay.pulse import Pulse
from backstay.settings import Settings
from backstay.store.base import Changes, Store
from backstay.store.jobs import DueJob, Firing

# So many jobs are fired in one transaction.
BATCH: Final = 500

# However far off the next instant is: clocks are set, and what other processes write need not be told.
LOOK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.5
# What is due and cannot be written another ticker is just writing; else it is tried ever more seldom.
LOST_SECONDS: Final = 0.02

# An instant that waits for an earlier occurrence is looked at again after a tenth of the time it has waited.
AGAIN_LEAST: Final = timedelta(seconds=1)
AGAIN_MOST: Final = timedelta(seconds=30)
_AGAIN_PART: Final = 10
_LOST_MAX: Final = 6


class Ticker:
    """One of any number."""

    def __init__(self, store: Store, owner: Owner, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._history_max = settings.job_history_max
        self._rules = Rules(
            grace=settings.job_grace,
            catch_up_max=settings.job_catch_up_max,
            immediately=settings.job_immediately,
        )
        self._called = asyncio.Event()
        # How often in a row something was due and nothing could be written.
        self._lost = 0
        self._closing = False
        self.pulse = Pulse(clock)

    def close(self) -> None:
        """Start nothing any more."""
        self._closing = True

    async def run(self) -> None:
        """Until cancelled. Raises LeaseLost when this instance was declared dead."""
        stop_listening = self._store.listen(self._changed)
        try:
            while True:
                self.pulse.felt()
                self._called.clear()
                try:
                    if await self.run_once():
                        self._lost = 0
                    else:
                        await self._until_due()
                except Unavailable as error:
                    emit(STORE_UNAVAILABLE, error=error)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            stop_listening()

    async def run_once(self) -> int:
        """One look at what is due; for how many jobs something was written."""
        if self._closing:
            return 0
        now = self._clock.now()
        found = await self._store.jobs.due(now=now, limit=BATCH)
        if not found:
            return 0
        ticks = [tick(one.job, at_work=one.at_work, now=now, rules=self._rules) for one in found]
        firings = [_firing(one, ticked, now) for one, ticked in zip(found, ticks, strict=True)]
        written = await self._store.jobs.fire(
            firings, owner=self._owner, now=now, history_max=self._history_max
        )
        for one, ticked, done in zip(found, ticks, written, strict=True):
            if done and ticked is not None:
                _tell(one, ticked, now)
        return sum(written)

    async def _until_due(self) -> None:
        """Sleep until the next instant, or until somebody changes a job, or for a second."""
        due = await self._store.jobs.next_due()
        ahead = LOOK_SECONDS if due is None or self._closing else (due - self._clock.now()).total_seconds()
        self._lost = self._lost + 1 if ahead <= 0 else 0
        pause = LOST_SECONDS * 2 ** min(self._lost, _LOST_MAX) if self._lost else ahead
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pause, LOOK_SECONDS)):
                await self._called.wait()

    def _changed(self, changes: Changes) -> None:
        if changes.jobs:
            self._called.set()


def _firing(due: DueJob, ticked: Tick | None, now: datetime) -> Firing:
    if ticked is None:
        return Firing(seen=due.job, job=due.job, again_at=now + _pause(due, now))
    tasks = [task_of(one, due.job, due.collection) for one in ticked.starts]
    return Firing(seen=due.job, job=ticked.job, tasks=tasks, entries=ticked.gaps, alerts=ticked.alerts)


def _pause(due: DueJob, now: datetime) -> timedelta:
    waited = now - (due.job.next_at or now)
    return min(max(waited / _AGAIN_PART, AGAIN_LEAST), AGAIN_MOST)


def _tell(due: DueJob, ticked: Tick, now: datetime) -> None:
    for one in ticked.starts:
        emit(OCCURRENCE_STARTED, level=logging.DEBUG, task_id=one.task_id)
        lateness.add((now - one.at).total_seconds())
    job = due.job
    for gap in ticked.gaps:
        name = f"{job.collection.name}/{job.name}"
        if gap.status is EntryStatus.POSTPONED:
            emit(
                OCCURRENCE_SKIPPED,
                level=logging.WARNING,
                times=gap.instants,
                job=name,
                number=gap.instants,
                reason=gap.message,
            )
    for new in ticked.alerts:
        alert(new.kind, target=new.target, message=new.message)
