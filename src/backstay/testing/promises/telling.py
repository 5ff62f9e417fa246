"""Alerts are raised once while they are open, told to sinks under the leader's epoch, and kept in bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay.domain.alert import Alert, AlertKind, Delivery, NewAlert, Undelivered
from backstay.domain.lease import Leader
from backstay.errors import LeaseLost
from backstay.store.base import Store
from backstay.store.records import AlertFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import SECOND, Promises
from backstay.testing.promises.records import about
from backstay.testing.records import replace

DAY = timedelta(days=1)
SINKS = ["webhook", "command"]


def trouble(target: str = "agent:drone", **fields: Any) -> NewAlert:
    return replace(NewAlert(kind=AlertKind.BREAKER_OPEN, message="it fails", target=target), **fields)


async def kept(store: Store) -> list[Alert]:
    return await store.records.alerts(AlertFilter())


class TellingPromises(Promises):
    # Raised once

    async def test_the_same_trouble_is_one_alert_that_counts(self, store: Store, clock: ManualClock) -> None:
        assert await store.alerting.call([trouble()], now=clock.now()) == [trouble()]
        first = clock.now()
        clock.pass_time(SECOND)

        assert await store.alerting.call([trouble(), trouble()], now=clock.now()) == []

        [alert] = await kept(store)
        assert (alert.count, alert.at, alert.last_at) == (3, first, clock.now())

    async def test_other_kinds_targets_and_steps_are_other_alerts(
        self, store: Store, clock: ManualClock
    ) -> None:
        several = [
            trouble(),
            trouble("agent:bank"),
            trouble(kind=AlertKind.AGENT_PAUSED),
            trouble(step="a:1"),
        ]

        new = await store.alerting.call(several, now=clock.now())

        assert len(new) == len(await kept(store)) == 4

    async def test_trouble_that_comes_back_after_somebody_took_it_up_is_a_new_alert(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.alerting.call([trouble()], now=clock.now())
        [first] = await kept(store)
        await store.records.acknowledge(first.id, about("alert"), now=clock.now())

        assert await store.alerting.call([trouble()], now=clock.now()) == [trouble()]

        [again, _] = await kept(store)
        assert (again.id > first.id, again.count, again.key != first.key) == (True, 1, True)

    async def test_who_no_longer_leads_calls_for_nobody(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        former = replace(leader, epoch=leader.epoch - 1)

        with pytest.raises(LeaseLost):
            await store.alerting.call([trouble()], now=clock.now(), leader=former)

        assert await kept(store) == []

    async def test_open_alerts_are_counted_by_kind(self, store: Store, clock: ManualClock) -> None:
        calls = [trouble(), trouble("agent:bank"), trouble(kind=AlertKind.AGENT_PAUSED)]
        await store.alerting.call(calls, now=clock.now())
        [newest, *_] = await kept(store)
        await store.records.acknowledge(newest.id, about("alert"), now=clock.now())

        assert sum((await store.alerting.open_alerts(counted=10)).values()) == 2
        assert sum((await store.alerting.open_alerts(counted=1)).values()) == 1

    # Told

    async def test_each_sink_is_told_for_itself_and_then_no_more(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await store.alerting.call([trouble()], now=clock.now())
        for sink in SINKS:
            [due] = await self._due(store, clock, sink)
            assert due.attempt == 0

            told = Delivery(alert_id=due.alert.id, sink=sink, attempt=1)
            await store.alerting.delivered(leader, [told], sinks=SINKS, now=clock.now())

            assert await self._due(store, clock, sink) == []
        # A sink that is there from now on is told of what comes, not of what everybody was told.
        assert await self._due(store, clock, "another") == []

    async def test_a_sink_that_was_not_told_is_due_again_in_its_time(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await store.alerting.call([trouble()], now=clock.now())
        [due] = await self._due(store, clock, "webhook")
        failed = Delivery(
            alert_id=due.alert.id, sink="webhook", attempt=1, next_at=clock.now() + SECOND, error="down"
        )

        await store.alerting.delivered(leader, [failed], sinks=["webhook"], now=clock.now())

        assert await self._due(store, clock, "webhook") == []
        clock.pass_time(SECOND)
        [again] = await self._due(store, clock, "webhook")
        assert (again.attempt, again.alert.key) == (1, due.alert.key)

    async def test_who_no_longer_leads_writes_nothing_of_what_it_told(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await store.alerting.call([trouble()], now=clock.now())
        [due] = await self._due(store, clock, "webhook")
        told = Delivery(alert_id=due.alert.id, sink="webhook", attempt=1)

        with pytest.raises(LeaseLost):
            await store.alerting.delivered(
                replace(leader, epoch=leader.epoch - 1), [told], sinks=["webhook"], now=clock.now()
            )

        assert await self._due(store, clock, "webhook") == [due]

    async def test_nobody_is_told_of_what_is_long_past(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        await store.alerting.call([trouble()], now=clock.now())
        clock.pass_time(DAY + SECOND)
        leader = await store.supervision.lead(str(leader.holder), lease=SECOND, now=clock.now())

        assert await self._due(store, clock, "webhook") == []
        since = clock.now() - DAY
        given_up = [
            await store.alerting.give_up(leader, since=since, limit=9, now=clock.now()) for _ in range(2)
        ]
        assert given_up == [1, 0]

    # Bounded

    async def test_no_more_alerts_are_kept_than_may_be_and_those_taken_up_go_first(
        self, store: Store, clock: ManualClock, leader: Leader
    ) -> None:
        for number in range(5):
            await store.alerting.call([trouble(f"agent:{number}")], now=clock.now())
        taken = (await kept(store))[1]
        await store.records.acknowledge(taken.id, about("alert"), now=clock.now())

        assert await store.alerting.forget(leader, keep=3, limit=9, now=clock.now()) == (2, 1)

        assert [one.target for one in await kept(store)] == ["agent:4", "agent:2", "agent:1"]
        assert await store.alerting.forget(leader, keep=3, limit=9, now=clock.now()) == (0, 0)

    async def _due(self, store: Store, clock: ManualClock, sink: str) -> list[Undelivered]:
        since = clock.now() - DAY
        return await store.alerting.undelivered(sink, since=since, now=clock.now(), limit=10)
