"""Deliveries as the customer sees them; what happened to one is told by its tracking events."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import (
    Delivery,
    DeliveryEvent,
    DeliveryStatus,
    NewSchedule,
    Stage,
    TrackingEvent,
)
from drone_delivery.services import outbox
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
from drone_delivery.wire import json, nothing, problem

PICKUP_AFTER: Final = timedelta(minutes=10)
DELIVERY_AFTER: Final = timedelta(hours=1)

_SCHEMA: Final = f"""
{outbox.SCHEMA}
-- Only ever added to.
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL,
    stage TEXT NOT NULL,
    content TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX IF NOT EXISTS event_delivery ON event (delivery_id);
-- The keys of changes that were made: whoever got no answer sends a change again, and it is made once.
CREATE TABLE IF NOT EXISTS change (
    key TEXT PRIMARY KEY
) STRICT;
"""

_TRACK: Final = "INSERT INTO event (delivery_id, stage, content) VALUES (?, ?, ?) RETURNING number"

_EVENTS: Final = "SELECT content FROM event WHERE delivery_id = ? ORDER BY number"

_IS_PICKED_UP: Final = "SELECT 1 FROM event WHERE delivery_id = ? AND stage = ?"

_IS_MADE: Final = "SELECT 1 FROM change WHERE key = ?"

_MADE: Final = "INSERT INTO change (key) VALUES (?)"


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
    return json(status_of(delivery, _events(call)))


def get_events(call: Call[None]) -> Response:
    """Everything that happened to it, in order; what happened twice is there twice."""
    return not_found("delivery", call.id) if _find(call) is None else json({"items": _events(call)})


def patch(call: Call[NewSchedule]) -> Response:
    """Reschedules it, until it is picked up: every time is an event of its own."""
    record = find(call.file, call.id)
    if record is None:
        return not_found("delivery", call.id)
    delivery = record.read(Delivery)
    if _is_made(call):
        return json(delivery)
    if record.cancelled:
        return is_cancelled("delivery", call.id)
    if _is_picked_up(call):
        return _too_late(call.id)
    changed = call.body.applied_to(delivery)
    _track(call.file, delivery, stage=Stage.RESCHEDULED, at=call.now, leaves=changed)
    keep(call.file, call.id, content=changed)
    if call.key is not None:
        call.file.execute(_MADE, (call.key,))
    return json(changed)


def put_pickup(call: Call[None]) -> Response:
    """What its drone reports, as often as it likes: from now on nobody can cancel or reschedule it."""
    record = find(call.file, call.id)
    if record is None:
        return not_found("delivery", call.id)
    if record.cancelled:
        return is_cancelled("delivery", call.id)
    if _is_picked_up(call):
        return nothing()
    _track(call.file, record.read(Delivery), stage=Stage.HEADED_TO_DROPOFF, at=call.now)
    return nothing(HTTPStatus.CREATED)


def delete(call: Call[None]) -> Response:
    """Cancels it. The delivery stays where it is, for whoever asks what became of it."""
    if _is_picked_up(call):
        return _too_late(call.id)
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


def _events(call: Call[None]) -> list[TrackingEvent]:
    rows = call.file.execute(_EVENTS, (call.id,))
    return [msgspec.json.decode(content, type=TrackingEvent) for (content,) in rows]


def _is_made(call: Call[Any]) -> bool:
    """Whether this change came before: it stays made, whatever happened to the delivery since."""
    return call.key is not None and bool(call.file.execute(_IS_MADE, (call.key,)))


def _is_picked_up(call: Call[Any]) -> bool:
    return bool(call.file.execute(_IS_PICKED_UP, (call.id, Stage.HEADED_TO_DROPOFF.value)))


def _too_late(id: str) -> Response:
    return problem(
        HTTPStatus.CONFLICT, f"delivery {id!r} is picked up already and on its way; wait for its arrival"
    )


def _track(
    file: ServiceFile, delivery: Delivery, *, stage: Stage, at: datetime, leaves: Delivery | None = None
) -> None:
    """Note what happens to a delivery, and tell the world; ``leaves``: as it is from then on."""
    event = TrackingEvent(delivery_id=delivery.id, stage=stage, location=delivery.pickup, at=_written(at))
    [(number,)] = file.execute(_TRACK, (delivery.id, stage.value, msgspec.json.encode(event).decode()))
    told = DeliveryEvent(number=number, event=event, delivery=leaves or delivery)
    outbox.put(file, number, key=delivery.id, content=told)


def _written(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds")


DELIVERY: Final = Service(
    name="delivery",
    schema=_SCHEMA,
    stream="delivery-events",
    resources=(
        Resource(
            "/api/deliveries/{id}",
            {
                "GET": Operation(get),
                "PUT": Operation(put, Delivery),
                "PATCH": Operation(patch, NewSchedule),
                "DELETE": Operation(delete),
            },
        ),
        Resource("/api/deliveries/{id}/owner", {"GET": Operation(get_owner)}),
        Resource("/api/deliveries/{id}/status", {"GET": Operation(get_status)}),
        Resource("/api/deliveries/{id}/events", {"GET": Operation(get_events)}),
        Resource("/api/deliveries/{id}/pickup", {"PUT": Operation(put_pickup)}),
    ),
)
