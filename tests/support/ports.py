"""Ports for processes that a test starts, kills and starts again."""

from __future__ import annotations

import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
#: Below those that systems give to outgoing connections: one of these could be in the way of who comes back.
PORTS: Final = range(20_000, 30_000)
_TRIES: Final = 100


def free_ports(count: int) -> list[int]:
    """Neighbours at which nobody listens."""
    for _ in range(_TRIES):
        base = random.randrange(PORTS.start, PORTS.stop - count)
        ports = list(range(base, base + count))
        if all(_is_free(port) for port in ports):
            return ports
    raise AssertionError(f"no {count} free ports in {PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
