"""A customer changes their mind: until the drone has the package, a delivery is called off or rescheduled.

Each of these is tried again until it is done or refused for good, and may be interrupted anywhere: every part
of it is safe to do twice. The delivery service decides whether it is too late, since that is where the drone
reports; so it is asked first, and what it refuses changes nothing anywhere.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

import msgspec

from backstay import HttpAnswer
from drone_delivery.entities import Delivery, DeliveryRequest, NewSchedule, Route
from drone_delivery.workflow import app, carriers, deliveries, drones, flight_of

#: Nothing will come of it any more. What is in error waits for an operator, and may still be made.
CALLED_OFF: Final = frozenset({"undoing", "undone", "undo_failed", "cancelled"})
#: For one request to a service.
TIMEOUT: Final = "5s"

_log: Final = logging.getLogger(__name__)


class NotYet(Exception):
    """It cannot be done now; looked at again in a moment."""


async def call_off(delivery_id: str) -> None:
    """Undo a delivery, unless it is picked up. Raises NotYet, UnknownTask, HttpUnavailable until then."""
    task = await app.task(delivery_id)
    if task.state in CALLED_OFF:
        return
    # From here on no drone picks it up, even if the delivery is not made yet.
    answer = await deliveries.delete(("api", "deliveries", delivery_id), ok=(404, 409), timeout=TIMEOUT)
    if answer.status == HTTPStatus.CONFLICT:
        _refused("cancellation", delivery_id, answer)
        return
    told = await (app.undo if task.state == "processed" else app.cancel)(delivery_id)
    if told.state not in CALLED_OFF:
        # Whoever runs the task was asked; it may end it a moment before it hears that.
        raise NotYet(f"delivery {delivery_id} is {told.state}; it is to be called off")


async def reschedule(delivery_id: str, schedule: NewSchedule, *, change_id: str) -> None:
    """Change a delivery once it is made, unless it is picked up. Raises as ``call_off`` does until then."""
    task = await app.task(delivery_id)
    if task.state in CALLED_OFF:
        return
    if task.state != "processed":
        raise NotYet(f"delivery {delivery_id} is {task.state}; it is rescheduled once it is made")
    path = ("api", "deliveries", delivery_id)
    delivery = (await deliveries.get(path, timeout=TIMEOUT)).json(Delivery)
    if await _leads_too_far(schedule.applied_to(delivery), instead_of=delivery):
        _log.info("delivery %s is not rescheduled: the route needs an external carrier", delivery_id)
        return
    answer = await deliveries.patch(
        path, json=schedule, headers={"Idempotency-Key": change_id}, ok=(409,), timeout=TIMEOUT
    )
    if answer.status == HTTPStatus.CONFLICT:
        _refused("new schedule", delivery_id, answer)
        return
    await _tell_drone(msgspec.convert(task.input, DeliveryRequest), answer.json(Delivery))


async def _leads_too_far(changed: Delivery, *, instead_of: Delivery) -> bool:
    """Ask the third party; what it knows of the delivery is then what holds."""
    if not await _needs_carrier(changed):
        return False
    await _needs_carrier(instead_of)
    return True


async def _needs_carrier(delivery: Delivery) -> bool:
    route = Route(pickup=delivery.pickup, dropoff=delivery.dropoff)
    path = ("api", "thirdpartydeliveries", delivery.id)
    answer = await carriers.put(path, json=route, ok=(409,), timeout=TIMEOUT)
    # Cancelled meanwhile: then the delivery service refuses as well.
    return answer.status == HTTPStatus.OK and answer.json(bool)


async def _tell_drone(request: DeliveryRequest, delivery: Delivery) -> None:
    flight = msgspec.structs.replace(flight_of(request), pickup=delivery.pickup, dropoff=delivery.dropoff)
    # A drone that was released meanwhile need not know.
    await drones.put(("api", "dronedeliveries", delivery.id), json=flight, ok=(409,), timeout=TIMEOUT)


def _refused(what: str, delivery_id: str, answer: HttpAnswer) -> None:
    _log.info("the %s of delivery %s came too late: %s", what, delivery_id, answer.text())
