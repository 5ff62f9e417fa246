"""Leads if it can, and makes a round each period.

The lead is renewed by the rounds themselves: a leader that stalls in a round does not renew, and loses
the lead although its process lives. What it writes after that is refused by the epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime

from backstay.clock import Clock
from backstay.domain.lease import Leader, Owner
from backstay.errors import LeaseLost, Unavailable
from backstay.observe import LEAD_LOST, LEAD_TAKEN, STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.settings import Settings
from backstay.store.supervision import Round, Supervision
from backstay.supervisor.sweep import sweep


class Supervisor:
    """One of any number; at most one of them leads."""

    def __init__(
        self,
        store: Supervision,
        holder: str,
        *,
        settings: Settings,
        clock: Clock,
        spare: Owner | None = None,
    ) -> None:
        self._store = store
        self._holder = holder
        self._settings = settings
        self._clock = clock
        # The instance that this supervisor is part of, which it never declares dead.
        self._spare = spare
        self._leader: Leader | None = None
        self._asked_at: datetime | None = None
        self._one_at_a_time = asyncio.Lock()
        self.pulse = Pulse(clock)

    @property
    def leads(self) -> bool:
        return self._leader is not None

    @property
    def leader(self) -> Leader | None:
        """Under what it leads, if it does."""
        return self._leader

    async def run(self) -> None:
        """A turn each period, until cancelled; then the lead is given up at once."""
        try:
            while True:
                self.pulse.felt()
                try:
                    await self.run_once()
                except Unavailable as error:
                    emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(self._settings.supervisor_period.total_seconds())
        finally:
            await asyncio.shield(self.step_down())

    async def run_once(self, *, recorded: bool = False) -> Round | None:
        """One round if we lead or can; ``None`` when another leads.

        An idle round is kept in the store only now and then, or when it is to be ``recorded``.
        """
        async with self._one_at_a_time:
            renewed = await self._lead()
            if self._leader is None:
                return None
            try:
                return await self._round(self._leader, recorded=recorded or renewed)
            except LeaseLost:
                self._lost()
                return None

    async def step_down(self) -> None:
        """Let another lead at once."""
        leader, self._leader = self._leader, None
        if leader is not None:
            with contextlib.suppress(Unavailable):
                await self._store.step_down(leader, now=self._clock.now())

    async def _round(self, leader: Leader, *, recorded: bool) -> Round:
        done = await sweep(self._store, leader, settings=self._settings, clock=self._clock, spare=self._spare)
        if recorded or not done.idle:
            await self._store.record_round(leader, done)
        return done

    # Who leads

    async def _lead(self) -> bool:
        """Take or renew the lead when it is time to; whether that was done."""
        now = self._clock.now()
        if not await self._time_to_ask(now):
            return False
        # Counted from before the call: a slow answer must not stretch the lease.
        self._asked_at = now
        leader = await self._store.lead(self._holder, lease=self._settings.lease, now=now)
        if leader.holder != self._holder:
            if self._leader is not None:
                self._lost()
            return False
        if self._leader is None or self._leader.epoch != leader.epoch:
            emit(LEAD_TAKEN, holder=self._holder, epoch=leader.epoch)
        self._leader = leader
        return True

    async def _time_to_ask(self, now: datetime) -> bool:
        if self._asked_at is None or now - self._asked_at >= self._settings.heartbeat:
            return True
        # Between two attempts we only read: many supervisors may be waiting for one lead.
        return self._leader is None and (await self._store.leader()).vacant(now)

    def _lost(self) -> None:
        emit(LEAD_LOST, holder=self._holder)
        self._leader = None
