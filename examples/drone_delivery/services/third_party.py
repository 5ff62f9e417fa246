"""Third-party transportation: whether a delivery is too far for a drone and needs an external carrier."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import Entity, Id, Location, Route
from drone_delivery.services.records import Cancelled, Kept, cancel, find_live, keep
from drone_delivery.services.resources import Call, Operation, Resource, Service, is_cancelled, not_found
from drone_delivery.wire import json, nothing

DRONE_RANGE_KM: Final = 100.0
EARTH_RADIUS_KM: Final = 6_371.0

_WHAT: Final = "third-party check"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS booking (
    id TEXT PRIMARY KEY,
    route TEXT NOT NULL  -- JSON
) STRICT;
"""

_BOOK: Final = "INSERT INTO booking (id, route) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING id"


class Check(Entity, frozen=True):
    """What was found for one delivery."""

    id: Id
    required: bool


def distance_km(one: Location, other: Location) -> float:
    """Along the great circle, by the haversine formula, which is exact for small distances as well."""
    south, north = math.radians(one.latitude), math.radians(other.latitude)
    across = math.radians(other.longitude - one.longitude)
    haversine = (
        math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin(across / 2) ** 2
    )
    # Between antipodes rounding may lead past 1.
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, haversine)))


def needs_carrier(route: Route) -> bool:
    return distance_km(route.pickup, route.dropoff) > DRONE_RANGE_KM


def put(call: Call[Route]) -> Response:
    check = Check(id=call.id, required=needs_carrier(call.body))
    if keep(call.file, call.id, content=check) is Kept.REFUSED:
        return is_cancelled(_WHAT, call.id)
    return json(check.required)


def get(call: Call[None]) -> Response:
    record = find_live(call.file, call.id)
    return not_found(_WHAT, call.id) if record is None else json(record.read(Check))


def delete(call: Call[None]) -> Response:
    met = cancel(call.file, call.id)
    return not_found(_WHAT, call.id) if met is Cancelled.NOTHING else nothing()


def put_booking(call: Call[Route]) -> Response:
    """Has an external carrier come. There is no way back over the network: the carrier wants a call."""
    rows = call.file.execute(_BOOK, (call.id, msgspec.json.encode(call.body).decode()))
    return nothing(HTTPStatus.CREATED if rows else HTTPStatus.NO_CONTENT)


THIRD_PARTY: Final = Service(
    name="third-party",
    schema=_SCHEMA,
    resources=(
        Resource(
            "/api/thirdpartydeliveries/{id}",
            {"GET": Operation(get), "PUT": Operation(put, Route), "DELETE": Operation(delete)},
        ),
        Resource("/api/carrierbookings/{id}", {"PUT": Operation(put_booking, Route)}),
    ),
)
