"""Which ports everybody listens on."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random
from typing import Final

HOST: Final = "127.0.0.1"
#: Below where the system takes the ports of outgoing connections from: one of those could be in the way when
#: a process that was killed comes back to its own.
LOWEST: Final = 20_000
HIGHEST: Final = 30_000
PORT_MAX: Final = 65_535


class PortsTaken(Exception):
    """There is no room for a listener; ``str()`` says where, and what to do."""


def choose(port: int, count: int, chance: Random) -> list[int]:
    """``port`` itself, and ``count`` free ports near it; 0 stands for any. Raises PortsTaken."""
    first = port or next(_free(chance.sample(range(LOWEST, HIGHEST), 100)), 0)
    if not is_free(first):
        raise PortsTaken(f"port {port} is in use; choose another with --port, or 0 for any that is free")
    others = list(islice(_free(range(first + 1, PORT_MAX + 1)), count))
    if len(others) < count:
        raise PortsTaken(f"there are no {count} free ports above {first}; choose a lower one with --port")
    return [first, *others]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do it: a port that a closed connection still rests on is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free(ports: Iterable[int]) -> Iterator[int]:
    return (port for port in ports if is_free(port))
