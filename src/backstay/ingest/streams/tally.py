"""What became of the events of one partition, as far as that is not written yet.

Whatever is finished is noted here at once and written later, beside the flow: tasks to start, events to set
aside, and how far everything is finished. All that was noted goes into one advance, so that a checkpoint
never passes an event whose task, or whose place in quarantine, is not written with it or before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from backstay.clock import Clock
from backstay.domain.stream import EventRecord, Holding, NewQuarantined
from backstay.domain.watermark import Watermark
from backstay.observe import processed
from backstay.store.groups import Advance, Send, Start

#: What a sink makes of an event, to be written with its position.
Made = Start | Send


class Tally:
    """One partition in the hands of this process."""

    def __init__(self, holding: Holding, *, every: int, after: timedelta, clock: Clock) -> None:
        self.holding = holding
        self.mark = Watermark(holding.checkpoint or 0)
        self._name = holding.group.stream, holding.group.name
        #: The last advance was refused, since there is no room in quarantine, or in a queue.
        self.stalled = False
        #: Called when something was noted; when it is written; when the partition is another's.
        self.noted: Callable[[Tally], None] = lambda _: None
        self.written: Callable[[Advance], None] = lambda _: None
        self.lost: Callable[[], None] = lambda: None
        self._every = every
        self._after = after.total_seconds()
        self._clock = clock
        self._reached = holding.checkpoint or 0
        self._starts: list[Start] = []
        self._quarantined: list[NewQuarantined] = []
        self._settled: list[int] = []
        # How many events are finished since the last advance, and since when some are.
        self._finished = 0
        self._since = 0.0
        self._taken: Advance | None = None

    # What flows note

    def made(self, one: Made) -> None:
        assert isinstance(one, Start)
        self._starts.append(one)

    def set_aside(self, record: EventRecord, reason: str) -> None:
        self._quarantined.append(NewQuarantined(event=record, reason=reason))

    def settled(self, id: int, offset: int) -> None:  # noqa: ARG002  Where an order is kept, it matters.
        """An event that was resubmitted has been processed, one way or the other."""
        self._settled.append(id)
        self.noted(self)

    def finished(self, offset: int) -> None:
        """An event that was read is finished."""
        self.mark.finish(offset)
        self._count(1)

    def judged(self, events: int, made: Sequence[Made], *, to: int) -> None:
        """Everything up to ``to`` is finished; what is set aside was said before."""
        for one in made:
            self.made(one)
        self.mark.skip(to)
        self._count(events)

    def passed(self, events: int) -> None:
        """So many events that were read are other readers' to finish; the checkpoint moves past them too."""
        if events:
            self._count(events)

    def _count(self, events: int) -> None:
        if not self._finished:
            self._since = self._clock.monotonic()
        self._finished += events
        processed[self._name] += events
        self.noted(self)

    # What the checkpointer asks

    @property
    def reached(self) -> int:
        """How far it is written."""
        return self._reached

    @property
    def unwritten(self) -> int:
        """How many tasks and events are noted, or under way to the store."""
        under_way = 0 if self._taken is None else len(self._taken.starts) + len(self._taken.quarantined)
        return under_way + len(self._starts) + len(self._quarantined)

    @property
    def starts_unwritten(self) -> int:
        return len(self._starts) + (0 if self._taken is None else len(self._taken.starts))

    @property
    def is_open(self) -> bool:
        """Whether something is noted that is not written."""
        return self._taken is not None or self.due_in() is not None

    def due_in(self) -> float | None:
        """In how many seconds this is to be written; None while there is nothing."""
        if self._starts or self._quarantined or self._settled:
            return 0.0
        if self.mark.low <= self._reached or not self._finished:
            return None
        if self._finished >= self._every:
            return 0.0
        return max(0.0, self._since + self._after - self._clock.monotonic())

    def take(self) -> Advance | None:
        """All that is noted, to be written now; None if there is nothing."""
        assert self._taken is None
        to = self.mark.low if self.mark.low > self._reached else None
        if to is None and not (self._starts or self._quarantined or self._settled):
            return None
        self._taken = Advance(
            holding=self.holding,
            to=to,
            starts=self._starts,
            quarantined=self._quarantined,
            settled=self._settled,
        )
        self._starts, self._quarantined, self._settled, self._finished = [], [], [], 0
        return self._taken

    def done(self) -> None:
        """What was taken is written."""
        taken = self._given_back()
        self.stalled = False
        if taken.to is not None:
            self._reached = max(self._reached, taken.to)
        self.written(taken)

    def failed(self) -> None:
        """What was taken is not written, or nobody knows: it will be tried again, with what came since."""
        taken = self._given_back()
        self._starts[:0] = taken.starts
        self._quarantined[:0] = taken.quarantined
        self._settled[:0] = taken.settled
        self._finished = max(1, self._finished)

    def lessened(self) -> bool:
        """There was no room for all that failed. Whether less of it can be tried, at once."""
        return False

    def _given_back(self) -> Advance:
        taken, self._taken = self._taken, None
        assert taken is not None
        return taken
