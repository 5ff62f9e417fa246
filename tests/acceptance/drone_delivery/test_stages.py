"""What happens to a delivery once it is there: rescheduled, picked up, cancelled; and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.drone_calls import HERE, NEAR, Answer, Caller, new_id, stages_of, thing
from tests.support.drone_services import Services, services_running

pytestmark = pytest.mark.asyncio(loop_scope="module")

ELSEWHERE = {"altitude": 20.0, "latitude": 52.7, "longitude": 13.6}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    async with services_running(tmp_path_factory.mktemp("services"), ["delivery"]) as running:
        yield running


@pytest.fixture
def caller(services: Services) -> Caller:
    return Caller(services)


async def new_delivery(caller: Caller) -> str:
    delivery_id = new_id()
    assert (await caller.put("delivery", delivery_id)).status == 201
    return delivery_id


async def pick_up(caller: Caller, delivery_id: str) -> Answer:
    return await caller.ask("delivery", "PUT", f"/api/deliveries/{delivery_id}/pickup")


async def reschedule(caller: Caller, delivery_id: str, key: str | None = None, /, **changes: Any) -> Answer:
    return await caller.ask("delivery", "PATCH", f"/api/deliveries/{delivery_id}", changes, key=key)


async def events_of(caller: Caller, delivery_id: str) -> list[Any]:
    items: list[Any] = (await caller.get("delivery", delivery_id, "/events")).json["items"]
    return items


# Rescheduled


@pytest.mark.parametrize(
    "changes",
    [
        {"pickup": ELSEWHERE, "dropoff": HERE, "pickupTime": "one", "deadline": "tomorrow"},
        {"pickup": ELSEWHERE},
        {"dropoff": ELSEWHERE},
        {"deadline": "never"},
    ],
    ids="+".join,
)
async def test_a_delivery_is_rescheduled_in_what_is_named_and_stays_as_it_is_in_the_rest(
    caller: Caller, changes: dict[str, Any]
):
    """DD-09."""
    delivery_id = await new_delivery(caller)

    rescheduled = await reschedule(caller, delivery_id, **changes)

    wanted = thing("delivery", delivery_id, **changes)
    assert (rescheduled.status, rescheduled.json) == (200, wanted)
    assert (await caller.get("delivery", delivery_id)).json == wanted
    assert (await caller.get("delivery", delivery_id, "/status")).json["stage"] == "Rescheduled"


async def test_every_reschedule_is_an_event_of_its_own_that_says_where_the_pickup_was_before(caller: Caller):
    """DD-09, DX-14: in the reference the second one overwrites the first."""
    delivery_id = await new_delivery(caller)

    for place in (ELSEWHERE, NEAR, HERE):
        await reschedule(caller, delivery_id, pickup=place)

    events = await events_of(caller, delivery_id)
    assert [event["stage"] for event in events] == ["Created", "Rescheduled", "Rescheduled", "Rescheduled"]
    assert [event["location"] for event in events] == [HERE, HERE, ELSEWHERE, NEAR]
    assert {event["deliveryId"] for event in events} == {delivery_id}
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


async def test_a_reschedule_that_comes_again_under_its_key_is_made_once(caller: Caller):
    delivery_id = await new_delivery(caller)
    await reschedule(caller, delivery_id, f"{delivery_id}/first", deadline="at one")
    await reschedule(caller, delivery_id, f"{delivery_id}/second", deadline="at two")

    again = await reschedule(caller, delivery_id, f"{delivery_id}/first", deadline="at one")

    assert (again.status, again.json["deadline"]) == (200, "at two")
    assert [event["stage"] for event in await events_of(caller, delivery_id)] == [
        "Created",
        "Rescheduled",
        "Rescheduled",
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing is to change"),
        ({"deadline": None}, "deadline"),
        ({"deadline": "d" * 201}, "deadline"),
        ({"pickup": HERE | {"latitude": 91}}, "pickup.latitude"),
        ({"dropoff": "there"}, "dropoff"),
        ({"droneId": "drone-7"}, "droneId"),
    ],
)
async def test_a_reschedule_that_does_not_fit_is_refused_and_changes_nothing(
    caller: Caller, changes: dict[str, Any], said: str
):
    """DD-09."""
    delivery_id = await new_delivery(caller)

    refused = await reschedule(caller, delivery_id, **changes)

    assert refused.status == 400
    assert said in refused.detail
    assert (await caller.get("delivery", delivery_id)).json == thing("delivery", delivery_id)
    assert len(await events_of(caller, delivery_id)) == 1


# Picked up


async def test_a_drone_reports_that_it_has_picked_the_package_up_as_often_as_it_likes(caller: Caller):
    delivery_id = await new_delivery(caller)

    reports = [await pick_up(caller, delivery_id) for _ in range(3)]

    assert [(report.status, report.body) for report in reports] == [(201, b""), (204, b""), (204, b"")]
    assert (await caller.get("delivery", delivery_id, "/status")).json["stage"] == "HeadedToDropoff"
    assert [event["stage"] for event in await events_of(caller, delivery_id)] == [
        "Created",
        "HeadedToDropoff",
    ]


async def test_once_picked_up_a_delivery_is_neither_cancelled_nor_rescheduled(caller: Caller):
    """DX-06, DD-09."""
    delivery_id = await new_delivery(caller)
    await pick_up(caller, delivery_id)
    before = await events_of(caller, delivery_id)

    too_late = [
        await caller.delete("delivery", delivery_id),
        await reschedule(caller, delivery_id, f"{delivery_id}/late", deadline="tomorrow"),
        await reschedule(caller, delivery_id, f"{delivery_id}/late", deadline="tomorrow"),
    ]

    assert [answer.status for answer in too_late] == [409, 409, 409]
    assert all("is picked up already" in answer.detail for answer in too_late)
    assert (await caller.get("delivery", delivery_id)).json == thing("delivery", delivery_id)
    assert await events_of(caller, delivery_id) == before


async def test_what_was_cancelled_is_neither_picked_up_nor_rescheduled(caller: Caller, services: Services):
    """DD-09, DD-10."""
    delivery_id = await new_delivery(caller)
    await caller.delete("delivery", delivery_id)

    too_late = [
        await pick_up(caller, delivery_id),
        await reschedule(caller, delivery_id, deadline="tomorrow"),
    ]

    assert [answer.status for answer in too_late] == [409, 409]
    assert all("is cancelled" in answer.detail for answer in too_late)
    assert stages_of(services, delivery_id) == ["Created", "Cancelled"]


async def test_of_a_pickup_and_a_cancellation_at_once_one_wins_and_the_other_is_told(caller: Caller):
    """DX-06."""
    for _ in range(10):
        delivery_id = await new_delivery(caller)

        picked_up, cancelled = await asyncio.gather(
            pick_up(caller, delivery_id), caller.delete("delivery", delivery_id)
        )

        stage = (await events_of(caller, delivery_id))[-1]["stage"]
        assert (picked_up.status, cancelled.status, stage) in {
            (201, 409, "HeadedToDropoff"),
            (409, 200, "Cancelled"),
        }


# What is told of it


async def test_the_events_of_a_delivery_are_all_there_in_order(caller: Caller):
    """DX-14."""
    delivery_id = await new_delivery(caller)
    await reschedule(caller, delivery_id, deadline="at one")
    await caller.put("delivery", delivery_id, deadline="at two")
    await reschedule(caller, delivery_id, deadline="at three")
    await caller.delete("delivery", delivery_id)

    stages = [event["stage"] for event in await events_of(caller, delivery_id)]

    assert stages == ["Created", "Rescheduled", "Rescheduled", "Cancelled"]


@pytest.mark.parametrize(("method", "part"), [("GET", "/events"), ("PUT", "/pickup"), ("PATCH", "")])
async def test_nothing_happens_to_a_delivery_that_is_not_there(caller: Caller, method: str, part: str):
    """DD-09."""
    body = {"deadline": "tomorrow"}

    missing = await caller.ask("delivery", method, f"/api/deliveries/{new_id()}{part}", body)

    assert missing.status == 404
    assert "there is no delivery" in missing.detail
