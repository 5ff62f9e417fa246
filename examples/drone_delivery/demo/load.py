"""Customers who hand in requests, and try again until they are accepted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from random import Random
from typing import Any, Final

import aiohttp

CUSTOMERS: Final = 500
#: One request in a hundred is of a customer whose account is suspended,
SUSPENDED_SHARE: Final = 0.01
SUSPENDED: Final = ("customer-suspended-1", "customer-suspended-2")
#: and two in a hundred lead farther than a drone flies.
FAR_SHARE: Final = 0.02

UNDER_WAY_MAX: Final = 500
#: For how long a customer tries to be heard.
PATIENCE_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.2
_PACE_SECONDS: Final = 0.02
_SIZES: Final = ("small", "medium", "large")
_CONFIRMATIONS: Final = ("FingerPrint", "Picture", "Voice", "None")


class LoadFailed(Exception):
    """The server refuses a request for good, or has not answered for a long time."""


class Load:
    """Hands in requests at a steady pace, however long each of them takes."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, chance: Random) -> None:
        self._session = session
        self._url = f"{url}/api/deliveryrequests"
        self._chance = chance
        self._run = f"{chance.getrandbits(64):016x}"
        #: The deliveries of the requests that were accepted so far.
        self.accepted: set[str] = set()

    async def run(self, rate: int, *, seconds: float | None, stop: asyncio.Event) -> None:
        """Until the time is up or ``stop`` is set; then until every request under way is accepted."""
        free = asyncio.Semaphore(UNDER_WAY_MAX)
        async with asyncio.TaskGroup() as customers:
            async for number in _paced(rate, seconds=seconds, stop=stop):
                await free.acquire()
                asked = customers.create_task(self._accepted(number))
                asked.add_done_callback(lambda _: free.release())

    async def _accepted(self, number: int) -> None:
        key = f"{self._run}-{number}"
        request = delivery_request(key, self._chance)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                self.accepted.add(await self._heard(key, request))
        except TimeoutError:
            raise LoadFailed(f"no request was accepted for {PATIENCE_SECONDS:.0f} s") from None

    async def _heard(self, key: str, request: Mapping[str, Any]) -> str:
        """Ask until it is accepted: under its key it is the same delivery, however often it is asked for."""
        while True:
            delivery_id = await self._ask(key, request)
            if delivery_id is not None:
                return delivery_id
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _ask(self, key: str, request: Mapping[str, Any]) -> str | None:
        """The id of the delivery, or ``None`` when nobody knows whether it was accepted."""
        headers = {"Idempotency-Key": key, **authorization()}
        try:
            async with self._session.post(self._url, json=request, headers=headers) as answer:
                if answer.status == HTTPStatus.ACCEPTED:
                    return str((await answer.json())["deliveryId"])
                if (
                    answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
                    and answer.status != HTTPStatus.TOO_MANY_REQUESTS
                ):
                    raise LoadFailed(f"{answer.status} {answer.reason}: {(await answer.text())[:500]}")
        except (aiohttp.ClientError, TimeoutError):
            pass
        return None


def authorization() -> dict[str, str]:
    """For a store that has tokens."""
    token = os.environ.get("BACKSTAY_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


async def _paced(rate: int, *, seconds: float | None, stop: asyncio.Event) -> AsyncIterator[int]:
    """Ever larger numbers, so many a second."""
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    while not stop.is_set() and (seconds is None or loop.time() < began + seconds):
        # What could not be sent in time is left out: customers who found the door shut have gone.
        due = int((loop.time() - began) * rate) + 1
        if sent < due:
            sent = max(sent + 1, due - rate)
            yield sent
        else:
            await asyncio.sleep(_PACE_SECONDS)


def delivery_request(name: str, chance: Random) -> dict[str, Any]:
    """A request as customers make them."""
    suspended = chance.random() < SUSPENDED_SHARE
    far = chance.random() < FAR_SHARE
    latitude, longitude = chance.uniform(47.2, 47.8), chance.uniform(-122.6, -121.8)
    away = chance.uniform(3.0, 6.0) if far else chance.uniform(-0.2, 0.2)
    return {
        "ownerId": chance.choice(SUSPENDED) if suspended else f"customer-{chance.randrange(CUSTOMERS)}",
        "pickupLocation": f"20,{latitude:.5f},{longitude:.5f}",
        "dropOffLocation": f"25,{latitude + away:.5f},{longitude + away:.5f}",
        "pickupTime": "2030-01-31T12:00:00Z",
        "deadline": "2030-01-31T14:00:00Z",
        "expedited": chance.random() < 0.3,  # noqa: PLR2004  A third or so.
        "confirmationRequired": chance.choice(_CONFIRMATIONS),
        "packageInfo": {
            "packageId": f"package-{name}",
            "size": chance.choice(_SIZES),
            "weight": round(chance.uniform(0.1, 5.0), 2),
            "tag": f"{chance.getrandbits(32):08x}",
        },
    }
