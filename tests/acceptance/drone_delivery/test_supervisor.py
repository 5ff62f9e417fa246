"""What fails for good is handed to the supervisor service, and people are told, while the engine undoes."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.support.drone_platform import (
    SUPERVISOR,
    DronePlatform,
    Order,
    drone_platform,
    eventually,
    new_request,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "/v1/queues/failed-deliveries/messages"
TOO_FAR = {"pickupLocation": "0,52.5,13.4", "dropOffLocation": "0,48.1,11.6"}


async def test_who_failed_with_what_is_on_the_queue_and_customer_and_operator_are_told_whatever_dies(
    tmp_path: Path,
):
    """DX-04: the failure and the message are one commit; whoever hears of it later tells people once."""
    async with drone_platform(tmp_path) as platform:
        worker = await platform.serve()
        await platform.suspend("mallory")
        suspended, far, good = await platform.place_all(
            [new_request(ownerId="mallory"), new_request(**TOO_FAR), new_request()]
        )
        async with platform.disturbed("package", hang=True):
            # The undo has to wait, and the message is there all the same.
            waiting = await eventually(
                lambda: on_the_queue(platform), lambda found: len(found) == 2, what="two messages"
            )
            worker.kill()
        await platform.serve()
        supervisor = await platform.serve("ingest", application=SUPERVISOR)

        for order in (suspended, far):
            await platform.until(order, "undone")
            assert platform.held_for(order) == set()
        await platform.until(good, "processed")
        assert sorted(waiting, key=lambda one: str(one["serviceName"])) == [
            {
                "deliveryRequest": {**suspended.request, "deliveryId": suspended.id},
                "serviceName": "account",
                "errorMessage": "account mallory is suspended",
            },
            {
                "deliveryRequest": {**far.request, "deliveryId": far.id},
                "serviceName": "third-party",
                "errorMessage": "the route needs an external carrier",
            },
        ]
        await eventually(lambda: on_the_queue(platform), lambda found: not found, what="an empty queue")
        for order in (suspended, far):
            notice = await eventually(
                partial(platform.ask, "GET", notice_of(platform, order)),
                lambda answer: answer.status == 200,
                what="a notice",
            )
            assert notice.json["ownerId"] == order.request["ownerId"]
            alerts = await asyncio.to_thread(supervisor.until_said, f"task_id={order.id}")
            assert len(alerts) == 1
            assert "alert=delivery_failed" in alerts[0]
        assert (await platform.ask("GET", notice_of(platform, good))).status == 404


def notice_of(platform: DronePlatform, order: Order) -> str:
    return f"{platform.services.url('account')}/api/notices/{order.id}"


async def on_the_queue(platform: DronePlatform) -> list[dict[str, object]]:
    """The bodies of what waits, whoever has it."""
    answer = await platform.get(QUEUE)
    assert answer.status == 200, answer
    return [message["body"] for message in answer.json["items"]]
