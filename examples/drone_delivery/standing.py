"""How a delivery stands: as a task, or as a request that nobody has taken up yet."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request

from backstay import Permanent, Unavailable, UnknownTask
from drone_delivery.entities import Id
from drone_delivery.wire import Refused
from drone_delivery.wishes import SCHEDULER, requests
from drone_delivery.workflow import app

#: How many events anybody looks through for one delivery.
LOOK_MAX: Final = 1_000


class Uncertain(Unavailable):
    """So much waits to be taken up that nobody knows whether this delivery is among it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    state: str
    #: What was asked for, once it is taken up.
    request: Any = None
    #: Why it was called off, if it was, for the customer.
    reason: str = ""


ACCEPTED: Final = Standing(state="pending")


async def standing_of(delivery_id: str) -> Standing:
    """Raises Refused (404) for a delivery that nobody asked for, and Uncertain."""
    started = await started_delivery(delivery_id)
    if started is not None:
        return started
    unread = await requests.unread(SCHEDULER, key=delivery_id, limit=LOOK_MAX)
    if unread.events:
        return ACCEPTED
    # It may have been taken up before we looked: a group passes an event in the commit that enters its task.
    started = await started_delivery(delivery_id)
    if started is not None:
        return started
    if unread.more:
        raise Uncertain(f"{LOOK_MAX:,} events and more wait to be taken up; ask again")
    raise unknown()


async def started_delivery(delivery_id: str) -> Standing | None:
    try:
        task = await app.task(delivery_id)
    except UnknownTask:
        return None
    return Standing(state=task.state, request=task.input, reason=_reason(task.error))


def delivery_id_in(http: Request) -> str:
    """What the path names. Raises Refused (404) for what is never the id of a delivery."""
    try:
        return msgspec.convert(http.path_params["delivery_id"], Id)
    except msgspec.ValidationError as error:
        raise unknown() from error


def unknown() -> Refused:
    return Refused("there is no such delivery", HTTPStatus.NOT_FOUND)


def _reason(failure: Any) -> str:
    # What a step says itself is for the customer; what happens between the services is not.
    if failure is None or failure.type == "Cancelled":
        return "it was cancelled"
    return failure.message if failure.type == Permanent.__name__ else "it could not be completed"
