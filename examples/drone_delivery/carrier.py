"""What a drone cannot fly: an operator may have it carried by road, and one undo of that is a person's work.

A route that is too far is called off, and the operator hears of it. Whoever comes to terms with the customer
submits ``deliver_by_carrier`` under a new id. The carrier takes bookings over the network, and cancellations
by telephone only.
"""

from __future__ import annotations

import asyncio
from typing import Final

from drone_delivery.entities import Delivery, DeliveryRequest, Route
from drone_delivery.workflow import (
    app,
    carriers,
    check_account,
    create_delivery,
    create_package,
    deliver,
    delivery_of,
    failed_deliveries,
    failed_operation,
    package_of,
    route_of,
)

#: Who flies, as far as the delivery service is concerned.
CARRIER: Final = "external-carrier"


@carriers.step
async def book_carrier(delivery_id: str, route: Route) -> None:
    await carriers.put(("api", "carrierbookings", delivery_id), json=route)


@book_carrier.undo(manual=True)
async def call_carrier(delivery_id: str, route: Route) -> None:
    """Somebody calls the carrier, and then says so: ``backstay tasks complete-step ID book_carrier:1``."""


@app.workflow(complete_by="60s", recovery=deliver.recovery)
async def deliver_by_carrier(request: DeliveryRequest) -> Delivery:
    """The same as ``deliver``, with a carrier instead of a drone."""
    await asyncio.gather(check_account(request.owner_id), create_package(package_of(request)))
    await book_carrier(request.delivery_id, route_of(request))
    delivery = delivery_of(request, CARRIER)
    await create_delivery(delivery)
    return delivery


deliver_by_carrier.on_failure(failed_deliveries)(failed_operation)
