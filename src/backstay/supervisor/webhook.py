"""Tells of alerts by requests, to addresses that are public or allowed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from backstay.clock import Clock
from backstay.domain.alert import Alert
from backstay.domain.durations import describe
from backstay.domain.outbound import Outbound
from backstay.domain.sinks import Webhook, signature
from backstay.outbound import guarded_connector, was_refused
from backstay.supervisor.sinks import AT_ONCE, NotTold

KEY_HEADER: Final = "Idempotency-Key"
SIGNATURE_HEADER: Final = "Backstay-Signature"


class WebhookSink:
    """Posts the alert, as the HTTP interface shows it. What is answered beside the status is not read."""

    def __init__(self, target: Webhook, *, outbound: Outbound, timeout: timedelta, clock: Clock) -> None:
        self._target = target
        self._outbound = outbound
        self._timeout = timeout
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    @property
    def name(self) -> str:
        return self._target.name

    async def tell(self, alert: Alert) -> None:
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                status = await self._post(alert)
        except TimeoutError:
            raise NotTold(f"no answer within {describe(self._timeout)}") from None
        # A host that no name server could be asked for is a ValueError.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NotTold(_reason(error)) from None
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise NotTold(f"answered {status}")

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, alert: Alert) -> int:
        body = msgspec.json.encode(alert)
        async with self._open_session().post(
            # As it was written: what a receiver put into its address must come back so.
            URL(self._target.url, encoded=True),
            data=body,
            headers=self._headers(alert, body),
            # Who may answer could otherwise send us where the settings do not.
            allow_redirects=False,
        ) as response:
            return response.status

    def _headers(self, alert: Alert, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Backstay",
            KEY_HEADER: alert.key,
        }
        if self._target.secret:
            headers[SIGNATURE_HEADER] = signature(self._target.secret, body, self._clock.now())
        return headers

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=guarded_connector(self._outbound, limit=AT_ONCE),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # ``tell`` has its own, which covers all of it.
            )
        return self._session


def _reason(error: Exception) -> str:
    if was_refused(error):
        return "the address is not public, and outbound_allow in the settings does not allow it"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the name of the host could not be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "no trusted TLS connection could be made"
        case aiohttp.ClientConnectorError():
            return "could not connect"
        case ValueError():
            return "the address cannot be read"
    return f"the exchange broke off ({type(error).__name__})"
