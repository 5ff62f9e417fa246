"""Drones: which of them carries a delivery. A delivery has one drone, however often it is asked for."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from drone_delivery.entities import DroneDelivery, Id
from drone_delivery.services.file import ServiceFile
from drone_delivery.services.records import Cancelled, Kept, cancel, find_live, keep
from drone_delivery.services.resources import (
    Call,
    Operation,
    Resource,
    Service,
    check_same_id,
    is_cancelled,
    not_found,
)
from drone_delivery.wire import json, nothing, text

# A drone has one row and so one delivery; a delivery is unique and so has one drone.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS drone (
    number INTEGER PRIMARY KEY,
    delivery_id TEXT UNIQUE  -- NULL: free
) STRICT;
CREATE INDEX IF NOT EXISTS drone_free ON drone (number) WHERE delivery_id IS NULL;
-- Only ever added to: a second assignment for one delivery would show.
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('assigned', 'released')),
    delivery_id TEXT NOT NULL,
    drone_id TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS event_delivery ON event (delivery_id);
"""

_TAKE_FREE: Final = """
UPDATE drone SET delivery_id = ?
 WHERE number = (SELECT number FROM drone WHERE delivery_id IS NULL ORDER BY number LIMIT 1)
RETURNING number
"""

_BUILD: Final = "INSERT INTO drone (delivery_id) VALUES (?) RETURNING number"

_RELEASE: Final = "UPDATE drone SET delivery_id = NULL WHERE delivery_id = ? RETURNING number"

_NOTE: Final = "INSERT INTO event (kind, delivery_id, drone_id, at) VALUES (?, ?, ?, ?)"


class AssignedDelivery(DroneDelivery, frozen=True):
    """A delivery with the drone that carries it."""

    drone_id: Id


def put(call: Call[DroneDelivery]) -> Response:
    check_same_id(call, "deliveryId", value=call.body.delivery_id)
    match keep(call.file, call.id, content=call.body):
        case Kept.REFUSED:
            return is_cancelled("drone delivery", call.id)
        case Kept.NEW:
            return text(_assign(call))
        case Kept.REPLACED:
            return text(_drone_of(call.file, call.id))


def get(call: Call[None]) -> Response:
    record = find_live(call.file, call.id)
    if record is None:
        return not_found("drone delivery", call.id)
    details = record.read(DroneDelivery)
    return json(
        AssignedDelivery(
            delivery_id=details.delivery_id,
            drone_id=_drone_of(call.file, call.id),
            pickup=details.pickup,
            dropoff=details.dropoff,
            expedited=details.expedited,
            package_detail=details.package_detail,
        )
    )


def delete(call: Call[None]) -> Response:
    met = cancel(call.file, call.id)
    if met is Cancelled.NOTHING:
        return not_found("drone delivery", call.id)
    if met is Cancelled.LIVE:
        _release(call)
    return nothing(HTTPStatus.OK)


def _assign(call: Call[DroneDelivery]) -> str:
    # The fleet grows with demand: that there is none left is not what this example is about.
    [(number,)] = call.file.execute(_TAKE_FREE, (call.id,)) or call.file.execute(_BUILD, (call.id,))
    drone_id = _name(number)
    call.file.execute(_NOTE, ("assigned", call.id, drone_id, call.now.isoformat()))
    return drone_id


def _release(call: Call[None]) -> None:
    [(number,)] = call.file.execute(_RELEASE, (call.id,))
    call.file.execute(_NOTE, ("released", call.id, _name(number), call.now.isoformat()))


def _drone_of(file: ServiceFile, delivery_id: str) -> str:
    [(number,)] = file.execute("SELECT number FROM drone WHERE delivery_id = ?", (delivery_id,))
    return _name(number)


def _name(number: int) -> str:
    return f"drone-{number}"


DRONE: Final = Service(
    name="drone",
    schema=_SCHEMA,
    resources=(
        Resource(
            "/api/dronedeliveries/{id}",
            {"GET": Operation(get), "PUT": Operation(put, DroneDelivery), "DELETE": Operation(delete)},
        ),
    ),
)
