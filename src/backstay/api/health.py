"""Whether this process works, and whether it should be given work."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import msgspec

from backstay.api.calls import Call, Hindrance, Nothing
from backstay.client import Client
from backstay.clock import Clock
from backstay.errors import Unavailable
from backstay.web.problems import DEAF, NOT_READY, Refused, detail_of
from backstay.web.sampled import Sampled

STORE_SECONDS: Final = 2.0
LOOKED_AT_EVERY_SECONDS: Final = 1.0


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
    if call.service.ports.health.draining:
        raise Refused(NOT_READY, "this process is about to stop; ask another")
    if hindrance := await call.service.hindrance.get():
        raise Refused(NOT_READY, hindrance)
    return Ready("ready")


def hindrance(client: Client, clock: Clock) -> Hindrance:
    """Why the store cannot be worked with, as of a moment ago; empty if it can. Anybody may ask for it."""

    async def look() -> str:
        try:
            async with asyncio.timeout(STORE_SECONDS):
                await client.backlog(at_most=1)
        except TimeoutError:
            return f"the store did not answer within {STORE_SECONDS:.0f} s"
        except Unavailable as error:
            return detail_of(error)
        return ""

    return Sampled(look, seconds=LOOKED_AT_EVERY_SECONDS, clock=clock)
