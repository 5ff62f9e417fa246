"""A new log for a store that has read another one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from backstay import BackstayError, InvalidRequest
from drone_delivery.demo.plan import Plan
from drone_delivery.history import HISTORY, happenings
from drone_delivery.wishes import OPERATIONS, SCHEDULER, requests
from drone_delivery.workflow import app

READERS: Final = (
    (requests.name, SCHEDULER),
    (requests.name, OPERATIONS),
    (happenings.name, HISTORY),
)


class NotAfresh(Exception):
    """The store cannot be used, or somebody reads there; says which."""


async def begin_afresh(plan: Plan) -> None:
    """Have a store that stays forget how far it had read a log that is gone with the folder it was in.

    Without that, nothing would be read: checkpoints are of one log.
    """
    if plan.log.exists():
        return
    try:
        async with app.client(plan.store, streams=plan.streams) as client:
            for stream, group in READERS:
                with suppress(InvalidRequest):  # Nobody has ever read there.
                    await client.streamroom.forget(stream, group, reason="a demo with a log of its own")
    except BackstayError as error:
        raise NotAfresh(str(error)) from error
