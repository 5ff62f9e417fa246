"""How an HttpAgent talks to its service: bounded connections, bounded answers, bounded time.

The only module that knows aiohttp.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import ssl
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Final

import aiohttp
from yarl import URL

from backstay.agents.http_answers import HttpAnswer, too_large
from backstay.agents.http_requests import HttpRequest
from backstay.domain.durations import describe
from backstay.domain.outbound import Outbound
from backstay.errors import HttpUnavailable
from backstay.outbound import guarded_connector, was_refused

# Of a refusal only the beginning is read, and its sender is not waited for.
REFUSAL_BYTES_MAX: Final = 16 * 1024
REFUSAL_SECONDS_MAX: Final = 0.5
WRITTEN_AT_ONCE_MAX: Final = 1024 * 1024


class Progress:
    """How far a request came. Until it is sent, it certainly has no effect."""

    sent = False


class HttpClient:
    """Sends requests to one service over a bounded number of connections that are kept open."""

    def __init__(
        self, *, connections: int, response_bytes_max: int, outbound: Outbound | None = None
    ) -> None:
        self._connections = connections
        self._response_bytes_max = response_bytes_max
        self._outbound = outbound
        # A session belongs to the event loop that it was made in.
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def send(
        self, request: HttpRequest, *, accepts: Callable[[int], bool], keep_open: bool
    ) -> HttpAnswer:
        """The service's answer: whole if ``accepts`` its status, else its beginning.

        Raises HttpUnavailable when there is none in time, and HttpFailed when it is too large. Without
        ``keep_open`` the connection is the request's own and ends with it.
        """
        if not request.time:
            raise HttpUnavailable(f"{request.shown} was not sent: no time remains", unsure=False)
        progress = Progress()
        try:
            async with asyncio.timeout(request.time.total_seconds()):
                return await self._exchange(request, progress, accepts=accepts, keep_open=keep_open)
        # Without their causes: aiohttp's errors may show the query of a URL, and headers.
        except TimeoutError:
            raise HttpUnavailable(self._timed_out(request, progress), unsure=progress.sent) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"{request.shown} got no answer: {_reason(error)}"
            raise HttpUnavailable(message, unsure=progress.sent) from None

    async def close(self) -> None:
        """Close the connections that the running event loop holds."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _exchange(
        self, request: HttpRequest, progress: Progress, *, accepts: Callable[[int], bool], keep_open: bool
    ) -> HttpAnswer:
        async with (
            self._session(keep_open=keep_open) as session,
            session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=_payload(request.body),
                allow_redirects=False,
                trace_request_ctx=progress,
            ) as response,
        ):
            read = self._whole if accepts(response.status) else _beginning_if_it_comes
            body = await read(response, request)
            return HttpAnswer(response.status, response.headers, body, request)

    async def _whole(self, response: aiohttp.ClientResponse, request: HttpRequest) -> bytes:
        body = await _beginning(response, self._response_bytes_max + 1)
        if len(body) > self._response_bytes_max:
            raise too_large(request, response.status, response_bytes_max=self._response_bytes_max)
        return body

    # Connections

    @contextlib.asynccontextmanager
    async def _session(self, *, keep_open: bool) -> AsyncIterator[aiohttp.ClientSession]:
        if keep_open:
            yield self._kept_session()
        else:
            async with self._new_session() as session:
                yield session

    def _kept_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            # What a loop left behind that is gone cannot be closed any more, only forgotten.
            self._sessions = {one: kept for one, kept in self._sessions.items() if not one.is_closed()}
            self._sessions[loop] = self._new_session()
        return self._sessions[loop]

    def _new_connector(self) -> aiohttp.TCPConnector:
        if self._outbound is None:
            return aiohttp.TCPConnector(limit=self._connections)
        return guarded_connector(self._outbound, limit=self._connections)

    def _new_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=self._new_connector(),
            # Tasks must not see one another's cookies.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # Every request has its own, which covers all of it.
            trace_configs=[_telling_when_sent()],
        )
        # aiohttp would send some requests again by itself; that is the agent's decision, and is counted.
        session._retry_connection = False  # noqa: SLF001  There is no other switch.
        return session

    def _timed_out(self, request: HttpRequest, progress: Progress) -> str:
        if progress.sent:
            return f"{request.shown} got no answer within {describe(request.time)}"
        return (
            f"{request.shown} was not sent: no connection within {describe(request.time)}"
            f" (the agent has {self._connections:,})"
        )


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    # A body of more than so much aiohttp would write in one go; it warns of that.
    return io.BytesIO(body) if body is not None and len(body) > WRITTEN_AT_ONCE_MAX else body


def _telling_when_sent() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def about_to_send(
        _session: aiohttp.ClientSession,
        context: SimpleNamespace,
        _headers: aiohttp.TraceRequestHeadersSentParams,
    ) -> None:
        context.trace_request_ctx.sent = True

    trace.on_request_headers_sent.append(about_to_send)
    return trace


async def _beginning(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The first bytes of the body as they are after decompression; the rest is not even decompressed."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) >= bytes_max:
            break
    return bytes(body[:bytes_max])


async def _beginning_if_it_comes(response: aiohttp.ClientResponse, _request: HttpRequest) -> bytes:
    """For people to read. The status is the verdict, whether or not the body ever comes."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(REFUSAL_SECONDS_MAX):
            return await _beginning(response, REFUSAL_BYTES_MAX)
    return b""


def _reason(error: Exception) -> str:
    """Why a connection failed, in words that hold nothing of the request or the answer."""
    if was_refused(error):
        return "its address is not public, and the agent's `outbound` does not allow it"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the name of the host {error.host} cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {error.host} is not accepted"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port}: {_of_system(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return "the service closed the connection"
        case aiohttp.ClientPayloadError():
            return "its body broke off or cannot be decoded"
        case aiohttp.ClientResponseError():
            return "what came is not HTTP"
        case OSError():
            return _of_system(error)
    return type(error).__name__


def _of_system(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):  # Its number is not one of the system's.
        return f"TLS failed ({error.reason})"
    return os.strerror(error.errno) if error.errno else type(error).__name__
