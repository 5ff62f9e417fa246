"""What the leader looks at beside its rounds: troubles that nobody raises, and how many alerts there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from backstay.clock import Clock
from backstay.domain.alert import NewAlert, of_lag, of_open_breaker
from backstay.domain.breaker import BreakerState
from backstay.domain.control import Subject
from backstay.domain.lease import Leader, is_stale
from backstay.domain.stream import lag, slowest
from backstay.domain.target import control_target
from backstay.errors import Closed, LeaseLost, Unavailable
from backstay.messaging.streams import Streams
from backstay.observe import ALERTS_FORGOTTEN, STORE_UNAVAILABLE, alert, emit
from backstay.settings import Settings
from backstay.store.base import Store

#: So many streams are looked at, the first by their names.
STREAMS_MAX: Final = 100
#: So many alerts go in one transaction, and so many transactions are made in one turn.
PAGE: Final = 500
PAGES_MAX: Final = 20


class Watch:
    """Calls once when something begins; whoever leads next calls again, which is counted with the first."""

    def __init__(
        self,
        store: Store,
        streams: Streams,
        lead: Callable[[], Leader | None],
        *,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._streams = streams
        self._lead = lead
        self._settings = settings
        self._clock = clock
        # What was in trouble at the last look, by target.
        self._known: set[str] = set()

    async def run(self) -> None:
        """A look with each heartbeat, until cancelled."""
        while True:
            try:
                await self.run_once()
            except LeaseLost:
                pass  # Another leads, and looks.
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(self._settings.heartbeat.total_seconds())

    async def run_once(self) -> list[NewAlert]:
        """One look; those alerts that are new."""
        leader = self._lead()
        if leader is None:
            self._known.clear()
            return []
        breakers, probing = await self._open_breakers()
        found = [*breakers, *await self._lags()]
        begun = [one for one in found if one.target not in self._known]
        new = await self._store.alerting.call(begun, now=self._clock.now(), leader=leader) if begun else []
        # A breaker that lets a probe through may be open again in a moment: that is the same trouble still.
        self._known = {one.target for one in found} | (self._known & probing)
        for one in new:
            alert(one.kind, target=one.target, message=one.message)
        await self._keep_few(leader)
        return new

    async def _open_breakers(self) -> tuple[list[NewAlert], set[str]]:
        """Those that opened by themselves: what a person forced open, a person knows. And who is probing."""
        now, lease = self._clock.now(), self._settings.lease
        controls = await self._store.records.controls()
        forced = {one.name for one in controls if one.subject is Subject.AGENT and one.breaker is not None}
        open_in: Counter[str] = Counter()
        probing: set[str] = set()
        for instance in await self._store.instances():
            if instance.live and not is_stale(instance.heartbeat_at, lease=lease, now=now):
                reports = instance.report.agents.items()
                open_in.update(name for name, one in reports if one.breaker is BreakerState.OPEN)
                probing.update(name for name, one in reports if one.breaker is BreakerState.HALF_OPEN)
        alerts = [of_open_breaker(name, instances=open_in[name]) for name in sorted(open_in.keys() - forced)]
        return alerts, {control_target(Subject.AGENT, name) for name in probing}

    async def _lags(self) -> list[NewAlert]:
        limit = self._settings.alert_lag_events
        if limit == 0:
            return []
        try:
            standings = await self._streams.standings(after="", limit=STREAMS_MAX)
        except Closed:
            return []  # The log is another process's.
        found: list[NewAlert] = []
        for standing in standings:
            partitions = {one.partition: one for one in standing.partitions}
            behind: Counter[str] = Counter()
            for one in slowest(await self._store.groups.standings(standing.stream.name)):
                if one.partition in partitions:
                    behind[one.group.name] += lag(partitions[one.partition], one.checkpoint)
            stream = standing.stream.name
            found += [
                of_lag(stream, group, lag=number, limit=limit)
                for group, number in sorted(behind.items())
                if number > limit
            ]
        return found

    async def _keep_few(self, leader: Leader) -> None:
        settings, now = self._settings, self._clock.now()
        await self._store.alerting.give_up(
            leader, since=now - settings.alert_tell_within, limit=PAGE * PAGES_MAX, now=now
        )
        for _ in range(PAGES_MAX):
            gone, were_open = await self._store.alerting.forget(
                leader, keep=settings.alerts_max, limit=PAGE, now=self._clock.now()
            )
            if were_open:
                emit(ALERTS_FORGOTTEN, times=were_open, number=were_open, limit=settings.alerts_max)
            if gone < PAGE:
                break
