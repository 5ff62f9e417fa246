"""All that happened to a delivery can be asked for by its id, in order, whatever died meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.drone_platform import (
    DronePlatform,
    Order,
    drone_platform,
    eventually,
    new_request,
)
from tests.support.drone_stream import HAPPENINGS, OPERATIONS, RequestStream
from tests.support.ports import HOST, free_ports

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = "history"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DronePlatform]:
    """One whose delivery service tells the server what happens in it."""
    [port] = free_ports(1)
    async with drone_platform(tmp_path_factory.mktemp("platform"), told=f"http://{HOST}:{port}") as running:
        await running.serve(port=str(port))
        yield running


async def test_the_history_has_every_stage_in_order_and_the_delivery_as_it_is_at_last(
    platform: DronePlatform,
):
    """DX-14, DD-02, DD-10: with its id, and each of several reschedules."""
    flown, called_off = await platform.place_all([new_request(), new_request()])
    async with platform.disturbed("history", outage=True):
        for order in (flown, called_off):
            await platform.until(order, "processed")
        await change(platform, "PATCH", flown, {"deadline": "tomorrow"})
        await change(platform, "PATCH", flown, {"deadline": "the day after"})
        await change(platform, "DELETE", called_off)
        await platform.until(called_off, "undone")
        await platform.services.kill("delivery")
        await platform.services.start("delivery")
        picked_up = await platform.ask("PUT", f"{platform.at('delivery', flown.id)}/pickup")
        assert picked_up.status == 201

    flight = await history(platform, flown, stages=4)
    assert flight["id"] == flown.id
    assert [one["stage"] for one in flight["deliveryTrackingEvents"]] == [
        "Created",
        "Rescheduled",
        "Rescheduled",
        "HeadedToDropoff",
    ]
    instants = [one["at"] for one in flight["deliveryTrackingEvents"]]
    assert instants == sorted(instants)
    assert flight["delivery"] == (await platform.ask("GET", flown.location)).json
    assert flight["delivery"]["deadline"] == "the day after"
    assert flight["deliveryTrackingEvents"] == (await platform.get(f"{path(flown)}/events")).json["items"]
    stages = (await history(platform, called_off, stages=2))["deliveryTrackingEvents"]
    assert [one["stage"] for one in stages] == ["Created", "Cancelled"]


async def test_what_is_told_again_is_there_once_and_what_nobody_understands_is_set_aside(
    platform: DronePlatform,
):
    """DX-05, DX-14."""
    stream = RequestStream(platform.stream.ask, HAPPENINGS)
    order = await platform.place(new_request())
    before = await history(platform, order, stages=1)
    [told] = await stream.events_of(order.id)

    await stream.append({"number": "seven"}, key=order.id)
    await stream.append(told, key=order.id)

    await eventually(lambda: stream.lag(HISTORY), lambda lag: lag == 0, what="all of it read")
    assert await history(platform, order, stages=1) == before
    [aside] = await stream.quarantine(HISTORY)
    assert "parse" in aside["reason"]


async def test_a_delivery_that_nobody_made_has_no_history(platform: DronePlatform):
    assert (await platform.get("/api/deliveryhistory/nobodys")).status == 404


async def change(platform: DronePlatform, method: str, order: Order, *body: Any) -> None:
    answer = await platform.ask(method, f"{platform.url}/api/deliveryrequests/{order.id}", *body)
    assert answer.status in {200, 204}, answer
    await platform.until_taken_up(OPERATIONS)


async def history(platform: DronePlatform, order: Order, *, stages: int) -> Any:
    """What is told of a delivery, once so much happened to it."""

    async def look() -> Any:
        answer = await platform.get(f"/api/deliveryhistory/{order.id}")
        return answer.json if answer.status == 200 else {"deliveryTrackingEvents": []}

    return await eventually(
        look, lambda found: len(found["deliveryTrackingEvents"]) == stages, what=f"{stages} events"
    )


def path(order: Order) -> str:
    return f"/api/deliveries/{order.id}"
