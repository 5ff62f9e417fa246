"""Customers ask how their delivery stands."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from backstay import HttpAgent
from drone_delivery.history import histories
from drone_delivery.standing import ACCEPTED, Uncertain, delivery_id_in, standing_of, unknown
from drone_delivery.wire import JSON, RETRY_AFTER, Refused, accepted
from drone_delivery.workflow import deliveries

TIMEOUT: Final = "2s"
#: What is in error waits for an operator, and may still be made.
_GONE: Final = frozenset({"undone", "undo_failed", "cancelled"})


async def get_delivery(http: Request) -> Response:
    """The task is asked first: the delivery service also keeps what was called off."""
    delivery_id = delivery_id_in(http)
    try:
        standing = await standing_of(delivery_id)
    except Uncertain:
        standing = ACCEPTED
    if standing.state in _GONE:
        raise Refused(f"the delivery was called off: {standing.reason}", HTTPStatus.GONE)
    if standing.state != "processed":
        return accepted({"id": delivery_id, "state": standing.state}, RETRY_AFTER)
    return await _passed_on(delivery_id)


async def get_owner(http: Request) -> Response:
    return await _passed_on(delivery_id_in(http), "owner")


async def get_status(http: Request) -> Response:
    return await _passed_on(delivery_id_in(http), "status")


async def get_events(http: Request) -> Response:
    return await _passed_on(delivery_id_in(http), "events")


async def get_history(http: Request) -> Response:
    return await _said_by(histories, "deliveryhistory", delivery_id_in(http))


async def probe(_http: Request) -> Response:
    return Response()


async def _passed_on(*path: str) -> Response:
    """What the delivery service says."""
    return await _said_by(deliveries, "deliveries", *path)


async def _said_by(service: HttpAgent, *path: str) -> Response:
    answer = await service.get(("api", *path), ok=(404,), timeout=TIMEOUT)
    if answer.status != HTTPStatus.OK:
        raise unknown()
    return Response(answer.body, headers=JSON)
