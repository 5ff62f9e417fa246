"""One partition in the hands of this process: read on demand, and everything in hand finished or dropped.

lane_flow    one event per key at a time, many keys at once: for what has to be awaited
slice_flow   slice by slice in one loop: for plain stages that end in a task or a message
batch_flow   batch by batch, to a handler that says itself how far it has got
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Final

from backstay.domain.alert import AlertKind, of_group
from backstay.domain.stream import EventRecord, Holding, Quarantined, Slice, slot_of
from backstay.errors import BackstayError, LeaseLost, OffsetAhead
from backstay.ingest.streams.allowance import Share
from backstay.ingest.streams.budget import cost
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.tally import Tally
from backstay.ingest.waiting import within
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.store.groups import Advance

# Of one read.
SLICE_MAX: Final = 500
# Less than this many, or than this part of the window, are not read: a read costs more than an event.
LOT: Final = 100
LOT_OF_WINDOW: Final = 4
# A log that is away is asked again after this pause.
RETRY_SECONDS: Final = 0.5
# How often who waits for room, or for events, shows that it is at work.
PULSE_SECONDS: Final = 1.0


class Flow(ABC):
    """Reads one partition as far as there is demand; ``_take`` makes something of what was read."""

    def __init__(
        self, holding: Holding, tally: Tally, lookout: Lookout, services: Services, *, readers: int = 1
    ) -> None:
        self.holding = holding
        self._readers = readers
        self.tally = tally
        self.pulse = Pulse(services.clock)
        self._services = services
        self._lookout = lookout
        self._streams = services.streams
        self._budget = services.budget
        self._window = services.settings.window
        self._lot = max(1, min(LOT, self._window // LOT_OF_WINDOW))
        self._slice_max = SLICE_MAX
        # Something changed: there may be room, or something to read.
        self._wake = asyncio.Event()
        self._draining = False
        #: The partition is another's by now.
        self.lost = False
        self._looked = False
        # What a person wants processed again; and what of that was taken up and is not written yet.
        self._again: deque[Quarantined] = deque()
        self._settling: set[int] = set()
        self._bytes = 0

    # Run

    async def run(self) -> None:
        """Read and process, until cancelled or drained."""
        try:
            while not self._draining and not self.lost:
                self._wake.clear()
                self.pulse.felt()
                await self._turn()
        finally:
            self.let_go()

    async def run_once(self) -> int:
        """Read once and process what came to its end; how many that were."""
        again = [self._again.popleft() for _ in range(len(self._again))]
        await self._take_again(again)
        taken = await self._read_on(min(self._slice_max, self._window))
        await self._rest()
        return len(again) + taken

    def read_no_more(self) -> None:
        self._draining = True
        self._wake.set()

    async def drain(self) -> None:
        """Read nothing more, and come back when what was begun is finished."""
        self.read_no_more()
        await self._rest()

    def let_go(self) -> None:
        """Nothing is in hand any more."""
        self._lookout.forget(self._wake)
        self._release(self._bytes)

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """How many events are at work."""

    def silent_seconds(self) -> float:
        """For how long it has not shown that it is at work."""
        return self.pulse.silent_seconds()

    def try_again(self, events: Sequence[Quarantined]) -> None:
        """A person wants these processed once more."""
        known = self._settling.union(one.id for one in self._again)
        self._again.extend(one for one in events if one.id not in known)
        self._wake.set()

    # What each kind does

    @abstractmethod
    async def _demand(self) -> int:
        """How many events may be read now."""

    @abstractmethod
    async def _take(self, found: Slice) -> None:
        """Make something of what was read."""

    @abstractmethod
    async def _take_again(self, events: Sequence[Quarantined]) -> None:
        """The same with what was in quarantine."""

    @abstractmethod
    async def _rest(self) -> None:
        """Come back when everything that was begun is finished."""

    # Reading

    async def _turn(self) -> None:
        try:
            await self._step()
        except LeaseLost:
            self.lost = True
        except OffsetAhead as error:
            await self._stop_reading(error)
        except BackstayError as error:
            # The log is away, or somebody has yet to declare the stream.
            emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _step(self) -> None:
        """Take what there is, as far as there is demand; or wait for either."""
        if self._again:
            await self._take_again([self._again.popleft() for _ in range(len(self._again))])
        if not self._is_more() or not self._has_room() or (limit := await self._demand()) <= 0:
            await within(PULSE_SECONDS, self._wake)
            return
        await self._read_on(limit)

    @property
    def _position(self) -> int:
        """Where reading goes on."""
        return self.tally.mark.next

    def _is_more(self) -> bool:
        """Whether there is anything to read. The first time only the log can tell: it may be another one."""
        partition, position = self.holding.partition, self._position
        if not self._looked or self._lookout.reaches_beyond(partition, position):
            return True
        self._lookout.call_when_more(partition, position, self._wake)
        return False

    def _has_room(self) -> bool:
        if self.tally.stalled:
            return False
        if self._budget.has_room or not self._bytes:
            return True
        self._budget.call_when_free(self._wake)
        return False

    async def _read_on(self, limit: int) -> int:
        """Take the next events; how many there were, other readers' among them."""
        found = await self._read(limit)
        if self._draining:
            return 0  # It is left to whoever reads this partition next.
        mine = self._mine(found)
        await self._take(mine)
        self.tally.passed(len(found.events) - len(mine.events))
        return len(found.events)

    def _mine(self, found: Slice) -> Slice:
        """What of it this one of several readers processes: each event is one's."""
        if self._readers == 1:
            return found
        slot, readers = self.holding.slot, self._readers
        mine = [one for one in found.events if slot_of(one, readers) == slot]
        self._release(sum([cost(one) for one in found.events]) - sum([cost(one) for one in mine]))
        return Slice(mine, found.next)

    async def _read(self, limit: int) -> Slice:
        """The next events, all of them in hand from now on. Raises OffsetAhead, Unavailable."""
        reserved = self._budget.reserve()
        try:
            found = await self._streams.read(
                self.holding.group.stream,
                self.holding.partition,
                start=self._position,
                limit=limit,
                bytes_max=reserved,
            )
            self._looked = True
            self._charge(found.events)
        finally:
            self._budget.release(reserved)
        return found

    async def _stop_reading(self, error: OffsetAhead) -> None:
        """The log is not the one that was read before. What came into it is not what would be next here."""
        group = self.holding.group
        message = f"partition {self.holding.partition}: {error}"
        self._services.calls.call(of_group(AlertKind.OFFSET_AHEAD, group.stream, group.name, message=message))
        while not self._draining:
            self.pulse.felt()
            await within(PULSE_SECONDS, self._wake)
            self._wake.clear()

    async def _allowed(self, share: Share, wanted: int) -> int:
        """How many tasks may be started now; waits until some may."""
        while not (granted := await share.take(wanted)) and not self._draining:
            self.pulse.felt()
        return granted

    def _lost_error(self) -> LeaseLost:
        return LeaseLost(self.holding.label, self._services.owner.id)

    # Memory

    def _charge(self, events: Sequence[EventRecord]) -> None:
        self._bytes += self._budget.charge(events)

    def _release(self, size: int) -> None:
        released = min(size, self._bytes)
        self._bytes -= released
        self._budget.release(released)


def written_bytes(advance: Advance) -> int:
    """What was held for the events of an advance."""
    started = sum([cost(one.event) for one in advance.starts])
    sent = sum([cost(one.event) for one in advance.messages])
    return started + sent + sum([cost(one.event) for one in advance.quarantined])
