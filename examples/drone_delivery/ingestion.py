"""Where customers hand in requests, and change their mind.

What they want is checked here, answered once it is durable on the stream, and done by whoever reads that.
"""

from __future__ import annotations

import re
import uuid
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from backstay import EventConflict
from drone_delivery.changes import CALLED_OFF
from drone_delivery.entities import (
    DeliveryRequest,
    DeliveryStatus,
    Entity,
    Location,
    NewDelivery,
    NewSchedule,
    Stage,
    Text,
)
from drone_delivery.standing import delivery_id_in, standing_of, started_delivery
from drone_delivery.wire import JSON, RETRY_AFTER, Refused, accepted, decode, nothing, read_body
from drone_delivery.wishes import AnyWish, Cancel, Deliver, Reschedule, requests
from drone_delivery.workflow import deliveries

#: Makes the ids that are derived from keys deliveries of this application.
DELIVERY_IDS: Final = uuid.UUID("6f1d4c1e-90a5-4a4e-9a2c-8e3f5f0c7d11")
KEY: Final = re.compile(r"[!-~]{1,200}")
TIMEOUT: Final = "2s"

_PICKED_UP: Final = frozenset({Stage.HEADED_TO_DROPOFF, Stage.COMPLETED})


# A new delivery


async def post_request(http: Request) -> Response:
    """202 once the request is on the stream: from here on it is delivered or undone, whatever dies."""
    new = _read_new_delivery(await read_body(http))
    key = _key_of(http)
    delivery_id = _derived_id(f"{new.owner_id}/{key}") if key else str(uuid.uuid4())
    request = DeliveryRequest(delivery_id=delivery_id, **msgspec.structs.asdict(new))
    if key is None or not await _is_started(request):
        await _append(Deliver(request=request), id=delivery_id)
    location = {"Location": str(http.url_for("delivery", delivery_id=delivery_id))}
    return accepted(request, {**location, **RETRY_AFTER})


async def _is_started(request: DeliveryRequest) -> bool:
    """Whether it was handed in before, however long ago: the stream knows keys for some minutes only."""
    known = await started_delivery(request.delivery_id)
    if known is None:
        return False
    if known.request != msgspec.to_builtins(request):
        raise _key_was_used()
    return True


def _read_new_delivery(body: bytes) -> NewDelivery:
    """Raises Refused, naming the field that is wrong."""
    named = _in_new_spelling(decode(body, dict[str, Any]))
    named.pop("deliveryId", None)  # It is not the customer's to choose.
    new = decode(msgspec.json.encode(named), NewDelivery)
    _location("pickupLocation", new.pickup_location)
    _location("dropOffLocation", new.drop_off_location)
    return new


# Another mind


class Changes(Entity, frozen=True):
    """What a customer wants to be different; what is left out stays as it is."""

    pickup_location: Text | None = None
    drop_off_location: Text | None = None
    pickup_time: Text | None = None
    deadline: Text | None = None


async def patch_request(http: Request) -> Response:
    """200 once it is on the stream. It is done when the delivery is made, unless the drone has it by then."""
    schedule = _read_schedule(await read_body(http))
    key, delivery_id = _key_of(http), delivery_id_in(http)
    await _check_may_change(delivery_id)
    change_id = _derived_id(f"{delivery_id}/{key}") if key else str(uuid.uuid4())
    await _append(Reschedule(delivery_id=delivery_id, change_id=change_id, schedule=schedule), id=change_id)
    return Response(msgspec.json.encode(delivery_id), headers=JSON)


async def delete_request(http: Request) -> Response:
    """204 once it is on the stream. It is done unless the drone has the package by then."""
    delivery_id = delivery_id_in(http)
    await _check_may_change(delivery_id)
    await _append(Cancel(delivery_id=delivery_id))
    return nothing()


async def _check_may_change(delivery_id: str) -> None:
    """Raises Refused: 404, or 409 when it is too late by now."""
    standing = await standing_of(delivery_id)
    if standing.state in CALLED_OFF:
        raise Refused(f"the delivery was called off: {standing.reason}", HTTPStatus.CONFLICT)
    if standing.state != "processed":
        return
    answer = await deliveries.get(("api", "deliveries", delivery_id, "status"), timeout=TIMEOUT)
    stage = answer.json(DeliveryStatus).stage
    if stage is Stage.CANCELLED:
        raise Refused("the delivery was called off: it was cancelled", HTTPStatus.CONFLICT)
    if stage in _PICKED_UP:
        raise Refused(
            "the drone has picked the package up; the delivery cannot be changed any more",
            HTTPStatus.CONFLICT,
        )


def _read_schedule(body: bytes) -> NewSchedule:
    """Raises Refused, naming the field that is wrong."""
    named = _in_new_spelling(decode(body, dict[str, Any]))
    changes = decode(msgspec.json.encode(named), Changes)
    given: dict[str, Any] = {
        "pickup": _location("pickupLocation", changes.pickup_location),
        "dropoff": _location("dropOffLocation", changes.drop_off_location),
        "pickup_time": changes.pickup_time,
        "deadline": changes.deadline,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    if not wanted:
        raise Refused("nothing is to change; send pickupLocation, dropOffLocation, pickupTime or deadline")
    return NewSchedule(**wanted)


# What both have in common


async def _append(wish: AnyWish, *, id: str | None = None) -> None:
    """Durable once this comes back. Raises Refused when another wish has this id."""
    try:
        await requests.append(wish, key=wish.delivery_id, id=id)
    except EventConflict as error:
        raise _key_was_used() from error


def _key_of(http: Request) -> str | None:
    keys = http.headers.getlist("idempotency-key")
    if not keys:
        return None
    if len(keys) > 1 or not KEY.fullmatch(keys[0]):
        raise Refused(
            "Idempotency-Key must be given once, with 1 to 200 visible ASCII characters",
            HTTPStatus.UNPROCESSABLE_ENTITY,
        )
    return keys[0]


def _derived_id(name: str) -> str:
    """The same whenever the same key comes again."""
    return str(uuid.uuid5(DELIVERY_IDS, name))


def _key_was_used() -> Refused:
    return Refused(
        "this Idempotency-Key came with another request before; use a new one",
        HTTPStatus.UNPROCESSABLE_ENTITY,
    )


def _in_new_spelling(named: dict[str, Any]) -> dict[str, Any]:
    """With ``dropOffLocation``, which older clients spell differently."""
    if "dropoffLocation" not in named:
        return named
    if "dropOffLocation" in named:
        raise Refused("the body has dropOffLocation in two spellings; send it once")
    return {("dropOffLocation" if name == "dropoffLocation" else name): named[name] for name in named}


def _location(field: str, written: str | None) -> Location | None:
    try:
        return None if written is None else Location.parse(written)
    except ValueError as error:
        raise Refused(f"{field}: {error}") from error
