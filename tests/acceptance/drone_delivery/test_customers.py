"""What a customer meets: requests are accepted once, and answered about for as long as anybody asks."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime
from typing import Any

import pytest

from tests.support.drone_platform import DronePlatform, Order, eventually, new_request
from tests.support.serving import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def test_a_request_is_accepted_under_an_id_of_ours_with_the_address_to_ask_at(platform: DronePlatform):
    """DD-01."""
    request = new_request()

    accepted = await platform.post({**request, "deliveryId": "mine"})

    delivery_id = accepted.json["deliveryId"]
    assert accepted.status == 202
    assert accepted.headers["Content-Type"] == "application/json;charset=utf-8"
    assert str(uuid.UUID(delivery_id)) == delivery_id
    assert accepted.json == {**request, "deliveryId": delivery_id}
    assert accepted.headers["Location"] == f"{platform.url}/api/deliveries/{delivery_id}"


async def test_each_request_without_a_key_is_a_delivery_of_its_own(platform: DronePlatform):
    """DD-01."""
    request = new_request()

    ids = {(await platform.post(request)).json["deliveryId"] for _ in range(3)}

    assert len(ids) == 3


async def test_a_delivery_is_promised_until_it_is_there(platform: DronePlatform):
    """DD-01."""
    async with platform.disturbed("drone", hang=True):
        order = await platform.place(new_request())

        promised = await platform.ask("GET", order.location)

    assert (promised.status, promised.json["id"]) == (202, order.id)
    assert promised.headers["Content-Type"] == "application/json;charset=utf-8"
    assert promised.headers["Retry-After"] == "1"
    there = await until_answered(platform, order, 200)
    assert there.headers["Content-Type"] == "application/json;charset=utf-8"
    assert (there.json["id"], there.json["owner"]["accountId"]) == (order.id, order.request["ownerId"])


async def test_the_status_of_a_delivery_says_how_far_it_came_and_when_it_will_arrive(
    platform: DronePlatform,
):
    """DD-01."""
    order = await platform.place(new_request())
    delivery = (await until_answered(platform, order, 200)).json

    status = (await platform.ask("GET", f"{order.location}/status")).json

    assert status["stage"] == "Created"
    assert status["lastKnownLocation"] == delivery["pickup"]
    assert datetime.fromisoformat(status["pickupETA"]) < datetime.fromisoformat(status["deliveryETA"])


@pytest.mark.parametrize("delivery_id", [UNKNOWN, "nonsense", "no%20id", "%2e%2e", "a" * 101])
@pytest.mark.parametrize("part", ["", "/owner", "/status"])
async def test_a_delivery_that_nobody_asked_for_is_not_found(
    platform: DronePlatform, delivery_id: str, part: str
):
    """DD-01."""
    answer = await platform.get(f"/api/deliveries/{delivery_id}{part}")

    assert (answer.status, answer.problem) == (404, "about:blank")
    assert answer.detail == "there is no such delivery"


async def test_whoever_watches_is_told_that_all_of_it_is_up(platform: DronePlatform):
    """DD-04, DD-23."""
    addresses = [
        *(f"{platform.url}{path}" for path in ("/api/probe", "/health", "/healthz", "/readyz")),
        *(f"{platform.services.url(name)}/healthz" for name in platform.services.ports),
    ]

    answers = [await platform.ask("GET", address) for address in addresses]

    assert [answer.status for answer in answers] == [200] * len(addresses)


async def test_who_asks_while_the_delivery_service_is_away_is_told_to_come_back(platform: DronePlatform):
    order = await platform.place(new_request())
    await platform.until(order, "processed")

    async with platform.disturbed("delivery", outage=True):
        answer = await platform.ask("GET", order.location)

    assert (answer.status, answer.problem) == (503, "about:blank")
    assert answer.headers["Retry-After"] == "1"
    assert (await platform.ask("GET", order.location)).status == 200


async def test_the_field_that_older_clients_spell_differently_is_the_same_field(platform: DronePlatform):
    """DD-01."""
    request = new_request()
    older = {("dropoffLocation" if name == "dropOffLocation" else name): request[name] for name in request}

    accepted = await platform.post(older)

    assert accepted.status == 202
    assert accepted.json == {**request, "deliveryId": accepted.json["deliveryId"]}


@pytest.mark.parametrize("written", [str.lower, str.upper, str.title])
async def test_words_may_be_written_in_any_letter_case(platform: DronePlatform, written: Any):
    """DD-01."""
    request = new_request(confirmationRequired="FingerPrint")
    request["packageInfo"]["size"] = "medium"

    accepted = await platform.post(
        {
            **request,
            "confirmationRequired": written("FingerPrint"),
            "packageInfo": {**request["packageInfo"], "size": written("medium")},
        }
    )

    assert accepted.status == 202
    assert accepted.json == {**request, "deliveryId": accepted.json["deliveryId"]}


async def test_a_request_that_comes_again_under_its_key_is_the_same_delivery(platform: DronePlatform):
    """DX-02."""
    request, key = new_request(), new_key()

    first = await platform.post(request, Idempotency_Key=key)
    await platform.until(order_of(first), "processed")
    again = await platform.post(request, Idempotency_Key=key)

    assert [first.status, again.status] == [202, 202]
    assert again.body == first.body
    assert again.headers["Location"] == first.headers["Location"]
    assert await tasks_of(platform, request) == [first.json["deliveryId"]]


async def test_the_same_request_under_the_same_key_twenty_times_at_once_is_one_delivery(
    platform: DronePlatform,
):
    """DX-02."""
    request, key = new_request(), new_key()

    answers = await asyncio.gather(*(platform.post(request, Idempotency_Key=key) for _ in range(20)))

    assert {answer.status for answer in answers} == {202}
    assert len({(answer.body, answer.headers["Location"]) for answer in answers}) == 1
    order = order_of(answers[0])
    await platform.until(order, "processed")
    assert await tasks_of(platform, request) == [order.id]
    [delivery] = [one for one in platform.books().deliveries if one.id == order.id]
    assert delivery.times_created == 1


async def test_other_content_under_a_key_that_was_used_is_refused(platform: DronePlatform):
    """DX-02."""
    request, key = new_request(), new_key()
    first = await platform.post(request, Idempotency_Key=key)

    refused = await platform.post({**request, "deadline": "another"}, Idempotency_Key=key)

    assert (refused.status, refused.problem) == (422, "about:blank")
    assert "Idempotency-Key" in refused.detail
    await platform.until(order_of(first), "processed")
    assert await tasks_of(platform, request) == [first.json["deliveryId"]]


async def test_the_same_key_of_another_customer_is_another_delivery(platform: DronePlatform):
    """DX-02."""
    key = new_key()

    answers = [await platform.post(new_request(), Idempotency_Key=key) for _ in range(2)]

    assert [answer.status for answer in answers] == [202, 202]
    assert len({answer.json["deliveryId"] for answer in answers}) == 2


async def test_of_different_requests_under_one_key_at_once_one_is_accepted(platform: DronePlatform):
    """DX-02."""
    request, key = new_request(), new_key()
    contents = [{**request, "deadline": f"{number} hours"} for number in range(10)]

    answers = await asyncio.gather(*(platform.post(content, Idempotency_Key=key) for content in contents))

    [accepted] = [answer for answer in answers if answer.status == 202]
    assert [answer.status for answer in answers if answer is not accepted] == [422] * 9
    await platform.until(order_of(accepted), "processed")
    assert await tasks_of(platform, request) == [accepted.json["deliveryId"]]
    delivery = await platform.ask("GET", accepted.headers["Location"])
    assert delivery.json["deadline"] == accepted.json["deadline"]


async def until_answered(platform: DronePlatform, order: Order, status: int) -> Answer:
    return await eventually(
        lambda: platform.ask("GET", order.location),
        lambda answer: answer.status == status,
        what=f"{status} at {order.location}",
    )


def new_key() -> str:
    return f"key/{uuid.uuid4()}"


def order_of(accepted: Answer) -> Order:
    return Order(accepted.json["deliveryId"], accepted.json, accepted.headers["Location"])


async def tasks_of(platform: DronePlatform, request: dict[str, Any]) -> list[str]:
    """The ids of all tasks of a customer."""
    listed = await platform.get(f"/v1/tasks?attribute=owner:{request['ownerId']}")
    return [task["id"] for task in listed.json["items"]]
