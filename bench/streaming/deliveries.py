"""The drone delivery, its workflow and what it is told, with back ends that take as long each time.

They are in the same process: what is measured is everything but them. The services themselves are in
``examples/drone_delivery``.
"""

from __future__ import annotations

import asyncio
from typing import Final

from backstay import App
from bench.streaming.apps import CONCURRENCY, SERVICE_SECONDS
from drone_delivery.entities import Delivery, DeliveryRequest, DroneDelivery, Package, Route
from drone_delivery.wishes import (
    PARTITIONS,
    SCHEDULER,
    delivery_id_of,
    is_new,
    parse,
    request_of,
    requests,
)
from drone_delivery.workflow import delivery_of, flight_of, package_of, route_of

deliveries: Final = App("deliveries")

account, package, carrier, drone, delivery = (
    deliveries.agent(name, concurrency=CONCURRENCY)
    for name in ("account", "package", "third-party", "drone", "delivery")
)


async def _called(*_told: object) -> None:
    """A back end, whatever it is told."""
    await asyncio.sleep(SERVICE_SECONDS)


@account.step
async def check_account(owner_id: str) -> None:
    await _called(owner_id)


@carrier.step
async def check_transport(delivery_id: str, route: Route) -> None:
    await _called(delivery_id, route)


@package.step
async def create_package(package: Package) -> None:
    await _called(package)


@drone.step
async def schedule_drone(flight: DroneDelivery) -> str:
    await _called(flight)
    return f"drone-of-{flight.delivery_id}"


@delivery.step
async def create_delivery(made: Delivery) -> None:
    await _called(made)


@deliveries.workflow
async def deliver(request: DeliveryRequest) -> Delivery:
    await asyncio.gather(
        check_account(request.owner_id),
        check_transport(request.delivery_id, route_of(request)),
        create_package(package_of(request)),
    )
    made = delivery_of(request, await schedule_drone(flight_of(request)))
    await create_delivery(made)
    return made


(
    deliveries.stream(requests.name, partitions=PARTITIONS)
    .source(group=SCHEDULER)
    .map(parse)
    .filter(is_new)
    .map(request_of)
    .start(deliver, id=delivery_id_of)
)
