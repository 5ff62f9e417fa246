"""Bytes as a client sends them, and all that comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from tests.support.serving import HOST, Served

#: Who has answered nothing for so long, and works on nothing, waits for more.
QUIET_SECONDS = 0.5


class Heard(NamedTuple):
    """What a server said, and whether it was cut off."""

    text: bytes
    cut_off: bool

    def agrees_with(self, other: Heard) -> bool:
        """What is under way when a connection is cut off may be lost."""
        if self.cut_off or other.cut_off:
            return self.text.startswith(other.text) or other.text.startswith(self.text)
        return self.text == other.text


async def heard(server: Served, pieces: Iterable[bytes]) -> Heard:
    """Send pieces, each in a packet of its own, and hear all answers, however long a commit takes."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    listening = asyncio.create_task(_listened(reader, server))
    try:
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                writer.write(piece)
                await writer.drain()
            # A moment in which the server, on the same event loop, reads it.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return await listening
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _listened(reader: asyncio.StreamReader, server: Served) -> Heard:
    text = b""
    while True:
        was_at_work = server.places.taken > 0
        try:
            part = await asyncio.wait_for(reader.read(65536), QUIET_SECONDS)
        except TimeoutError:
            if was_at_work or server.places.taken > 0:
                continue
            return Heard(text, cut_off=False)
        except ConnectionError:
            return Heard(text, cut_off=True)
        if not part:
            return Heard(text, cut_off=False)
        text += part
