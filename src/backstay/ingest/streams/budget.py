"""How much of streams a process holds in memory, whatever the number of its pipelines and partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from backstay.domain.stream import EventRecord

BYTES_IN_HAND_MAX: Final = 64 * 1024 * 1024
# Of one read: the bodies, without the first if that is larger.
READ_BYTES: Final = 1024 * 1024
# Who holds nothing may always read so much: others may be stuck with what they hold.
LEAST_BYTES: Final = 64 * 1024
# What an event takes beside its body, and what is made of it.
EVENT_BYTES: Final = 512


class Budget:
    """The bytes of all events in hand. Who finds no room is called when there is some."""

    def __init__(self, bytes_max: int = BYTES_IN_HAND_MAX) -> None:
        self._bytes_max = bytes_max
        self._waiting: set[asyncio.Event] = set()
        self.held = 0

    @property
    def has_room(self) -> bool:
        return self.held < self._bytes_max

    def reserve(self) -> int:
        """How many bytes may be read now: held from now on, since others read at the same time."""
        reserved = max(LEAST_BYTES, min(READ_BYTES, self._bytes_max - self.held))
        self.held += reserved
        return reserved

    def call_when_free(self, wake: asyncio.Event) -> None:
        self._waiting.add(wake)

    def charge(self, events: Iterable[EventRecord]) -> int:
        """Take these into account; as how many bytes they count."""
        size = sum([cost(event) for event in events])
        self.held += size
        return size

    def release(self, size: int) -> None:
        self.held -= size
        if self._waiting and self.held < self._bytes_max:
            for wake in self._waiting:
                wake.set()
            self._waiting.clear()


def cost(event: EventRecord) -> int:
    return len(event.body) + EVENT_BYTES
