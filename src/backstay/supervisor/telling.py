"""Tells sinks of alerts, while its supervisor leads: at least once each, whatever becomes of this process.

Each sink has a loop of its own. One that is down, hangs or refuses holds up neither others nor rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.clock import Clock
from backstay.domain.alert import Alert, Delivery, Undelivered
from backstay.domain.lease import Leader
from backstay.domain.outbound import Outbound, read_outbound
from backstay.domain.sinks import Command, SinkTarget, Webhook, pause_after, read_sinks
from backstay.errors import LeaseLost, Unavailable
from backstay.observe import ALERT_TOLD, ALERT_UNTOLD, STORE_UNAVAILABLE, emit
from backstay.settings import Settings
from backstay.store.alerting import Alerting
from backstay.supervisor.command import CommandSink
from backstay.supervisor.sinks import AT_ONCE, NotTold, Sink

#: So many are looked for at once.
PAGE: Final = 100

Lead = Callable[[], Leader | None]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What became of telling one sink."""

    sink: str
    told: bool
    error: str | None = None


def sinks_of(settings: Settings, clock: Clock) -> list[Sink]:
    targets = read_sinks(
        webhooks=settings.alert_webhook,
        secret=settings.alert_webhook_secret,
        command=settings.alert_command,
    )
    outbound = read_outbound(settings.outbound_allow, name="outbound_allow")
    return [_sink_of(target, outbound, settings.alert_timeout, clock) for target in targets]


def _sink_of(target: SinkTarget, outbound: Outbound, timeout: timedelta, clock: Clock) -> Sink:
    match target:
        case Webhook():
            # aiohttp takes more than half as long to import as all the rest; only who has a webhook waits.
            from backstay.supervisor.webhook import WebhookSink  # noqa: PLC0415

            return WebhookSink(target, outbound=outbound, timeout=timeout, clock=clock)
        case Command():
            return CommandSink(target, timeout=timeout)


async def tell_all(sinks: Sequence[Sink], alert: Alert) -> list[Told]:
    """Tell every sink of one alert now, once; what became of it."""
    return list(await asyncio.gather(*(_tried(sink, alert) for sink in sinks)))


class Telling:
    """All sinks of a process. Whoever does not lead tells nothing."""

    def __init__(
        self, alerting: Alerting, sinks: Sequence[Sink], lead: Lead, *, settings: Settings, clock: Clock
    ) -> None:
        self._alerting = alerting
        self._sinks = sinks
        self._names = [sink.name for sink in sinks]
        self._lead = lead
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        """A loop for each sink, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for sink in self._sinks:
                    group.create_task(self._keep_telling(sink), name=f"backstay-alerts {sink.name}")
        finally:
            await asyncio.shield(self.close())

    async def run_once(self) -> int:
        """Tell each sink once of what is due; how many times one was told."""
        return sum([told or 0 for told in await asyncio.gather(*map(self._tell, self._sinks))])

    async def close(self) -> None:
        for sink in self._sinks:
            await sink.close()

    async def _keep_telling(self, sink: Sink) -> None:
        failures = 0
        while True:
            pause = self._settings.supervisor_period
            try:
                told = await self._tell(sink)
                failures = 0 if told is None or told else failures + 1
                # Each alert has its own pause; all of them together must not make a dead sink busy.
                pause = max(pause, pause_after(failures)) if failures else pause
            except LeaseLost:
                pass  # Another leads: it tells.
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(pause.total_seconds())

    async def _tell(self, sink: Sink) -> int | None:
        """How many alerts the sink knows now; ``None`` when there was nothing to tell."""
        leader = self._lead()
        if leader is None:
            return None
        now = self._clock.now()
        since = now - self._settings.alert_tell_within
        due = await self._alerting.undelivered(sink.name, since=since, now=now, limit=PAGE)
        told = 0
        for place in range(0, len(due), AT_ONCE):
            some = due[place : place + AT_ONCE]
            results = await asyncio.gather(*(_tried(sink, one.alert) for one in some))
            known = sum(one.told for one in results)
            told += known
            now = self._clock.now()
            deliveries = [_delivery(*pair, now=now) for pair in zip(some, results, strict=True)]
            await self._alerting.delivered(leader, deliveries, sinks=self._names, now=now)
            if not known:
                break  # The rest would find it no better.
        return told if due else None


async def _tried(sink: Sink, alert: Alert) -> Told:
    try:
        await sink.tell(alert)
    except NotTold as error:
        emit(ALERT_UNTOLD, sink=sink.name, id=alert.id, error=error)
        return Told(sink=sink.name, told=False, error=str(error))
    emit(ALERT_TOLD, sink=sink.name, id=alert.id)
    return Told(sink=sink.name, told=True)


def _delivery(due: Undelivered, told: Told, *, now: datetime) -> Delivery:
    attempt = due.attempt + 1
    next_at = None if told.told else now + pause_after(attempt)
    return Delivery(alert_id=due.alert.id, sink=told.sink, attempt=attempt, next_at=next_at, error=told.error)
