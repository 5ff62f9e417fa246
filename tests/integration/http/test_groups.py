"""Groups of streams over HTTP: how far they have got, what they set aside, and how they are forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from backstay import observe
from backstay.domain.access import Role
from backstay.domain.lease import Owner
from backstay.domain.stream import Group, NewQuarantined
from backstay.store.base import Store
from backstay.store.groups import Advance
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.readers import Reader
from tests.support.databases import Database
from tests.support.http_streams import sent, sent_lines
from tests.support.serving import Served

BILLING = "/v1/streams/orders/groups/billing"


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    """What groups know is in the state store: it is asked on each."""
    store = database.store()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def orders(served: Served) -> Served:
    """A server with a stream of two partitions."""
    assert (await served.put("/v1/streams/orders", {"partitions": 2})).status == 201
    return served


@pytest.fixture
async def reader(orders: Served) -> Owner:
    return (await Holder.joined(orders.store, orders.clock, "reader", runs=())).owner


@pytest.fixture
async def read(orders: Served, reader: Owner) -> Served:
    """Eleven events, of which a group has passed three and set one aside."""
    await sent_lines(orders, *[{"body": n, "key": "d", "id": f"e{n}"} for n in range(10)])
    partition = (await sent(orders, "more", "?key=d"))["partition"]
    group = Group("orders", "billing")
    billing = Reader(orders.store, orders.clock, reader, group)
    holding = await billing.held(partition)
    found = await orders.client.streams.read("orders", partition, limit=3)
    bad = NewQuarantined(event=found.events[1], reason="map: ValueError: no")
    await orders.store.groups.advance(
        [Advance(holding=holding, to=3, quarantined=[bad])],
        owner=reader,
        quarantine_max=10,
        now=orders.clock.now(),
    )
    return orders


# Looking


async def test_a_stream_shows_how_far_its_groups_have_got(read: Served):
    read.clock.pass_time(timedelta(seconds=7))

    view = (await read.get("/v1/streams/orders")).json

    [group] = view["groups"]
    [partition] = [one for one in view["partitions"] if one["end"]]
    assert group.items() >= {"group": "billing", "checkpoint": 3, "lag": 8, "lag_seconds": 7.0}.items()
    assert partition["owner"] == group["owner"] == "reader"
    assert partition["partition"] == group["partition"]
    assert view["quarantined"] == {"billing": 1}
    [summary] = (await read.get("/v1/streams")).json["items"]
    assert summary.items() >= {"events": 11, "groups": [{"group": "billing", "lag": 8}]}.items()


# What was set aside


async def test_what_was_set_aside_is_listed_and_put_back(read: Served):
    [one] = (await read.get("/v1/streams/orders/quarantine?group=billing")).json["items"]

    assert (
        one.items()
        >= {
            "group": "billing",
            "offset": 1,
            "body": 1,
            "event_id": "e1",
            "reason": "map: ValueError: no",
            "resubmitted": False,
        }.items()
    )
    assert (await read.get("/v1/streams/orders/quarantine?group=other")).json["items"] == []
    done = await read.post(f"/v1/streams/orders/quarantine/{one['id']}/resubmit", {"reason": "mended"})
    assert (done.status, done.json) == (200, {"resubmitted": 1, "ids": [one["id"]]})
    [again] = (await read.get("/v1/streams/orders/quarantine")).json["items"]
    assert again["resubmitted"] is True
    [entry, *_] = (await read.get("/v1/audit")).json["items"]
    assert (entry["who"], entry["target"], entry["reason"]) == ("loopback", "stream:orders", "mended")


async def test_all_that_was_set_aside_is_put_back_at_once(read: Served):
    assert (await read.post("/v1/streams/orders/quarantine/resubmit")).json["resubmitted"] == 1


async def test_an_event_that_was_not_set_aside_is_not_put_back(read: Served):
    refused = await read.post("/v1/streams/orders/quarantine/999/resubmit")

    assert (refused.status, refused.problem) == (404, "unknown-event")


# Forgotten


async def test_a_group_that_nobody_reads_for_is_forgotten_and_that_is_in_the_audit_trail(
    read: Served, reader: Owner
):
    await read.store.retire(reader, now=read.clock.now())

    gone = await read.ask("DELETE", f"{BILLING}?reason=another+log")

    assert (gone.status, gone.json) == (200, {"stream": "orders", "group": "billing"})
    view = (await read.get("/v1/streams/orders")).json
    assert (view["groups"], view["quarantined"]) == ([], {})
    [entry] = (await read.get("/v1/audit?target=group:orders/billing")).json["items"]
    assert (entry["who"], entry["action"], entry["reason"]) == ("loopback", "forget", "another log")
    assert entry["before"] == {"partitions": 1, "quarantined": 1}


async def test_a_group_that_somebody_reads_for_is_not_forgotten(read: Served):
    refused = await read.ask("DELETE", BILLING)

    assert (refused.status, refused.problem) == (409, "conflict")
    assert "is read by reader" in refused.detail
    [group] = (await read.get("/v1/streams/orders")).json["groups"]
    assert group["checkpoint"] == 3


async def test_nobody_forgets_a_group_that_there_is_not(read: Served):
    unknown = [
        await read.ask("DELETE", "/v1/streams/orders/groups/another"),
        await read.ask("DELETE", "/v1/streams/nowhere/groups/billing"),
    ]
    written_wrongly = [
        await read.ask("DELETE", "/v1/streams/orders/groups/two%20words"),
        await read.ask("DELETE", f"{BILLING}?force=true"),
    ]

    assert {(one.status, one.problem) for one in unknown} == {(404, "unknown-group")}
    assert {one.status for one in written_wrongly} == {422}
    assert (await read.get("/v1/audit")).json["items"] == []


async def test_who_may_operate_may_forget_a_group_and_nobody_else(read: Served, reader: Owner):
    await read.store.retire(reader, now=read.clock.now())
    submits, operates = await read.token("producer", Role.SUBMIT), await read.token("ann", Role.OPERATE)

    assert (await read.ask("DELETE", BILLING, token=submits)).status == 403
    assert (await read.ask("DELETE", BILLING, token=operates)).status == 200


# Metrics


async def metrics(served: Served) -> dict[str, float]:
    served.clock.pass_time(timedelta(seconds=10))
    lines = (await served.get("/metrics")).body.decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


async def test_metrics_tell_how_far_groups_are_behind(read: Served):
    before = await metrics(read)
    await sent_lines(
        read, {"body": 1, "key": "d"}, {"body": 2, "id": "e1", "key": "d"}, {"body": 3, "key": "d"}
    )
    observe.processed["orders", "billing"] += 5
    after = await metrics(read)

    [group] = (await read.get("/v1/streams/orders")).json["groups"]
    place = f'{{stream="orders",group="billing",partition="{group["partition"]}"}}'
    assert (
        after[f"backstay_stream_lag_events{place}"] == before[f"backstay_stream_lag_events{place}"] + 2 == 10
    )
    assert after[f"backstay_stream_lag_seconds{place}"] == 20
    # By the clock of the store, which is its server's if it has one.
    age = (read.clock.now() - datetime.fromisoformat(group["checkpoint_at"])).total_seconds()
    assert after[f"backstay_stream_checkpoint_age_seconds{place}"] == pytest.approx(age)
    assert after['backstay_stream_quarantined{stream="orders",group="billing"}'] == 1
    name = 'backstay_stream_appended_total{stream="orders"}'
    assert after[name] == before[name] + 2  # The third is the id of another.
    assert after['backstay_stream_processed_total{stream="orders",group="billing"}'] >= 5


async def test_metrics_are_looked_up_now_and_then_however_often_they_are_asked_for(read: Served):
    await metrics(read)
    await sent(read, 1, "?key=d")
    asked = [(await read.get("/metrics")).body for _ in range(2)]
    later = await metrics(read)

    lags = [line for line in asked[1].decode().splitlines() if line.startswith("backstay_stream_lag_events")]
    assert [line.rpartition(" ")[2] for line in lags] == ["8"]
    assert 9 in later.values()


async def test_metrics_are_bounded(read: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.api.stream_metrics.SERIES_MAX", 0)

    page = (await read.get("/metrics")).body.decode()

    assert "backstay_stream_lag_events{" not in page
    assert "1 more are left out" in page
