"""Every service is told of a delivery what its request says, and nothing of any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.drone_platform import DronePlatform, Order, distinct_request, drone_platform

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 1_000

#: Together they have both booleans, every word, and coordinates of either sign, whole and fractional.
REQUESTS: list[dict[str, Any]] = [
    {
        "ownerId": "ada",
        "pickupLocation": "12.5,-33.875,151.25",
        "dropOffLocation": "-3.25,-33.75,151.125",
        "pickupTime": "2030-01-01T12:00:00Z",
        "deadline": "2030-01-02T12:00:00Z",
        "expedited": True,
        "confirmationRequired": "FingerPrint",
        "packageInfo": {"packageId": "parcel-of-ada", "size": "small", "weight": 0.001, "tag": "fragile"},
    },
    {
        "ownerId": "grace.hopper@example.org",
        "pickupLocation": "0,0,0",
        "dropOffLocation": "-0.5,0.25,-0.25",
        "pickupTime": "noon",
        "deadline": 'before "six"',
        "expedited": False,
        "confirmationRequired": "Picture",
        "packageInfo": {"packageId": "parcel~2", "size": "medium", "weight": 7, "tag": ""},
    },
    {
        "ownerId": "3",
        "pickupLocation": "8848.86,27.9881,86.925",
        "dropOffLocation": "5364,28.0072,86.8594",
        "pickupTime": "",
        "deadline": "übermorgen, 早上",
        "expedited": False,
        "confirmationRequired": "Voice",
        "packageInfo": {"packageId": "p:3", "size": "large", "weight": 1_000, "tag": "🚁 up"},
    },
    {
        "ownerId": "d-e.f",
        "pickupLocation": "1e2,-89.99,-179.5",
        "dropOffLocation": "-1.5e1,-90,180",
        "pickupTime": "soon",
        "deadline": "later",
        "expedited": True,
        "confirmationRequired": "None",
        "packageInfo": {"packageId": "4", "size": "small", "weight": 999.5, "tag": "d"},
    },
]


@pytest.mark.parametrize("request_sent", REQUESTS, ids=[one["ownerId"] for one in REQUESTS])
async def test_a_request_arrives_field_for_field_at_every_service(
    platform: DronePlatform, request_sent: dict[str, Any]
):
    """DX-13."""
    order = await platform.place(request_sent)

    await platform.until(order, "processed")

    documents = await platform.documents(order)
    assert documents == documents_of(order, drone_id=documents["drone"]["droneId"])


async def test_of_a_thousand_deliveries_at_once_none_gets_anything_of_another(tmp_path: Path):
    """DX-03."""
    async with drone_platform(tmp_path) as platform:
        await platform.serve()
        await platform.type("workflows", "pause", "deliver")  # so that they begin together
        orders = await platform.place_all([distinct_request(number) for number in range(MANY)])

        await platform.type("workflows", "resume", "deliver")
        states = await platform.until_all_have_ended()

        assert states == {order.id: "processed" for order in orders}
        assert len(states) == MANY
        documents = await platform.all_documents(orders)
        drones = [held["drone"]["droneId"] for held in documents]
        assert len(set(drones)) == MANY
        for order, drone_id, held in zip(orders, drones, documents, strict=True):
            assert held == documents_of(order, drone_id=drone_id)
        assert {(one.delivery_id, one.times) for one in platform.books().assignments} == {
            (order.id, 1) for order in orders
        }


def documents_of(order: Order, *, drone_id: str) -> dict[str, Any]:
    """What must be known of a delivery wherever it is known, and by which drone it is carried."""
    request, package = order.request, order.request["packageInfo"]
    pickup, dropoff = located(request["pickupLocation"]), located(request["dropOffLocation"])
    owner = {"userId": request["ownerId"], "accountId": request["ownerId"]}
    return {
        "delivery": {
            "id": order.id,
            "owner": owner,
            "pickup": pickup,
            "dropoff": dropoff,
            "pickupTime": request["pickupTime"],
            "deadline": request["deadline"],
            "expedited": request["expedited"],
            "confirmationRequired": request["confirmationRequired"],
            "droneId": drone_id,
        },
        "owner": owner,
        "package": {
            "id": order.id,
            "size": package["size"],
            "weight": package["weight"],
            "tag": package["tag"],
            "reference": package["packageId"],
        },
        "drone": {
            "deliveryId": order.id,
            "droneId": drone_id,
            "pickup": pickup,
            "dropoff": dropoff,
            "expedited": request["expedited"],
            "packageDetail": {"id": order.id, "size": package["size"]},
        },
        "third-party": {"id": order.id, "required": False},
    }


def located(written: str) -> dict[str, float]:
    altitude, latitude, longitude = map(float, written.split(","))
    return {"altitude": altitude, "latitude": latitude, "longitude": longitude}
