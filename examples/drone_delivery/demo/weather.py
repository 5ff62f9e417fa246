"""The services' fault dials: slow and failing a little, and one of them down for ten seconds each minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from random import Random
from typing import Any, Final

import aiohttp

from drone_delivery.demo.load import SUSPENDED

#: A few milliseconds as a rule, now and then a lot more; one answer in fifty goes wrong.
USUAL: Final = {"latencyMs": {"median": 10, "p99": 150}, "errorRate": 0.02}
OUTAGE_SECONDS: Final = 10.0
OUTAGE_EVERY_SECONDS: Final = 60.0
#: Soon enough to be seen by who watches for the first time.
FIRST_OUTAGE_SECONDS: Final = 4.0
PATIENCE_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.2


class WeatherFailed(Exception):
    """A service does not let its dial be turned."""


class Weather:
    """Turns the dials over HTTP. A service that is dead is asked again until it is back."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        urls: Mapping[str, str],
        *,
        chance: Random,
        tell: Callable[[str], None],
    ) -> None:
        self._session = session
        self._urls = urls
        self._chance = chance
        self._tell = tell
        self._rough = False

    async def settle(self, *, rough: bool) -> None:
        """The accounts that are suspended and, if it is to be ``rough``, the usual weather."""
        self._rough = rough
        for url in self._urls.values() if rough else ():
            await self._put(f"{url}/faults", body=USUAL)
        for account in SUSPENDED:
            await self._put(f"{self._urls['account']}/api/account/{account}", body=False)

    def calm_down(self) -> None:
        """No more outages after the one that may be under way."""
        self._rough = False

    async def run(self) -> None:
        """One outage after the other, while it is rough."""
        await asyncio.sleep(FIRST_OUTAGE_SECONDS)
        while self._rough:
            await self._outage(self._chance.choice(list(self._urls)))
            await asyncio.sleep(OUTAGE_EVERY_SECONDS - OUTAGE_SECONDS)

    async def _outage(self, service: str) -> None:
        dial = {**USUAL, "outage": True, "forSeconds": OUTAGE_SECONDS}
        await self._put(f"{self._urls[service]}/faults", body=dial)
        self._tell(f"the {service} service is down for {OUTAGE_SECONDS:.0f} s")
        await asyncio.sleep(OUTAGE_SECONDS)
        self._tell(f"the {service} service is back")

    async def _put(self, url: str, *, body: Any) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if await self._is_put(url, body):
                        return
                    await asyncio.sleep(_AGAIN_SECONDS)
        except TimeoutError:
            raise WeatherFailed(f"{url} has not answered for {PATIENCE_SECONDS:.0f} s") from None

    async def _is_put(self, url: str, body: Any) -> bool:
        try:
            async with self._session.put(url, json=body) as answer:
                if HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise WeatherFailed(f"{url} refused: {(await answer.text())[:500]}")
                return answer.ok
        except (aiohttp.ClientError, TimeoutError):
            return False
