"""The workflow of a delivery: an agent for each service, its steps with their undos, and their order.

       check_account ─┐
     check_transport ─┼─▶ schedule_drone ─▶ create_delivery
      create_package ─┘

A delivery ends complete, or as if nobody had asked for it. Every service is told of it under the delivery's
own id, the same at every attempt and nobody else's: so nothing is done twice, and no undo takes back what
belongs to another.
"""

from __future__ import annotations

import asyncio
from typing import Final

from backstay import App, Breaker, HttpAgent, Permanent, Recovery, Retry, TaskFailure
from drone_delivery.addresses import url_of
from drone_delivery.entities import (
    Delivery,
    DeliveryRequest,
    DroneDelivery,
    FailedOperation,
    Location,
    Package,
    PackageDetail,
    Route,
    UserAccount,
)

app = App("drone-delivery")

# Undoing may meet the same bad weather as doing, and nobody waits for it: more patience, and longer.
UNDO_RETRY: Final = Retry(attempts=10, first="200ms", cap="2s")
UNDO_TIME: Final = "1m"


def agent_for(service: str) -> HttpAgent:
    return app.http_agent(
        service,
        url_of(service),
        complete_by="5s",
        # As often as fits into the complete-by: five attempts sit out an outage of twenty seconds.
        retry=Retry(attempts=8, first="200ms", cap="2s"),
        # One answer in fifty may go wrong without it; a service that is down is known within a second.
        breaker=Breaker(failures=20, within="2s", open_for="1s", open_for_max="2s"),
        connections=50,
    )


accounts = agent_for("account")
packages = agent_for("package")
carriers = agent_for("third-party")
drones = agent_for("drone")
deliveries = agent_for("delivery")


@accounts.step
async def check_account(owner_id: str) -> None:
    """A question: nothing is done, so there is nothing to undo."""
    answer = await accounts.get(("api", "account", owner_id))
    if not answer.json(bool):
        raise Permanent(f"account {owner_id} is suspended")


@carriers.step
async def check_transport(delivery_id: str, route: Route) -> None:
    answer = await carriers.put(("api", "thirdpartydeliveries", delivery_id), json=route)
    if answer.json(bool):
        # The service has taken note of the delivery all the same: unsure, so that it is undone there.
        raise Permanent("the route needs an external carrier", unsure=True)


@check_transport.undo(retry=UNDO_RETRY, complete_by=UNDO_TIME)
async def forget_transport(delivery_id: str, route: Route) -> None:
    await carriers.delete(("api", "thirdpartydeliveries", delivery_id), ok=(404,))


@packages.step
async def create_package(package: Package) -> None:
    await packages.put(("api", "packages", package.id), json=package)


@create_package.undo(retry=UNDO_RETRY, complete_by=UNDO_TIME)
async def cancel_package(package: Package) -> None:
    await packages.delete(("api", "packages", package.id), ok=(404,))


@drones.step
async def schedule_drone(flight: DroneDelivery) -> str:
    answer = await drones.put(("api", "dronedeliveries", flight.delivery_id), json=flight)
    return answer.text()


@schedule_drone.undo(retry=UNDO_RETRY, complete_by=UNDO_TIME)
async def release_drone(flight: DroneDelivery) -> None:
    await drones.delete(("api", "dronedeliveries", flight.delivery_id), ok=(404,))


@deliveries.step
async def create_delivery(delivery: Delivery) -> None:
    await deliveries.put(("api", "deliveries", delivery.id), json=delivery)


@create_delivery.undo(retry=UNDO_RETRY, complete_by=UNDO_TIME)
async def cancel_delivery(delivery: Delivery) -> None:
    await deliveries.delete(("api", "deliveries", delivery.id), ok=(404,))


@app.workflow(complete_by="60s", recovery=Recovery(attempts=5, then="undo", undo_attempts=10))
async def deliver(request: DeliveryRequest) -> Delivery:
    """Do what a customer asked for, or undo all of it."""
    await asyncio.gather(
        check_account(request.owner_id),
        check_transport(request.delivery_id, route_of(request)),
        create_package(package_of(request)),
    )
    drone_id = await schedule_drone(flight_of(request))
    delivery = delivery_of(request, drone_id)
    await create_delivery(delivery)
    return delivery


#: Read by the supervisor service, which tells people.
failed_deliveries = app.queue("failed-deliveries")


@deliver.on_failure(failed_deliveries)
def failed_operation(request: DeliveryRequest, *, failure: TaskFailure) -> FailedOperation:
    """What is told by the commit with which the undo begins."""
    return FailedOperation(
        delivery_request=request,
        service_name=failure.agent or app.name,
        error_message=failure.message,
    )


# What each service is told of a request


def route_of(request: DeliveryRequest) -> Route:
    return Route(
        pickup=Location.parse(request.pickup_location), dropoff=Location.parse(request.drop_off_location)
    )


def package_of(request: DeliveryRequest) -> Package:
    info = request.package_info
    return Package(
        id=request.delivery_id,
        size=info.size,
        weight=info.weight,
        tag=info.tag,
        reference=info.package_id,
    )


def flight_of(request: DeliveryRequest) -> DroneDelivery:
    route, package = route_of(request), package_of(request)
    return DroneDelivery(
        delivery_id=request.delivery_id,
        pickup=route.pickup,
        dropoff=route.dropoff,
        expedited=request.expedited,
        package_detail=PackageDetail(id=package.id, size=package.size),
    )


def delivery_of(request: DeliveryRequest, drone_id: str) -> Delivery:
    route = route_of(request)
    return Delivery(
        id=request.delivery_id,
        # A request names the account alone: whoever orders is its user.
        owner=UserAccount(user_id=request.owner_id, account_id=request.owner_id),
        pickup=route.pickup,
        dropoff=route.dropoff,
        pickup_time=request.pickup_time,
        deadline=request.deadline,
        expedited=request.expedited,
        confirmation_required=request.confirmation_required,
        drone_id=drone_id,
    )
