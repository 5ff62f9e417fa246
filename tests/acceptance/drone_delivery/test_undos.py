"""A delivery that cannot be made, or is to be taken back, is undone at every service, newest first."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.drone_platform import DronePlatform, Order, new_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERYWHERE = {"package", "third-party", "drone", "delivery"}
TOO_FAR = {"pickupLocation": "0,52.5,13.4", "dropOffLocation": "0,48.1,11.6"}


async def test_a_delivery_that_fails_at_the_last_step_is_undone_newest_first_and_leaves_nothing(
    platform: DronePlatform,
):
    """DX-10."""
    await platform.pause_agent("delivery")
    order = await platform.place(new_request())
    await platform.until_step(order, "schedule_drone", holds=is_in("completed"))
    assert platform.held_for(order) == EVERYWHERE - {"delivery"}
    never_was = await platform.ask("DELETE", platform.at("delivery", order.id))
    assert never_was.status == 404  # and from now on it is refused

    async with platform.disturbed("drone", hang=True):
        await platform.type("agents", "resume", "delivery")

        # The drone's undo is the first: while it is under way, the older steps stand as they were.
        await platform.until_step(order, "schedule_drone", holds=is_in("undoing"))
        assert await states(platform, order) == {
            "check_account": "completed",
            "check_transport": "completed",
            "create_package": "completed",
            "schedule_drone": "undoing",
            "create_delivery": "failed",
        }
        assert platform.held_for(order) == EVERYWHERE - {"delivery"}

    task = await platform.until(order, "undone")
    assert (task["error"]["step"], task["error"]["type"]) == ("create_delivery:1", "HttpFailed")
    assert await states(platform, order) == {
        "check_account": "completed",
        "check_transport": "undone",
        "create_package": "undone",
        "schedule_drone": "undone",
        "create_delivery": "failed",
    }
    assert platform.held_for(order) == set()
    gone = await platform.ask("GET", order.location)
    assert (gone.status, gone.problem) == (410, "about:blank")
    assert gone.detail == "the delivery was called off: it could not be completed"


async def test_a_customer_whose_account_is_suspended_gets_nothing_and_is_told_why(platform: DronePlatform):
    """DD-01."""
    request = new_request()
    await platform.suspend(request["ownerId"])

    order = await platform.place(request)
    await platform.until(order, "undone")

    assert platform.held_for(order) == set()
    gone = await platform.ask("GET", order.location)
    assert (gone.status, gone.problem) == (410, "about:blank")
    assert gone.detail == f"the delivery was called off: account {request['ownerId']} is suspended"
    asked = [(call.key, call.times) for call in platform.calls("account", request["ownerId"])]
    assert asked == [(f"{order.id}/check_account:1", 1)]
    assert platform.calls("drone", order.id) == []


async def test_a_route_that_is_too_far_for_a_drone_is_called_off_and_the_customer_told_why(
    platform: DronePlatform,
):
    """DD-01."""
    order = await platform.place(new_request(**TOO_FAR))

    await platform.until(order, "undone")

    assert platform.held_for(order) == set()
    gone = await platform.ask("GET", order.location)
    assert (gone.status, gone.problem) == (410, "about:blank")
    assert gone.detail == "the delivery was called off: the route needs an external carrier"
    asked = [(call.key, call.times) for call in platform.calls("third-party", order.id)]
    assert asked == [(f"{order.id}/check_transport:1", 1), (f"{order.id}/check_transport:1/undo", 1)]
    assert platform.calls("drone", order.id) == []


async def test_an_operator_takes_back_a_delivery_that_was_made(platform: DronePlatform):
    order = await platform.place(new_request())
    await platform.until(order, "processed")
    assert platform.held_for(order) == EVERYWHERE

    async with platform.disturbed("drone", hang=True):
        await platform.type("tasks", "undo", order.id, "--yes", "--reason", "the customer called")

        # Newest first: the delivery is cancelled before the drone is released, and that before all else.
        await platform.until_step(order, "schedule_drone", holds=is_in("undoing"))
        assert platform.held_for(order) == EVERYWHERE - {"delivery"}

    await platform.until(order, "undone")
    assert platform.held_for(order) == set()
    status = await platform.ask("GET", f"{order.location}/status")
    assert (status.status, status.json["stage"]) == (200, "Cancelled")
    assert (await platform.ask("GET", order.location)).status == 410
    for address in (platform.at("drone", order.id), platform.at("package", order.id)):
        assert (await platform.ask("GET", address)).status == 404


async def test_what_another_customer_calls_the_same_is_another_package(platform: DronePlatform):
    kept = await platform.place(new_request())
    await platform.until(kept, "processed")
    package = kept.request["packageInfo"]

    called_off = await platform.place(new_request(**TOO_FAR, packageInfo=package))
    await platform.until(called_off, "undone")

    assert platform.held_for(kept) == EVERYWHERE
    assert platform.held_for(called_off) == set()
    again = await platform.place(new_request(packageInfo=package))
    await platform.until(again, "processed")


async def test_undos_outlast_an_outage_of_the_service_at_which_they_undo(platform: DronePlatform):
    order = await platform.place(new_request())
    await platform.until(order, "processed")

    async with platform.disturbed("package", outage=True):
        await platform.type("tasks", "undo", order.id, "--yes")
        await platform.until_step(order, "create_package", holds=is_in("undoing"))
        assert platform.held_for(order) >= {"package"}
        assert not platform.held_for(order) & {"delivery", "drone"}

    await platform.until(order, "undone")
    assert platform.held_for(order) == set()


async def test_what_a_carrier_was_booked_for_waits_for_a_person_and_then_nothing_is_left(
    platform: DronePlatform,
):
    """CT-9: an undo that nobody but a person can do, beside one that is done by itself."""
    order = Order(str(uuid.uuid4()), new_request(**TOO_FAR), location="")
    refused = await platform.ask("DELETE", platform.at("delivery", order.id))
    assert refused.status == 404  # and from now on it cannot be made
    task = {"workflow": "deliver_by_carrier", "input": {**order.request, "deliveryId": order.id}}

    asked = await platform.ask("POST", f"{platform.url}/v1/tasks", task | {"id": order.id})

    assert asked.status == 202, asked
    await platform.until_step(order, "book_carrier", holds=is_in("undoing"))
    await platform.until_step(order, "create_package", holds=is_in("undone"))
    assert (await platform.task(order))["state"] == "undoing"
    [alert] = [one for one in await alerts(platform) if one["task_id"] == order.id]
    assert (alert["kind"], alert["step"]) == ("undo_manual", "book_carrier:1")

    await platform.type("tasks", "complete-step", order.id, "book_carrier:1", "--reason", "called")

    await platform.until(order, "undone")
    assert (await states(platform, order))["book_carrier"] == "undone"
    assert platform.held_for(order) == set()


async def alerts(platform: DronePlatform) -> list[Any]:
    items: list[Any] = (await platform.get("/v1/alerts?limit=1000")).json["items"]
    return items


def is_in(state: str) -> Callable[[Any], bool]:
    return lambda step: step["state"] == state


async def states(platform: DronePlatform, order: Order) -> dict[str, str]:
    return {name: step["state"] for name, step in (await platform.steps(order)).items()}
