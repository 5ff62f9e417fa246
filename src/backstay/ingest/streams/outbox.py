"""What became of the events of a partition of which messages are made.

Their position is what keeps messages from being sent twice. So an advance holds everything below an offset,
and nothing beyond: no message leaves before all events ahead of its own are finished, and they leave in the
order of the stream. When a queue has room for some of them only, those leave that come first.
"""

from __future__ import annotations

import heapq
import itertools
from datetime import timedelta

from backstay.clock import Clock
from backstay.domain.stream import EventRecord, Holding, NewQuarantined
from backstay.ingest.streams.tally import Made, Tally
from backstay.store.groups import Advance, Send

#: A message, an event that is set aside, or the id of one that leaves the quarantine.
Entry = Made | NewQuarantined | int
_Placed = tuple[int, int, Entry]


class Outbox(Tally):
    """One partition in the hands of this process."""

    def __init__(self, holding: Holding, *, every: int, after: timedelta, clock: Clock) -> None:
        super().__init__(holding, every=every, after=after, clock=clock)
        # By the offsets of their events; those of one offset leave together, and in the order they came.
        self._entries: list[_Placed] = []
        self._order = itertools.count()
        self._under_way: list[_Placed] = []
        # How many leave at once, while there is little room; None: all there are.
        self._at_most: int | None = None

    # What flows note

    def made(self, one: Made) -> None:
        self._enter(one.event.offset, one)

    def set_aside(self, record: EventRecord, reason: str) -> None:
        self._enter(record.offset, NewQuarantined(event=record, reason=reason))

    def settled(self, id: int, offset: int) -> None:
        self._enter(offset, id)
        self.noted(self)

    def _enter(self, offset: int, entry: Entry) -> None:
        heapq.heappush(self._entries, (offset, next(self._order), entry))

    # What the checkpointer asks

    @property
    def unwritten(self) -> int:
        return len(self._under_way) + len(self._entries)

    def due_in(self) -> float | None:
        return 0.0 if self._entries and self._entries[0][0] < self.mark.low else super().due_in()

    def take(self) -> Advance | None:
        assert self._taken is None
        self._under_way = self._next()
        reached = min(self.mark.low, self._entries[0][0]) if self._entries else self.mark.low
        to = reached if reached > self.reached else None
        if to is None and not self._under_way:
            return None
        entries = [entry for _, _, entry in self._under_way]
        self._taken = Advance(
            holding=self.holding,
            to=to,
            messages=[one for one in entries if isinstance(one, Send)],
            quarantined=[one for one in entries if isinstance(one, NewQuarantined)],
            settled=[one for one in entries if isinstance(one, int)],
        )
        self._finished = 0
        return self._taken

    def _next(self) -> list[_Placed]:
        """What leaves now."""
        found: list[_Placed] = []
        while self._entries and self._entries[0][0] < self.mark.low:
            is_enough = self._at_most is not None and len(found) >= self._at_most
            if is_enough and self._entries[0][0] != found[-1][0]:
                break
            found.append(heapq.heappop(self._entries))
        return found

    def done(self) -> None:
        if self._at_most is not None:
            # As soon as all there is has left, nothing is held back any more.
            self._at_most = 2 * self._at_most if self.due_in() == 0.0 else None
        self._under_way = []
        super().done()

    def failed(self) -> None:
        for placed in self._under_way:
            heapq.heappush(self._entries, placed)
        self._under_way = []
        super().failed()

    def lessened(self) -> bool:
        number = len(self._entries) if self._at_most is None else min(self._at_most, len(self._entries))
        self._at_most = max(1, number // 2)
        return number > 1
