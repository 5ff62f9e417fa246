"""Keeps the events of each key in order: one at a time, while those of other keys go on."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from backstay.domain.stream import EventRecord


class Held(NamedTuple):
    """An event in hand; ``again`` is its number in quarantine if it was resubmitted."""

    record: EventRecord
    again: int | None = None


class Lanes:
    """One lane for each key of which something is in hand. Events without a key have none."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Held]] = {}
        self._ready: deque[Held] = deque()

    @property
    def ready(self) -> int:
        """How many may begin now."""
        return len(self._ready)

    @property
    def waiting(self) -> int:
        """How many have not begun: those that may, and those that come after another of their key."""
        return len(self._ready) + sum(map(len, self._lanes.values()))

    def enter(self, held: Held) -> None:
        key = held.record.key
        if key is None:
            self._ready.append(held)
        elif key in self._lanes:
            self._lanes[key].append(held)
        else:
            self._lanes[key] = deque()
            self._ready.append(held)

    def begin(self) -> Held | None:
        """The next that may begin."""
        return self._ready.popleft() if self._ready else None

    def leave(self, held: Held) -> None:
        """It is finished: the next of its key may begin."""
        if held.record.key is not None:
            self._next_of(held.record.key)

    def drop_beyond(self, offset: int) -> None:
        """Forget what has not begun and lies beyond ``offset``, and what was to be tried once more."""
        for key, lane in self._lanes.items():
            self._lanes[key] = deque(one for one in lane if _stays(one, offset))
        dropped = [one for one in self._ready if not _stays(one, offset)]
        self._ready = deque(one for one in self._ready if _stays(one, offset))
        for one in dropped:
            self.leave(one)

    def _next_of(self, key: str) -> None:
        """The first of a lane is finished, or gone."""
        lane = self._lanes[key]
        if lane:
            self._ready.append(lane.popleft())
        else:
            del self._lanes[key]


def _stays(held: Held, offset: int) -> bool:
    return held.again is None and held.record.offset <= offset
