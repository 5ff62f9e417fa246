"""``python sink.py PORT``: an HTTP server that answers 200 to everything and notes when it came.

``GET /arrivals`` gives the notes, in seconds since 1970. Uses the standard library only, and
is run as a file: peers run it, too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 4_096
_START_SECONDS: Final = 30.0
_END: Final = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Requests without a body, one after the other."""

    arrivals: Final[list[float]] = []

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._data = (self._data + data).split(_END)
        for head in heads:
            if head.startswith(b"GET /arrivals "):
                self._answer(json.dumps(self.arrivals).encode())
            else:
                self.arrivals.append(time.time())
                self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, HOST, port, backlog=_BACKLOG)
    await server.serve_forever()


@contextmanager
def sinking(port: int) -> Iterator[str]:
    """One in a process of its own, until the context is left; its address."""
    address = f"http://{HOST}:{port}"
    with subprocess.Popen([sys.executable, "-P", __file__, str(port)]) as process:
        try:
            _wait_for(address)
            yield address
        finally:
            process.kill()


def arrivals(address: str) -> list[float]:
    """When each request came, in their order."""
    with urllib.request.urlopen(f"{address}/arrivals", timeout=_START_SECONDS) as answer:
        found: list[float] = json.load(answer)
    return found


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            arrivals(address)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
