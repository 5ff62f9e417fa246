"""Calls those in this process who wait for a message, or an event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: Called with the names of queues, or streams, in which there may be something new; None: in any of them.
Caller = Callable[[frozenset[str] | None], None]

# A safety net under the calls: what nobody called for, such as a lock that ran out, is looked for as well.
LOOK_EVERY_SECONDS: Final = 1.0


class Bell:
    """Everybody who waits on the queues of one store, or the streams of one log."""

    def __init__(self, listen: Callable[[Caller], Callable[[], None]]) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._stop_listening = listen(self._called)

    def close(self) -> None:
        self._stop_listening()

    @contextmanager
    def at(self, name: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever there may be something new in the queue or stream of this name."""
        event = asyncio.Event()
        self._waiting.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]

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
