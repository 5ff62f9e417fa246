"""How much may wait to be written. On the event loop only."""

from __future__ import annotations

import asyncio


class Room:
    """Counts what was handed in and is not written yet. Who comes when there is too much waits in line.

    What comes while there is room is taken as a whole, so that nothing is too large ever to come in.
    """

    def __init__(self, *, events_max: int, bytes_max: int) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._events = 0
        self._bytes = 0
        self._line = asyncio.Lock()
        self._emptier = asyncio.Event()

    def is_there(self) -> bool:
        return self._events < self._events_max and self._bytes < self._bytes_max and not self._line.locked()

    async def wait(self) -> None:
        """Come back when it is one's turn and there is room: take it before anything else is awaited."""
        async with self._line:
            while self._events >= self._events_max or self._bytes >= self._bytes_max:
                self._emptier.clear()
                await self._emptier.wait()

    def take(self, events: int, size: int) -> None:
        self._events += events
        self._bytes += size

    def give_back(self, *, events: int, size: int) -> None:
        self._events -= events
        self._bytes -= size
        self._emptier.set()
