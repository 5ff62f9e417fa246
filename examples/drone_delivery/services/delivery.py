"""Deliveries as the customer sees them; what happened to one is told by its tracking events."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import Delivery, DeliveryStatus, Stage, TrackingEvent
from drone_delivery.services.file import ServiceFile
from drone_delivery.services.records import Cancelled, Kept, cancel, find, keep
from drone_delivery.services.resources import (
    Call,
    Operation,
    Resource,
    Service,
    check_same_id,
    is_cancelled,
    not_found,
)
from drone_delivery.wire import json, nothing

PICKUP_AFTER: Final = timedelta(minutes=10)
DELIVERY_AFTER: Final = timedelta(hours=1)

_SCHEMA: Final = """
-- Only ever added to.
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    content TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX IF NOT EXISTS event_delivery ON event (delivery_id);
"""

_TRACK: Final = "INSERT INTO event (delivery_id, stage, content) VALUES (?, ?, ?)"

_EVENTS: Final = "SELECT content FROM event WHERE delivery_id = ? ORDER BY number"


def status_of(delivery: Delivery, events: list[TrackingEvent]) -> DeliveryStatus:
    """Where a delivery stands; the first of ``events`` is its creation."""
    created_at = datetime.fromisoformat(events[0].at)
    return DeliveryStatus(
        stage=events[-1].stage,
        last_known_location=delivery.pickup,
        pickup_eta=_written(created_at + PICKUP_AFTER),
        delivery_eta=_written(created_at + DELIVERY_AFTER),
    )


def put(call: Call[Delivery]) -> Response:
    delivery = call.body
    check_same_id(call, "id", value=delivery.id)
    match keep(call.file, call.id, content=delivery):
        case Kept.REFUSED:
            return is_cancelled("delivery", call.id)
        case Kept.NEW:
            _track(call.file, delivery, stage=Stage.CREATED, at=call.now)
            return json(delivery, HTTPStatus.CREATED, location=f"/api/deliveries/{call.id}")
        case Kept.REPLACED:
            return nothing()


def get(call: Call[None]) -> Response:
    delivery = _find(call)
    return not_found("delivery", call.id) if delivery is None else json(delivery)


def get_owner(call: Call[None]) -> Response:
    delivery = _find(call)
    return not_found("delivery", call.id) if delivery is None else json(delivery.owner)


def get_status(call: Call[None]) -> Response:
    delivery = _find(call)
    if delivery is None:
        return not_found("delivery", call.id)
    rows = call.file.execute(_EVENTS, (call.id,))
    events = [msgspec.json.decode(content, type=TrackingEvent) for (content,) in rows]
    return json(status_of(delivery, events))


def delete(call: Call[None]) -> Response:
    """Cancels it. The delivery stays where it is, for whoever asks what became of it."""
    met = cancel(call.file, call.id)
    delivery = _find(call)
    if delivery is None:
        return not_found("delivery", call.id)
    if met is Cancelled.LIVE:
        _track(call.file, delivery, stage=Stage.CANCELLED, at=call.now)
    return nothing(HTTPStatus.OK)


def _find(call: Call[None]) -> Delivery | None:
    record = find(call.file, call.id)
    return None if record is None else record.read(Delivery)


def _track(file: ServiceFile, delivery: Delivery, *, stage: Stage, at: datetime) -> None:
    event = TrackingEvent(delivery_id=delivery.id, stage=stage, location=delivery.pickup, at=_written(at))
    file.execute(_TRACK, (delivery.id, stage.value, msgspec.json.encode(event).decode()))


def _written(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds")


DELIVERY: Final = Service(
    name="delivery",
    schema=_SCHEMA,
    resources=(
        Resource(
            "/api/deliveries/{id}",
            {"GET": Operation(get), "PUT": Operation(put, Delivery), "DELETE": Operation(delete)},
        ),
        Resource("/api/deliveries/{id}/owner", {"GET": Operation(get_owner)}),
        Resource("/api/deliveries/{id}/status", {"GET": Operation(get_status)}),
    ),
)
