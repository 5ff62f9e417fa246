"""What nobody raises by itself, the leader does: breakers that are open, groups that are far behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from backstay import App, Breaker
from backstay.client import Client
from backstay.clock import SystemClock
from backstay.domain.alert import Alert, AlertKind, NewAlert
from backstay.domain.audit import Act
from backstay.domain.breaker import BreakerState
from backstay.settings import Settings
from backstay.store.base import AgentReport, NewInstance, Report
from backstay.store.records import AlertFilter
from backstay.supervisor.watch import Watch
from tests.support.databases import Database
from tests.support.running import ONCE, Down, eventually, running

SOON: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "200ms", "lease": "10s"}


async def the_alert(client: Client, kind: AlertKind) -> Alert:
    async def look() -> list[Alert]:
        return [one for one in (await client.alerts(AlertFilter())).items if one.kind is kind]

    [alert] = await eventually(look, bool, what=f"{kind} is raised")
    return alert


async def test_an_open_breaker_calls_for_a_person_once(database: Database):
    app = App("shop")
    bank = app.agent("bank", retry=ONCE, breaker=Breaker(failures=1, within="1m", open_for="1m"))

    @bank.step
    async def charge() -> None:
        raise Down

    @app.workflow
    async def order() -> None:
        await charge()

    async with running(app, database.store(), **SOON) as client:
        await client.submit(order)
        alert = await the_alert(client, AlertKind.BREAKER_OPEN)
        assert (alert.target, alert.count) == ("agent:bank", 1)
        await asyncio.sleep(3 * 0.2)  # Three more looks, which find the same.
        assert (await the_alert(client, AlertKind.BREAKER_OPEN)).count == 1


async def test_a_breaker_that_only_lets_a_probe_through_is_the_same_trouble_although_somebody_took_it_up(
    database: Database,
):
    store, clock = database.store(), SystemClock()
    await store.open()
    owner = await store.register(NewInstance(id="one", host="h", pid=1, roles=("agents",)), now=clock.now())
    leader = await store.supervision.lead("one", lease=timedelta(minutes=5), now=clock.now())
    streams: Any = None  # With no limit to lag nobody looks at them.
    settings = Settings(alert_lag_events=0)
    watch = Watch(store, streams, lambda: leader, settings=settings, clock=clock)

    async def look(state: BreakerState) -> list[NewAlert]:
        bank = AgentReport(in_flight=0, waiting=0, concurrency=1, breaker=state, open_until=None)
        await store.beat(owner, now=clock.now(), report=Report(agents={"bank": bank}))
        return await watch.run_once()

    assert len(await look(BreakerState.OPEN)) == 1
    [open_now] = await store.records.alerts(AlertFilter())
    act = Act(who="ann", action="acknowledge", target="alert")
    await store.records.acknowledge(open_now.id, act, now=clock.now())

    assert await look(BreakerState.HALF_OPEN) == await look(BreakerState.OPEN) == []
    await look(BreakerState.CLOSED)
    assert len(await look(BreakerState.OPEN)) == 1
    await store.close()


async def test_a_group_that_is_far_behind_calls_for_a_person(database: Database, tmp_path: Path):
    app = App("shop")
    go_on = asyncio.Event()
    orders = app.stream("orders", partitions=1)

    async def take(body: Any) -> None:
        await go_on.wait()

    orders.source(group="billing").via(take)
    streams = f"sqlite:///{tmp_path / 'streams.db'}"
    async with running(app, database.store(), **SOON, streams=streams, alert_lag_events=2) as client:
        for number in range(5):
            await client.streamroom.append("orders", number, key="a")
        alert = await the_alert(client, AlertKind.STREAM_LAG)
        go_on.set()
    assert alert.target == "group:orders/billing"
