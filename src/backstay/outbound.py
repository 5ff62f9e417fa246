"""Connections to addresses that somebody else wrote down: each is checked at the moment it is opened.

A name is not checked but what it stands for, and by the socket that is then connected: nobody can answer the
check with one address and the connection with another.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Any

import aiohttp

from backstay.domain.outbound import Outbound


class AddressRefused(OSError):
    """The address is not public, and not allowed in the settings."""

    def __init__(self) -> None:
        # Without the address: a name that resolves to an inner one would tell its asker which.
        super().__init__(errno.EACCES, "the address is not public, and not allowed in the settings")


def guarded_connector(outbound: Outbound, *, limit: int) -> aiohttp.TCPConnector:
    """A pool of connections, each to an address that ``outbound`` allows. Others raise AddressRefused."""

    def opened(info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = info
        if not outbound.allows(str(address[0])):
            raise AddressRefused
        return socket.socket(family, kind, protocol)

    return aiohttp.TCPConnector(limit=limit, socket_factory=opened)


async def checked_address(outbound: Outbound, host: str, port: int) -> str:
    """The address to connect to instead of ``host``: for clients that open their connections themselves.

    The first of them that is allowed. Raises AddressRefused when none is, and OSError when there is none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        if outbound.allows(str(address[0])):
            return str(address[0])
    raise AddressRefused


class NamedTls(ssl.SSLContext):
    """TLS with a host by its name, when the connection was opened to an address in its stead."""

    host: str

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  As the library has it.
        server_hostname: str | bytes | None = None,  # noqa: ARG002  The client's, which is the address.
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(
            incoming, outgoing, server_side=server_side, server_hostname=self.host, session=session
        )


def tls_with(host: str) -> ssl.SSLContext:
    """For one connection: the certificate must be that of ``host``, wherever the connection leads."""
    context = NamedTls(ssl.PROTOCOL_TLS_CLIENT)
    context.host = host
    context.load_default_certs()
    return context


def was_refused(error: Exception) -> bool:
    """Whether it was the guard that stopped the connection."""
    return isinstance(error, AddressRefused) or isinstance(getattr(error, "os_error", None), AddressRefused)
