"""Deliveries leave a trace: what the delivery service tells is read from a stream into the history service.

    delivery service ─▶ delivery-events ─▶ group history ─▶ history service

Nobody who makes or changes a delivery waits for that. An event may be handed over twice; the history knows it
by its number, and keeps it once.
"""

from __future__ import annotations

from typing import Final

import msgspec

from backstay import Event
from drone_delivery.entities import DeliveryEvent
from drone_delivery.wishes import PATIENCE, PATIENT_FOR
from drone_delivery.workflow import agent_for, app

PARTITIONS: Final = 8
HISTORY: Final = "history"
TIMEOUT: Final = "5s"

histories = agent_for("history")


def parse(event: Event) -> DeliveryEvent:
    """Raises what puts an event into quarantine."""
    return msgspec.convert(event.body, DeliveryEvent)


async def remember(happened: DeliveryEvent) -> None:
    path = ("api", "deliveryhistory", happened.event.delivery_id)
    await histories.post(path, json=happened, timeout=TIMEOUT)


happenings = app.stream("delivery-events", partitions=PARTITIONS)

(
    happenings.source(group=HISTORY)
    .map(parse)
    .via(remember, retry=PATIENCE, complete_by=PATIENT_FOR)
    .checkpoint(every=100, after="1s")
)
