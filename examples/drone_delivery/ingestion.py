"""Where customers hand in requests, and ask how their delivery stands.

POST /api/deliveryrequests           202: accepted, and durable
GET  /api/deliveries/{id}            200 the delivery · 202 not yet · 410 it was called off, and why
GET  /api/deliveries/{id}/owner      200 · 404
GET  /api/deliveries/{id}/status     200 · 404
GET  /api/probe                      200
"""

from __future__ import annotations

import re
import uuid
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import HttpAnswer, HttpUnavailable, IdConflict, Permanent, Unavailable, UnknownTask
from drone_delivery.entities import DeliveryRequest, Id, Location, NewDelivery
from drone_delivery.workflow import app, deliver, deliveries

#: Makes the ids that are derived from keys deliveries of this application.
DELIVERY_IDS: Final = uuid.UUID("6f1d4c1e-90a5-4a4e-9a2c-8e3f5f0c7d11")
KEY: Final = re.compile(r"[!-~]{1,200}")
RETRY_AFTER: Final = {"Retry-After": "1"}
#: The same field as older clients spell it.
_OTHER_SPELLINGS: Final = {"dropoffLocation": "dropOffLocation"}
_ENDED_BADLY: Final = frozenset({"undone", "undo_failed", "cancelled", "error"})


class Refused(Exception):
    """The request cannot be done; ``str()`` says what to change."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


async def post_request(http: Request) -> Response:
    """202 once the delivery is in the store: from here on it is delivered or undone, whatever dies."""
    new = read_new_delivery(await http.body())
    delivery_id = delivery_id_for(new.owner_id, http.headers.getlist("idempotency-key"))
    request = DeliveryRequest(delivery_id=delivery_id, **msgspec.structs.asdict(new))
    try:
        await app.submit(deliver, request, id=request.delivery_id, attributes={"owner": request.owner_id})
    except IdConflict as error:
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "this Idempotency-Key came with another request before; use a new one",
        ) from error
    location = str(http.url_for("delivery", delivery_id=request.delivery_id))
    return json_response(request, HTTPStatus.ACCEPTED, {"Location": location, **RETRY_AFTER})


def delivery_id_for(owner_id: str, keys: list[str]) -> str:
    """New for every request, but the same whenever the same key of the same owner comes again."""
    if not keys:
        return str(uuid.uuid4())
    if len(keys) > 1 or not KEY.fullmatch(keys[0]):
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            "Idempotency-Key must be given once, with 1 to 200 visible ASCII characters",
        )
    return str(uuid.uuid5(DELIVERY_IDS, f"{owner_id}/{keys[0]}"))


def read_new_delivery(body: bytes) -> NewDelivery:
    """Raises Refused, naming the field that is wrong."""
    try:
        raw = msgspec.json.decode(body, type=dict[str, Any])
        raw.pop("deliveryId", None)  # It is not the customer's to choose.
        named = {_OTHER_SPELLINGS.get(name, name): value for name, value in raw.items()}
        new = msgspec.convert(named, NewDelivery)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
    _check_location("pickupLocation", new.pickup_location)
    _check_location("dropOffLocation", new.drop_off_location)
    return new


def _check_location(field: str, written: str) -> None:
    try:
        Location.parse(written)
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"{field}: {error}") from error


async def get_delivery(http: Request) -> Response:
    delivery_id = _delivery_id(http)
    answer = await _asked(delivery_id)
    return _passed_on(answer) if answer.status == HTTPStatus.OK else await _not_there(delivery_id)


async def get_part(http: Request) -> Response:
    """Its owner or its status, as the last part of the path says."""
    answer = await _asked(_delivery_id(http), http.url.path.rpartition("/")[2])
    if answer.status != HTTPStatus.OK:
        raise _unknown()
    return _passed_on(answer)


async def probe(_http: Request) -> Response:
    return Response()


def _delivery_id(http: Request) -> str:
    try:
        return msgspec.convert(http.path_params["delivery_id"], Id)
    except msgspec.ValidationError as error:
        raise _unknown() from error


def _unknown() -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, "there is no such delivery")


async def _asked(*path: str) -> HttpAnswer:
    """What the delivery service says of a delivery."""
    return await deliveries.get(("api", "deliveries", *path), ok=(404,), timeout="2s")


def _passed_on(answer: HttpAnswer) -> Response:
    return Response(answer.body, media_type="application/json")


async def _not_there(delivery_id: str) -> Response:
    """Not yet, no longer, or never."""
    try:
        task = await app.task(delivery_id)
    except UnknownTask as error:
        raise _unknown() from error
    if task.state in _ENDED_BADLY:
        failure = task.error
        # What a step says itself is for the customer; what happens between the services is not.
        told = failure is not None and failure.type == Permanent.__name__
        said = failure.message if failure and told else "it could not be completed"
        raise Refused(HTTPStatus.GONE, f"the delivery was called off: {said}")
    return json_response({"id": task.id, "state": task.state}, HTTPStatus.ACCEPTED, RETRY_AFTER)


# Answers


def json_response(value: Any, status: HTTPStatus, headers: dict[str, str]) -> Response:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        headers={**headers, "Content-Type": "application/json;charset=utf-8"},
    )


def problem(status: HTTPStatus, detail: str, headers: dict[str, str] | None = None) -> Response:
    body = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    return Response(
        msgspec.json.encode(body), status_code=status, headers=headers, media_type="application/problem+json"
    )


async def _refused(_http: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error.status, str(error))


async def _unavailable(_http: Request, _error: Exception) -> Response:
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "try again in a moment", RETRY_AFTER)


customers = Starlette(
    routes=[
        Route("/deliveryrequests", post_request, methods=["POST"]),
        Route("/deliveries/{delivery_id}", get_delivery, name="delivery"),
        Route("/deliveries/{delivery_id}/owner", get_part),
        Route("/deliveries/{delivery_id}/status", get_part),
        Route("/probe", probe),
    ],
    exception_handlers={Refused: _refused, HttpUnavailable: _unavailable, Unavailable: _unavailable},
)
