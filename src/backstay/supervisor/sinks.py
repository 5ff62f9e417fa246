"""Tells a sink of an alert: by a request, or by starting a program. Bounded in time, and in answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Protocol

import aiohttp
import msgspec
from yarl import URL

from backstay.clock import Clock
from backstay.domain.alert import Alert
from backstay.domain.durations import describe
from backstay.domain.outbound import Outbound
from backstay.domain.sinks import Command, SinkTarget, Webhook, signature
from backstay.outbound import guarded_connector, was_refused

KEY_HEADER: Final = "Idempotency-Key"
SIGNATURE_HEADER: Final = "Backstay-Signature"
KEY_VARIABLE: Final = "ALERT_KEY"

#: So many alerts a sink is told at once.
AT_ONCE: Final = 4
_SETTINGS: Final = "BACKSTAY_"


class NotTold(Exception):
    """Why a sink was not told, in words that hold nothing of its address or its answer."""


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    async def tell(self, alert: Alert) -> None:
        """Returns once the sink has said that it knows. Raises NotTold."""

    async def close(self) -> None: ...


def sink_of(target: SinkTarget, *, outbound: Outbound, timeout: timedelta, clock: Clock) -> Sink:
    match target:
        case Webhook():
            return WebhookSink(target, outbound=outbound, timeout=timeout, clock=clock)
        case Command():
            return CommandSink(target, timeout=timeout)


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
        except (aiohttp.ClientError, OSError) as error:
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


class CommandSink:
    """Starts a program, without a shell, with the alert as JSON on its standard input.

    What it prints is thrown away; it has told whoever it tells when it ends with 0. It sees none of our
    settings, and when its time is over it is killed with all that it started.
    """

    def __init__(self, target: Command, *, timeout: timedelta) -> None:
        self._target = target
        self._timeout = timeout

    @property
    def name(self) -> str:
        return self._target.name

    async def tell(self, alert: Alert) -> None:
        try:
            process = await self._start(alert)
        except (OSError, ValueError) as error:
            raise NotTold(f"the command cannot be started: {type(error).__name__}") from None
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                await process.communicate(msgspec.json.encode(alert))
        except TimeoutError:
            raise NotTold(f"the command did not end within {describe(self._timeout)}") from None
        finally:
            await _end(process)
        if process.returncode != 0:
            raise NotTold(f"the command ended with {process.returncode}")

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _start(self, alert: Alert) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._target.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(os.environ, alert),
            start_new_session=True,
        )


def _environment(ours: Mapping[str, str], alert: Alert) -> dict[str, str]:
    theirs = {name: value for name, value in ours.items() if not name.startswith(_SETTINGS)}
    return {**theirs, KEY_VARIABLE: alert.key}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Whatever of it is left: a program that ended may have started others."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


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
    return f"the exchange broke off ({type(error).__name__})"
