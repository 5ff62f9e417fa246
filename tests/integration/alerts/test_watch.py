"""What nobody raises by itself, the leader does: breakers that are open, groups that are far behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from backstay import App, Breaker
from backstay.client import Client
from backstay.domain.alert import Alert, AlertKind
from backstay.store.records import AlertFilter
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
