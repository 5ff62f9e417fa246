"""Customers change their mind: until the drone has the package a delivery is cancelled or rescheduled."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.drone_platform import (
    API,
    EVERYTHING,
    SHORT_LEASE,
    DronePlatform,
    Order,
    drone_platform,
    eventually,
    new_request,
)
from tests.support.drone_stream import OPERATIONS
from tests.support.serving import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "00000000-0000-4000-8000-000000000000"
EVERYWHERE = {"package", "third-party", "drone", "delivery"}
SLOW = {"median": 3_000, "p99": 3_000}
#: Far from everything that requests of tests ask for.
FAR = "0,89,0"


# Cancelled


async def test_a_delivery_that_is_cancelled_before_its_pickup_is_undone_everywhere(platform: DronePlatform):
    """DX-06, DD-03: the drone is released, the delivery cancelled, and its history says so."""
    order = await made(platform)

    cancelled = await cancel(platform, order)

    assert (cancelled.status, cancelled.body) == (204, b"")
    await platform.until(order, "undone")
    assert platform.held_for(order) == set()
    assert await stages(platform, order) == ["Created", "Cancelled"]
    gone = await platform.ask("GET", order.location)
    assert (gone.status, gone.detail) == (410, "the delivery was called off: it was cancelled")
    assert await platform.stream.events_of(order.id) == [
        {"operation": "deliver", "request": {**order.request, "deliveryId": order.id}},
        {"operation": "cancel", "deliveryId": order.id},
    ]


async def test_once_the_drone_has_the_package_nothing_can_be_changed(platform: DronePlatform):
    """DX-06, DD-02, DD-03."""
    order = await made(platform)
    await pick_up(platform, order)
    before = await everything(platform, order)

    refused = [await cancel(platform, order), await reschedule(platform, order, deadline="tomorrow")]

    assert [answer.status for answer in refused] == [409, 409]
    assert all("the drone has picked the package up" in answer.detail for answer in refused)
    await platform.until_taken_up(OPERATIONS)
    assert await everything(platform, order) == before
    assert len(await platform.stream.events_of(order.id)) == 1


async def test_a_cancellation_that_was_accepted_before_the_pickup_and_comes_after_it_changes_nothing(
    tmp_path: Path,
):
    """DX-06: it is the delivery service that decides, when it is asked."""
    async with drone_platform(tmp_path) as platform:
        worker = await platform.serve(EVERYTHING)
        order = await made(platform)
        worker.kill()
        await platform.serve(API)
        accepted = [await cancel(platform, order), await reschedule(platform, order, deadline="tomorrow")]
        await pick_up(platform, order)
        before = await everything(platform, order)

        await platform.serve(EVERYTHING)
        await platform.until_taken_up(OPERATIONS)

        assert [answer.status for answer in accepted] == [204, 200]
        assert await everything(platform, order) == before
        assert platform.held_for(order) == EVERYWHERE
        assert await platform.stream.quarantine(OPERATIONS) == []


async def test_a_cancellation_that_overtakes_its_delivery_waits_for_it(tmp_path: Path):
    """DX-06: the group that carries it out is ahead of the one that starts the task."""
    async with drone_platform(tmp_path) as platform:
        # While a task of the workflow waits, no other is started.
        await platform.serve(EVERYTHING, max_pending="1")
        await platform.type("workflows", "pause", "deliver")
        orders = await platform.place_all([new_request() for _ in range(10)])
        await eventually(lambda: platform.tasks("pending"), bool, what="the first task")
        behind = [order for order in orders if await platform.task(order) is None]
        answers = [await cancel(platform, order) for order in behind]
        assert await platform.stream.lag(OPERATIONS) >= len(behind) > 0

        await platform.type("workflows", "resume", "deliver")

        states = await platform.until_all_have_ended()
        await platform.until_taken_up(OPERATIONS)
        states = await platform.until_all_have_ended()
        assert {answer.status for answer in answers} == {204}
        assert {states[order.id] for order in behind} <= {"cancelled", "undone"}
        assert {states[order.id] for order in orders if order not in behind} == {"processed"}
        for order in behind:
            assert platform.held_for(order) == set()
        assert await platform.stream.quarantine(OPERATIONS) == []


async def test_a_delivery_is_cancelled_while_it_is_made(platform: DronePlatform):
    """DX-06."""
    async with platform.disturbed("drone", hang=True):
        order = await platform.place(new_request())
        await platform.until_step(order, "schedule_drone", holds=lambda step: step["state"] == "running")

        assert (await cancel(platform, order)).status == 204

    await platform.until(order, "undone")
    await platform.until_taken_up(OPERATIONS)
    assert platform.held_for(order) == set()
    assert (await platform.ask("GET", order.location)).status == 410


async def test_of_deliveries_that_are_cancelled_at_any_moment_each_is_made_or_leaves_nothing(
    platform: DronePlatform,
):
    """DX-06: whatever the cancellation meets, the workflow before, in or after any of its steps."""
    orders = await platform.place_all([new_request() for _ in range(40)])

    answers = await asyncio.gather(*(cancel(platform, order) for order in orders))

    await platform.until_taken_up(OPERATIONS)
    states = await platform.until_all_have_ended()
    assert {answer.status for answer in answers} == {204}
    assert {states[order.id] for order in orders} <= {"cancelled", "undone"}
    assert {service for order in orders for service in platform.held_for(order)} == set()


async def test_a_cancellation_that_comes_twice_is_done_once(tmp_path: Path):
    """DX-06."""
    async with drone_platform(tmp_path) as platform:
        worker = await platform.serve(EVERYTHING)
        order = await made(platform)
        worker.kill()
        await platform.serve(API)
        twice = [await cancel(platform, order) for _ in range(2)]

        await platform.serve(EVERYTHING)
        await platform.until(order, "undone")
        await platform.until_taken_up(OPERATIONS)
        late = await cancel(platform, order)

        assert [answer.status for answer in twice] == [204, 204]
        assert (late.status, late.detail) == (409, "the delivery was called off: it was cancelled")
        assert await stages(platform, order) == ["Created", "Cancelled"]


async def test_a_cancellation_outlasts_an_outage_and_the_death_of_who_carries_it_out(tmp_path: Path):
    """DX-06."""
    async with drone_platform(tmp_path) as platform:
        first = await platform.serve(EVERYTHING, **SHORT_LEASE)
        order = await made(platform)
        assert (await cancel(platform, order)).status == 204
        async with platform.disturbed("drone", outage=True):
            first.kill()
            await platform.serve(EVERYTHING, **SHORT_LEASE)
            await platform.until_step(order, "create_delivery", holds=lambda step: step["state"] == "undone")

        await platform.until(order, "undone")
        assert platform.held_for(order) == set()
        assert await stages(platform, order) == ["Created", "Cancelled"]


# Rescheduled


async def test_a_delivery_is_rescheduled_and_its_drone_is_told(platform: DronePlatform):
    """DD-02, DD-09."""
    order = await made(platform)
    there, drone = await platform.documents(order), platform.at("drone", order.id)
    elsewhere = shifted(order.request["dropOffLocation"])

    answers = [
        await reschedule(platform, order, deadline="tomorrow"),
        await reschedule(platform, order, dropoffLocation=elsewhere, pickupTime="noon"),
    ]

    assert [(answer.status, answer.json) for answer in answers] == [(200, order.id)] * 2
    await platform.until_taken_up(OPERATIONS)
    delivery = (await platform.ask("GET", order.location)).json
    dropoff = located(elsewhere)
    assert delivery == {
        **there["delivery"],
        "deadline": "tomorrow",
        "pickupTime": "noon",
        "dropoff": dropoff,
    }
    assert (await platform.ask("GET", drone)).json == {**there["drone"], "dropoff": dropoff}
    assert await stages(platform, order) == ["Created", "Rescheduled", "Rescheduled"]
    assert platform.held_for(order) == EVERYWHERE


async def test_a_new_schedule_waits_until_the_delivery_is_made(platform: DronePlatform):
    """DD-02."""
    async with platform.disturbed("delivery", latency_ms=SLOW):
        order = await platform.place(new_request())
        assert (await reschedule(platform, order, deadline="tomorrow")).status == 200

    await platform.until(order, "processed")
    await platform.until_taken_up(OPERATIONS)
    assert (await platform.ask("GET", order.location)).json["deadline"] == "tomorrow"
    assert await stages(platform, order) == ["Created", "Rescheduled"]


async def test_a_new_schedule_whose_answer_was_lost_is_made_once(platform: DronePlatform):
    """DD-09."""
    order = await made(platform)
    async with platform.disturbed("third-party", hang=True):
        assert (await reschedule(platform, order, deadline="tomorrow")).status == 200
        await platform.services.turn("delivery", error_rate=0.7)
    async with platform.disturbed("delivery", error_rate=0.7):
        await platform.until_taken_up(OPERATIONS)

    assert (await platform.ask("GET", order.location)).json["deadline"] == "tomorrow"
    assert await stages(platform, order) == ["Created", "Rescheduled"]


async def test_a_new_schedule_that_leads_too_far_for_a_drone_changes_nothing(platform: DronePlatform):
    order = await made(platform)
    before = await everything(platform, order)

    assert (await reschedule(platform, order, dropOffLocation=FAR)).status == 200

    await platform.until_taken_up(OPERATIONS)
    assert await everything(platform, order) == before
    assert await platform.stream.quarantine(OPERATIONS) == []


async def test_a_new_schedule_that_comes_again_under_its_key_is_the_same_one(platform: DronePlatform):
    """DX-02."""
    order, key = await made(platform), f"key/{uuid.uuid4()}"

    answers = [
        await reschedule(platform, order, key, deadline=deadline)
        for deadline in ("tomorrow", "tomorrow", "tonight")
    ]

    assert [answer.status for answer in answers] == [200, 200, 422]
    await platform.until_taken_up(OPERATIONS)
    assert await stages(platform, order) == ["Created", "Rescheduled"]
    assert len(await platform.stream.events_of(order.id)) == 2


async def test_a_delivery_that_is_rescheduled_and_then_cancelled_is_cancelled(platform: DronePlatform):
    """What is wanted of one delivery is done in the order in which it was wanted."""
    order = await platform.place(new_request())

    await reschedule(platform, order, deadline="tomorrow")
    await cancel(platform, order)

    await platform.until_taken_up(OPERATIONS)
    await platform.until(order, "undone")
    assert await stages(platform, order) == ["Created", "Rescheduled", "Cancelled"]
    assert platform.held_for(order) == set()


# What is refused


async def test_who_changes_what_nobody_asked_for_is_told_so(platform: DronePlatform):
    """DD-02, DD-03."""
    nobodys = Order(UNKNOWN, {}, "")

    answers = [await cancel(platform, nobodys), await reschedule(platform, nobodys, deadline="tomorrow")]

    assert [(answer.status, answer.detail) for answer in answers] == [(404, "there is no such delivery")] * 2
    assert await platform.stream.events_of(UNKNOWN) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing is to change"),
        ({"deadline": 7}, "deadline"),
        ({"deadline": "d" * 201}, "deadline"),
        ({"pickupLocation": "here"}, "pickupLocation: "),
        ({"dropOffLocation": "0,91,0"}, "dropOffLocation: "),
        ({"dropOffLocation": "0,1,0", "dropoffLocation": "0,1,0"}, "two spellings"),
        ({"ownerId": "somebody-else"}, "ownerId"),
    ],
)
async def test_a_new_schedule_that_does_not_fit_is_refused_by_name(
    platform: DronePlatform, changes: dict[str, Any], said: str
):
    """DD-02."""
    order = await platform.place(new_request())

    refused = await reschedule(platform, order, **changes)

    assert (refused.status, refused.problem) == (400, "about:blank")
    assert said in refused.detail
    assert len(await platform.stream.events_of(order.id)) == 1


async def test_what_was_called_off_cannot_be_changed_and_the_reason_is_told(platform: DronePlatform):
    """DD-02, DD-03."""
    request = new_request()
    await platform.suspend(request["ownerId"])
    order = await platform.place(request)
    await platform.until(order, "undone")

    refused = [await cancel(platform, order), await reschedule(platform, order, deadline="tomorrow")]

    said = f"the delivery was called off: account {request['ownerId']} is suspended"
    assert [(answer.status, answer.detail) for answer in refused] == [(409, said)] * 2


async def made(platform: DronePlatform) -> Order:
    order = await platform.place(new_request())
    await platform.until(order, "processed")
    return order


async def cancel(platform: DronePlatform, order: Order) -> Answer:
    return await platform.ask("DELETE", f"{platform.url}/api/deliveryrequests/{order.id}")


async def reschedule(
    platform: DronePlatform, order: Order, key: str | None = None, /, **changes: Any
) -> Answer:
    headers = {} if key is None else {"Idempotency_Key": key}
    return await platform.ask("PATCH", f"{platform.url}/api/deliveryrequests/{order.id}", changes, **headers)


async def pick_up(platform: DronePlatform, order: Order) -> None:
    """What the drone reports."""
    answer = await platform.ask("PUT", f"{platform.at('delivery', order.id)}/pickup")
    assert answer.status == 201, answer


async def stages(platform: DronePlatform, order: Order) -> list[str]:
    """What the customer is told to have happened, in order."""
    told = await platform.get(f"/api/deliveries/{order.id}/events")
    assert told.status == 200, told
    return [event["stage"] for event in told.json["items"]]


async def everything(platform: DronePlatform, order: Order) -> Any:
    """All that anybody knows of a delivery that is there."""
    task = await platform.task(order)
    return await platform.documents(order), await stages(platform, order), task["state"]


def shifted(written: str) -> str:
    """A location somewhat to the north."""
    altitude, latitude, longitude = map(float, written.split(","))
    return f"{altitude},{latitude + 0.0625},{longitude}"


def located(written: str) -> dict[str, float]:
    altitude, latitude, longitude = map(float, written.split(","))
    return {"altitude": altitude, "latitude": latitude, "longitude": longitude}
