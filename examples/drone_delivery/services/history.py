"""The history of deliveries: what happened to each, in order, for as long as anybody may ask."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import DeliveryEvent, DeliveryHistory
from drone_delivery.services.resources import (
    Call,
    Operation,
    Resource,
    Service,
    check_same_id,
    not_found,
)
from drone_delivery.wire import json, nothing

# Only ever added to. An event that comes again has its number, and is there already.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS happened (
    delivery_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    content TEXT NOT NULL,  -- JSON
    PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
"""

_KEEP: Final = """
INSERT INTO happened (delivery_id, number, content) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING RETURNING number
"""

_TIMELINE: Final = "SELECT content FROM happened WHERE delivery_id = ? ORDER BY number"


def post(call: Call[DeliveryEvent]) -> Response:
    """Keeps an event, once however often it comes, and wherever in the order."""
    check_same_id(call, "deliveryId", value=call.body.event.delivery_id)
    content = msgspec.json.encode(call.body).decode()
    is_new = bool(call.file.execute(_KEEP, (call.id, call.body.number, content)))
    return nothing(HTTPStatus.CREATED if is_new else HTTPStatus.NO_CONTENT)


def get(call: Call[None]) -> Response:
    rows = call.file.execute(_TIMELINE, (call.id,))
    if not rows:
        return not_found("history of delivery", call.id)
    happened = [msgspec.json.decode(content, type=DeliveryEvent) for (content,) in rows]
    return json(
        DeliveryHistory(
            id=call.id,
            delivery=happened[-1].delivery,
            delivery_tracking_events=tuple(one.event for one in happened),
        )
    )


HISTORY: Final = Service(
    name="history",
    schema=_SCHEMA,
    resources=(
        Resource(
            "/api/deliveryhistory/{id}", {"GET": Operation(get), "POST": Operation(post, DeliveryEvent)}
        ),
    ),
)
