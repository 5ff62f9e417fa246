"""Where customers hand in requests, and ask how their delivery stands.

POST /api/deliveryrequests           202: accepted, and durable
GET  /api/deliveries/{id}            200 the delivery · 202 not yet · 410 it was called off, and why · 404
GET  /api/deliveries/{id}/owner      200 · 404
GET  /api/deliveries/{id}/status     200 · 404
GET  /api/probe                      200
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import HttpUnavailable, IdConflict, Permanent, Unavailable, UnknownTask
from drone_delivery.entities import DeliveryRequest, Id, Location, NewDelivery
from drone_delivery.wire import (
    Refused,
    answer_http_error,
    answer_mistake,
    answer_refused,
    decode,
    problem,
    read_body,
)
from drone_delivery.workflow import app, deliver, deliveries

#: Makes the ids that are derived from keys deliveries of this application.
DELIVERY_IDS: Final = uuid.UUID("6f1d4c1e-90a5-4a4e-9a2c-8e3f5f0c7d11")
KEY: Final = re.compile(r"[!-~]{1,200}")
JSON: Final = {"Content-Type": "application/json;charset=utf-8"}
RETRY_AFTER: Final = {"Retry-After": "1"}
#: What is in error waits for an operator, and may still be made.
_CALLED_OFF: Final = frozenset({"undone", "undo_failed", "cancelled"})


# Hand in


async def post_request(http: Request) -> Response:
    """202 once the delivery is in the store: from here on it is delivered or undone, whatever dies."""
    new = read_new_delivery(await read_body(http))
    delivery_id = delivery_id_for(new.owner_id, http.headers.getlist("idempotency-key"))
    request = DeliveryRequest(delivery_id=delivery_id, **msgspec.structs.asdict(new))
    try:
        await app.submit(deliver, request, id=delivery_id, attributes={"owner": request.owner_id})
    except IdConflict as error:
        raise Refused(
            "this Idempotency-Key came with another request before; use a new one",
            HTTPStatus.UNPROCESSABLE_ENTITY,
        ) from error
    location = {"Location": str(http.url_for("delivery", delivery_id=delivery_id))}
    return _accepted(request, {**location, **RETRY_AFTER})


def delivery_id_for(owner_id: str, keys: list[str]) -> str:
    """New for every request, but the same whenever the same key of the same owner comes again."""
    if not keys:
        return str(uuid.uuid4())
    if len(keys) > 1 or not KEY.fullmatch(keys[0]):
        raise Refused(
            "Idempotency-Key must be given once, with 1 to 200 visible ASCII characters",
            HTTPStatus.UNPROCESSABLE_ENTITY,
        )
    return str(uuid.uuid5(DELIVERY_IDS, f"{owner_id}/{keys[0]}"))


def read_new_delivery(body: bytes) -> NewDelivery:
    """Raises Refused, naming the field that is wrong."""
    named = decode(body, dict[str, Any])
    named.pop("deliveryId", None)  # It is not the customer's to choose.
    if "dropoffLocation" in named:  # As older clients spell it.
        if "dropOffLocation" in named:
            raise Refused("the body has dropOffLocation in two spellings; send it once")
        named["dropOffLocation"] = named.pop("dropoffLocation")
    new = decode(msgspec.json.encode(named), NewDelivery)
    _check_location("pickupLocation", new.pickup_location)
    _check_location("dropOffLocation", new.drop_off_location)
    return new


def _check_location(field: str, written: str) -> None:
    try:
        Location.parse(written)
    except ValueError as error:
        raise Refused(f"{field}: {error}") from error


# Ask


async def get_delivery(http: Request) -> Response:
    """The task is asked first: the delivery service also keeps what was called off."""
    delivery_id = _delivery_id(http)
    try:
        task = await app.task(delivery_id)
    except UnknownTask as error:
        raise _unknown() from error
    if task.state in _CALLED_OFF:
        failure = task.error
        # What a step says itself is for the customer; what happens between the services is not.
        told = failure is not None and failure.type == Permanent.__name__
        said = failure.message if failure and told else "it could not be completed"
        raise Refused(f"the delivery was called off: {said}", HTTPStatus.GONE)
    if task.state != "processed":
        return _accepted({"id": task.id, "state": task.state}, RETRY_AFTER)
    return await _passed_on(delivery_id)


async def get_owner(http: Request) -> Response:
    return await _passed_on(_delivery_id(http), "owner")


async def get_status(http: Request) -> Response:
    return await _passed_on(_delivery_id(http), "status")


async def probe(_http: Request) -> Response:
    return Response()


def _delivery_id(http: Request) -> str:
    try:
        return msgspec.convert(http.path_params["delivery_id"], Id)
    except msgspec.ValidationError as error:
        raise _unknown() from error


async def _passed_on(*path: str) -> Response:
    """What the delivery service says."""
    answer = await deliveries.get(("api", "deliveries", *path), ok=(404,), timeout="2s")
    if answer.status != HTTPStatus.OK:
        raise _unknown()
    return Response(answer.body, headers=JSON)


def _unknown() -> Refused:
    return Refused("there is no such delivery", HTTPStatus.NOT_FOUND)


def _accepted(value: object, headers: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(value), HTTPStatus.ACCEPTED, headers={**JSON, **headers})


def _unavailable(_http: Request, _error: Exception) -> Response:
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "try again in a moment", headers=RETRY_AFTER)


customers = Starlette(
    routes=[
        Route("/deliveryrequests", post_request, methods=["POST"]),
        Route("/deliveries/{delivery_id}", get_delivery, name="delivery"),
        Route("/deliveries/{delivery_id}/owner", get_owner),
        Route("/deliveries/{delivery_id}/status", get_status),
        Route("/probe", probe),
    ],
    exception_handlers={
        Refused: answer_refused,
        HTTPException: answer_http_error,
        HttpUnavailable: _unavailable,
        Unavailable: _unavailable,
        Exception: answer_mistake,
    },
)
