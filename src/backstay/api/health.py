"""Whether this process works, and whether it should be given work."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import msgspec

from backstay.api.calls import Call, Nothing
from backstay.api.problems import DEAF, NOT_READY, Refused
from backstay.errors import Unavailable

STORE_SECONDS: Final = 2.0


class Alive(msgspec.Struct, frozen=True):
    status: Literal["ok"]
    roles: dict[str, str]


class Ready(msgspec.Struct, frozen=True):
    status: Literal["ready"]


async def get_health(call: Call[Nothing, Nothing, Nothing]) -> Alive:
    health = call.service.ports.health
    deaf = health.deaf()
    roles = {**dict.fromkeys(health.roles(), "ok"), **deaf}
    if deaf:
        named = "; ".join(f"{role}: {since}" for role, since in deaf.items())
        raise Refused(DEAF, f"no progress by {named}; restart this process", roles=roles)
    return Alive("ok", roles)


async def get_readiness(call: Call[Nothing, Nothing, Nothing]) -> Ready:
    ports = call.service.ports
    if ports.health.draining:
        raise Refused(NOT_READY, "this process is about to stop; ask another")
    try:
        async with asyncio.timeout(STORE_SECONDS):
            await ports.client.backlog(at_most=1)
    except TimeoutError as error:
        raise Refused(NOT_READY, f"the store did not answer within {STORE_SECONDS:.0f} s") from error
    except Unavailable as error:
        raise Refused(NOT_READY, str(error)) from error
    return Ready("ready")
