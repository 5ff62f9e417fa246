"""Connections to addresses that somebody else wrote down: each is checked at the moment it is opened.

A name is not checked but what it stands for, and by the socket that is then connected: nobody can answer the
check with one address and the connection with another.
"""

from __future__ import annotations

import errno
import socket
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


def was_refused(error: Exception) -> bool:
    """Whether it was the guard that stopped the connection."""
    return isinstance(error, AddressRefused) or isinstance(getattr(error, "os_error", None), AddressRefused)
