"""Knows how far the partitions of one stream reach, and calls those who wait for more.

One look serves everybody who waits, and while nobody does there is none.
"""

from __future__ import annotations

import asyncio
from typing import Final

from backstay.errors import BackstayError
from backstay.messaging.bell import rung
from backstay.messaging.streams import Streams
from backstay.observe import STORE_UNAVAILABLE, emit

# Between two looks: a stream may be appended to thousands of times a second.
PAUSE_SECONDS: Final = 0.005
RETRY_SECONDS: Final = 0.5


class Lookout:
    def __init__(self, streams: Streams, stream: str) -> None:
        self._streams = streams
        self._stream = stream
        self._ends: dict[int, int] = {}
        # Who waits, for what to come in which partition: an end beyond this offset.
        self._waiting: dict[asyncio.Event, tuple[int, int]] = {}
        self._called: asyncio.Event | None = None

    def reaches_beyond(self, partition: int, offset: int) -> bool:
        """Whether there is more from ``offset`` on, as far as is known."""
        return self._ends.get(partition, 0) > offset

    def call_when_more(self, partition: int, offset: int, wake: asyncio.Event) -> None:
        """Set ``wake`` once there is something from ``offset`` on."""
        self._waiting[wake] = (partition, offset)
        if self._called is not None:
            self._called.set()

    def forget(self, wake: asyncio.Event) -> None:
        self._waiting.pop(wake, None)

    async def run(self) -> None:
        """Look whenever something was appended, or somebody begins to wait."""
        with self._streams.bell.at(self._stream) as called:
            self._called = called
            while True:
                await rung(called)
                try:
                    await self.run_once()
                except BackstayError as error:
                    emit(STORE_UNAVAILABLE, error=error)
                    await asyncio.sleep(RETRY_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)

    async def run_once(self) -> None:
        """Look, if anybody waits, and call those for whom something came."""
        if not self._waiting:
            return
        for standing in await self._streams.standings(names=[self._stream], limit=1):
            self._ends = {one.partition: one.end for one in standing.partitions}
        for wake, (partition, offset) in [*self._waiting.items()]:
            if self.reaches_beyond(partition, offset):
                del self._waiting[wake]
                wake.set()
