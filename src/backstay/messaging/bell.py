"""Calls those in this process who wait for a message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from backstay.messaging.queue import Queues

# A safety net under the calls: what nobody called for, such as a lock that ran out, is looked for as well.
LOOK_EVERY_SECONDS: Final = 1.0


class Bell:
    """Everybody who waits on the queues of one store."""

    def __init__(self, queues: Queues) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._stop_listening = queues.listen(self._called)

    def close(self) -> None:
        self._stop_listening()

    @contextmanager
    def at(self, queue: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever there may be something to receive from ``queue``."""
        event = asyncio.Event()
        self._waiting.setdefault(queue, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[queue].discard(event)
            if not self._waiting[queue]:
                del self._waiting[queue]

    def _called(self, names: frozenset[str] | None) -> None:
        for name in self._waiting if names is None else names.intersection(self._waiting):
            for event in self._waiting[name]:
                event.set()


async def rung(event: asyncio.Event, *, within: float = LOOK_EVERY_SECONDS) -> None:
    """Come back once the event is set, or it is time to look anyway, or so many seconds have passed."""
    try:
        async with asyncio.timeout(min(within, LOOK_EVERY_SECONDS)):
            await event.wait()
    except TimeoutError:
        return
    finally:
        event.clear()
