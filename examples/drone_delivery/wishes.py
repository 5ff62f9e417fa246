"""What customers want, as events on a stream, and who reads it.

                                             ┌─▶ group scheduler    starts a task for each new delivery
    POST, PATCH, DELETE ─▶ delivery-requests ┤
                                             └─▶ group operations   cancels and reschedules

Everything that is wanted of one delivery has its id as the key, and so stays in order. The two groups do not
wait for one another: what is to be done to a delivery whose task is not there yet is tried again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from backstay import Event, Retry
from drone_delivery.changes import call_off, reschedule
from drone_delivery.entities import DeliveryRequest, Entity, Id, NewSchedule
from drone_delivery.workflow import app, deliver, route_of

PARTITIONS: Final = 32
SCHEDULER: Final = "scheduler"
OPERATIONS: Final = "operations"

# A service may be away, or the other group far behind: in the end somebody looks at what could not be done.
PATIENCE: Final = Retry(attempts=1_000, first="50ms", cap="2s")
PATIENT_FOR: Final = "1h"


class Wish(Entity, frozen=True, tag_field="operation"):
    """One event; its key is the id of the delivery."""


class Deliver(Wish, frozen=True, tag="deliver"):
    request: DeliveryRequest

    @property
    def delivery_id(self) -> str:
        return self.request.delivery_id


class Reschedule(Wish, frozen=True, tag="reschedule"):
    delivery_id: Id
    #: The same at every attempt: a change is made once.
    change_id: Id
    schedule: NewSchedule


class Cancel(Wish, frozen=True, tag="cancel"):
    delivery_id: Id


AnyWish = Deliver | Reschedule | Cancel


def parse(event: Event) -> AnyWish:
    """Raises what puts an event into quarantine: anybody who may append to the stream may append nonsense."""
    wish: AnyWish = msgspec.convert(event.body, AnyWish)
    if event.key != wish.delivery_id:
        raise ValueError(f"the key is {event.key!r}; it must be the delivery's id, {wish.delivery_id!r}")
    if isinstance(wish, Deliver):
        route_of(wish.request)
    return wish


def is_new(wish: AnyWish) -> bool:
    return isinstance(wish, Deliver)


def is_change(wish: AnyWish) -> bool:
    return not is_new(wish)


def request_of(wish: Deliver) -> DeliveryRequest:
    return wish.request


def delivery_id_of(request: DeliveryRequest) -> str:
    return request.delivery_id


def attributes_of(request: DeliveryRequest) -> dict[str, str]:
    """What tasks can be listed by."""
    return {"owner": request.owner_id}


async def carry_out(wish: Any) -> None:
    match wish:
        case Cancel(delivery_id=delivery_id):
            await call_off(delivery_id)
        case Reschedule(delivery_id=delivery_id, change_id=change_id, schedule=schedule):
            await reschedule(delivery_id, schedule, change_id=change_id)


requests = app.stream("delivery-requests", partitions=PARTITIONS)

(
    requests.source(group=SCHEDULER)
    .map(parse)
    .filter(is_new)
    .map(request_of)
    .start(deliver, id=delivery_id_of, attributes=attributes_of)
)

(
    requests.source(group=OPERATIONS)
    .map(parse)
    .filter(is_change)
    .via(carry_out, retry=PATIENCE, complete_by=PATIENT_FOR)
    .checkpoint(every=100, after="1s")
)
