"""Forgets what has outlived its time: tasks that ended long ago, alerts that somebody took up long ago.

It walks over what there is, the oldest first, at the pace of somebody who must not be noticed: it looks at
one page beside those who write, forgets a few at a time, and rests after each of both for several times as
long as that took. A store that is busy answers later, and is so left alone for longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from backstay.clock import Clock
from backstay.domain.lease import Leader
from backstay.errors import LeaseLost
from backstay.observe import PRUNED, emit
from backstay.pulse import Pulse
from backstay.rounds import keep_rounds
from backstay.settings import Settings
from backstay.store.retention import Kept, Retention

PERIOD_SECONDS: Final = 60.0

# So many are looked at together, and so many of them forgotten in one transaction.
LOOK: Final = 1_000
PAGE: Final = 200

# After each look and each transaction, so many times as long as it took, and so long at least: it is at work
# for a tenth of the time at most, which is what it may cost whoever has the store busy.
REST: Final = 9
REST_SECONDS_LEAST: Final = 0.01

#: Told now and then: what is being walked over, how far the walk has got, how many have gone.
Progress = Callable[[Kept, int, int], None]
#: Under whose lead; None: nobody here leads.
Leading = Callable[[], Leader | None]


class Pruner:
    """Works for the supervisor that leads; beside one that does not, it does nothing."""

    def __init__(self, retention: Retention, leading: Leading, *, settings: Settings, clock: Clock) -> None:
        self._retention = retention
        self._leading = leading
        self._settings = settings
        self._clock = clock
        self.pulse = Pulse(clock)

    async def run(self) -> None:
        await keep_rounds(self.run_once, seconds=PERIOD_SECONDS, pulse=self.pulse)

    async def run_once(self) -> dict[Kept, int]:
        """One walk over all of it; how many have gone. It ends early where another leads by now."""
        before = self._clock.now() - self._settings.task_retention
        walk = Walk(self._retention, before=before, clock=self._clock, leading=self._leading)
        gone = dict.fromkeys(Kept, 0)
        try:
            for kind in Kept:
                gone[kind] = await walk.over(kind, lambda _kind, _after, _gone: self.pulse.felt())
        except LeaseLost:
            pass  # Whoever leads now begins a walk of its own.
        if any(gone.values()):
            emit(PRUNED, **gone)
        return gone


class Walk:
    """Over all of one kind after the other, and what ended ``before`` goes, at a gentle pace."""

    def __init__(
        self, retention: Retention, *, before: datetime, clock: Clock, leading: Leading | None = None
    ) -> None:
        self._retention = retention
        self._before = before
        self._clock = clock
        # Without it, it is a person who has it done.
        self._leading = leading

    async def over(self, kind: Kept, progress: Progress, *, dry_run: bool = False) -> int:
        """How many have gone; with ``dry_run``, how many could. Raises LeaseLost when another leads."""
        after: int | None = 0
        gone = 0
        while after is not None:
            leader = self._leader()
            began = time.monotonic()
            seen = await self._retention.outlived(kind, before=self._before, after=after, limit=LOOK)
            if not dry_run:  # There a person waits.
                await _rest(began)
            for start in range(0, len(seen.keys), PAGE):
                page = seen.keys[start : start + PAGE]
                gone += len(page) if dry_run else await self._forget(kind, page, leader)
                progress(kind, page[-1], gone)
            after = seen.through
            if after is not None:
                progress(kind, after, gone)
        return gone

    def _leader(self) -> Leader | None:
        if self._leading is None:
            return None
        leader = self._leading()
        if leader is None:
            raise LeaseLost("the lead of the supervisors", "nobody here")
        return leader

    async def _forget(self, kind: Kept, page: list[int], leader: Leader | None) -> int:
        began = time.monotonic()
        gone = await self._retention.prune(
            kind, page, before=self._before, leader=leader, now=self._clock.now()
        )
        await _rest(began)
        return gone


async def _rest(began: float) -> None:
    """After what began then, and has just come to its end."""
    await asyncio.sleep(max(REST_SECONDS_LEAST, REST * (time.monotonic() - began)))


async def prune_by_hand(walk: Walk, progress: Progress, *, dry_run: bool) -> dict[Kept, int]:
    """Have all of it forgotten, or only counted; how many of each.

    What a task started goes after it: it is walked again until nothing more is found.
    """
    gone = dict.fromkeys(Kept, 0)
    for kind in Kept:
        while found := await walk.over(kind, progress, dry_run=dry_run):
            gone[kind] += found
            if dry_run:
                break
    return gone
