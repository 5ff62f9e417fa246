"""Sends the requests of jobs: bounded connections, bounded time, and no more of an answer than is kept.

The only module of this role that knows aiohttp.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import aiohttp
from yarl import URL

from backstay.domain.jobs.messages import (
    ADDRESS_REFUSED,
    EXCERPT_LENGTH_MAX,
    http_answered,
    http_failed,
    token_failed,
)
from backstay.domain.outbound import Outbound
from backstay.jobs.http_request import HttpRequest, NotSent, bearing, host_of, redirected
from backstay.jobs.oauth import ANSWER_BYTES_MAX, Grant, Tokens
from backstay.jobs.tried import Tried
from backstay.outbound import AddressRefused, guarded_connector, was_refused

# A character has at most four bytes.
EXCERPT_BYTES_MAX: Final = 4 * EXCERPT_LENGTH_MAX
# The status is the verdict; for a body that does not come nobody waits long.
EXCERPT_SECONDS_MAX: Final = 5.0

_SUCCESS: Final = range(200, 300)
#: What an exchange may raise. A host that no name server could be asked for is a ValueError.
_BROKEN: Final = (aiohttp.ClientError, OSError, ValueError)
#: A charset is a name that the receiver chose, and some of Python's are no charsets at all.
_CHARSETS: Final = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "iso-8859-15", "windows-1252", "utf-16"}
)


class HttpAction:
    """One for a process: all jobs share its connections."""

    def __init__(
        self,
        *,
        timeout: timedelta,
        connections: int,
        outbound: Outbound,
        proxy: str = "",
        authority: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = timeout.total_seconds()
        self._connections = connections
        self._outbound = outbound
        self._proxy = proxy or None
        self._session: aiohttp.ClientSession | None = None
        self._authority = host_of(authority)
        self._tokens = Tokens(authority, self._ask, monotonic=monotonic)

    async def send(self, request: HttpRequest, grant: Grant | None = None) -> Tried:
        """What became of it. A token is asked for and redirects are followed, within the same time."""
        try:
            async with asyncio.timeout(self._seconds):
                if grant is None:
                    return (await self._followed(request))[1]
                token = await self._token(grant)
                status, tried = await self._followed(bearing(request, token))
                if status == HTTPStatus.UNAUTHORIZED:
                    self._tokens.forget(grant, token)
                return tried
        except NotSent as error:
            return Tried(succeeded=False, message=error.message)
        except TimeoutError:
            message = http_failed(request.host, "Timeout", "The operation has timed out")
            return Tried(succeeded=False, message=message)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _followed(self, request: HttpRequest) -> tuple[int, Tried]:
        while True:
            try:
                answer = await self._exchange(request)
            except (NotSent, *_BROKEN) as error:
                # It may say where a receiver wanted us to go.
                raise NotSent(request.without_secrets(_said(error, request.host))) from None
            if not isinstance(answer, HttpRequest):
                return answer
            request = answer

    async def _exchange(self, request: HttpRequest) -> tuple[int, Tried] | HttpRequest:
        """The end of it, by its status, or the request that follows."""
        url = URL(request.url, encoded=request.url.isascii())
        if self._proxy is not None and not self._outbound.may_name(url.host or ""):
            raise AddressRefused
        async with self._open_session().request(
            request.method,
            url,
            headers=request.headers,
            # As a stream: aiohttp would otherwise say what kind of text it is, which nobody told us.
            data=None if request.body is None else io.BytesIO(request.body),
            skip_auto_headers=("Content-Type",),
            allow_redirects=False,
            proxy=self._proxy,
            ssl=True if request.identity is None else request.identity,
        ) as response:
            following = redirected(request, response.status, response.headers.get("Location"))
            if following is not None:
                return following
            body, is_whole = await _excerpt(response)
            # First hidden, then cut: half a secret is one too.
            headers = [(name, request.without_secrets(value)) for name, value in response.headers.items()]
            told = request.without_secrets(body, is_whole=is_whole)
            message = http_answered(request.host, response.status, headers, told)
            return response.status, Tried(succeeded=response.status in _SUCCESS, message=message)

    async def _token(self, grant: Grant) -> str:
        try:
            # The request itself is to have time left.
            async with asyncio.timeout(self._seconds / 2):
                return await self._tokens.token(grant)
        except TimeoutError:
            reason = "Timeout The operation has timed out"
        except _BROKEN as error:
            reason = " ".join(_reason(error, self._authority))
        raise NotSent(token_failed(self._authority, reason))

    async def _ask(self, url: str, form: bytes) -> tuple[int, bytes]:
        """What an authority says to a form; a redirect is an answer as any other."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        async with self._open_session().post(
            URL(url, encoded=True), headers=headers, data=form, allow_redirects=False, proxy=self._proxy
        ) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    return response.status, b""
            return response.status, bytes(body)

    def _connector(self) -> aiohttp.TCPConnector:
        if self._proxy is None:
            return guarded_connector(self._outbound, limit=self._connections)
        # All of them go to the proxy, whose address is the operator's choice.
        return aiohttp.TCPConnector(limit=self._connections)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # An attempt has its own, which covers all of it.
            )
            # aiohttp would send some requests again by itself; an attempt is one request.
            self._session._retry_connection = False  # noqa: SLF001  There is no other switch.
        return self._session


async def _excerpt(response: aiohttp.ClientResponse) -> tuple[str, bool]:
    """The beginning of the body, as far as it comes, and whether that is all of it.

    The rest is neither read nor waited for.
    """
    body, is_whole = bytearray(), False
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(EXCERPT_SECONDS_MAX):
            async for piece in response.content.iter_any():
                body += piece[: EXCERPT_BYTES_MAX - len(body)]
                if len(body) >= EXCERPT_BYTES_MAX:
                    break
            else:
                is_whole = True
    charset = (response.charset or "").lower()
    return body.decode(charset if charset in _CHARSETS else "utf-8", "replace"), is_whole


def _said(error: Exception, host: str) -> str:
    return error.message if isinstance(error, NotSent) else http_failed(host, *_reason(error, host))


def _reason(error: Exception, host: str) -> tuple[str, str]:
    """In .NET's words, which hold nothing of the request or the answer."""
    if was_refused(error):
        return "ConnectFailure", ADDRESS_REFUSED
    if isinstance(error, TimeoutError):
        return "Timeout", "The operation has timed out"
    closed = "The underlying connection was closed:"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "NameResolutionFailure", f"The remote name could not be resolved: '{host}'"
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            return "TrustFailure", (
                f"{closed} Could not establish trust relationship for the SSL/TLS secure channel."
            )
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return (
                "SecureChannelFailure",
                "The request was aborted: Could not create SSL/TLS secure channel.",
            )
        case aiohttp.ClientConnectorError():
            return "ConnectFailure", "Unable to connect to the remote server"
        case aiohttp.ServerDisconnectedError():
            return "ConnectionClosed", f"{closed} The connection was closed unexpectedly."
        case aiohttp.ClientResponseError():
            return "ServerProtocolViolation", "The server committed a protocol violation."
        case ValueError():
            return "UnknownError", "The address cannot be read"
    return "ReceiveFailure", f"{closed} An unexpected error occurred on a receive."
