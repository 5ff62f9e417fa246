"""Processes the events of a partition side by side, those of one key one after the other.

For whatever has to be awaited. One slow event holds up its key alone: events are finished in any order, and
the checkpoint follows the low-water mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from backstay.domain.stream import EventRecord, Holding, Quarantined, Slice
from backstay.ingest.streams.allowance import Allowance, Share
from backstay.ingest.streams.budget import cost
from backstay.ingest.streams.flow import SLICE_MAX, Flow, written_bytes
from backstay.ingest.streams.lanes import Held, Lanes
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.slots import Slots
from backstay.ingest.streams.stages import FILTERED, Refused, Stages
from backstay.ingest.streams.tally import Tally
from backstay.store.groups import Advance

# So many that could begin are read ahead of those at work.
READ_AHEAD: Final = 1_000
# A worker that is never made to wait lets others in after so long.
TURN_SECONDS: Final = 0.01

#: What becomes of a value that the stages gave; raises Refused.
Sink = Callable[[Any, EventRecord], Awaitable[None]]


class LaneFlow(Flow):
    def __init__(
        self,
        holding: Holding,
        tally: Tally,
        lookout: Lookout,
        services: Services,
        *,
        stages: Stages,
        sink: Sink,
        slots: Slots,
        makes: bool = False,
        allowance: Allowance | None = None,
        readers: int = 1,
    ) -> None:
        super().__init__(holding, tally, lookout, services, readers=readers)
        self._stages = stages
        self._sink = sink
        self._slots = slots
        # Whether the sink makes something of events that is in hand until it is written.
        self._makes = makes
        self._share = None if allowance is None else Share(allowance)
        self._lanes = Lanes()
        self._workers: set[asyncio.Task[None]] = set()
        # Up to here something was begun.
        self._begun = -1
        self._resting = asyncio.Event()
        self._stopped = False
        # A mistake of our own: whatever an application raises is dealt with.
        self._failure: BaseException | None = None
        tally.written = self._written

    @property
    def in_flight(self) -> int:
        return len(self._workers)

    async def run(self) -> None:
        try:
            await super().run()
            await self._rest()
        finally:
            await self._stop()

    def read_no_more(self) -> None:
        """What lies beyond all that was begun is left to whoever reads this partition next."""
        self._lanes.drop_beyond(self._begun)
        super().read_no_more()

    async def _stop(self) -> None:
        """Drop everything in hand, at once."""
        self._stopped = True
        self._slots.leave_line(self._begin)
        self._lanes = Lanes()
        workers = [*self._workers]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self.let_go()
        self._resting.set()

    def let_go(self) -> None:
        super().let_go()
        if self._share is not None:
            self._share.keep(0)

    # Read

    async def _demand(self) -> int:
        if self._failure is not None:
            raise self._failure
        in_hand = max(self.tally.mark.in_hand, self.tally.unwritten)
        room = min(self._window - in_hand, READ_AHEAD - self._lanes.ready)
        if room < self._lot:
            return 0
        limit = min(room, SLICE_MAX)
        if self._share is None:
            return limit
        self._share.keep(self.tally.starts_unwritten + self.tally.mark.unfinished)
        return await self._allowed(self._share, limit)

    async def _take(self, found: Slice) -> None:
        mark = self.tally.mark
        for record in found.events:
            mark.read(record.offset)
            self._lanes.enter(Held(record))
        mark.skip(found.next)
        self._begin()

    async def _take_again(self, events: Sequence[Quarantined]) -> None:
        self._settling.update(one.id for one in events)
        self._charge([one.event for one in events])
        for one in events:
            self._lanes.enter(Held(one.event, one.id))
        self._begin()

    # Process

    def _begin(self) -> None:
        """Put what may begin to work, as far as slots are free."""
        while self._lanes.ready > 0:
            if not self._slots.take():
                self._slots.call_when_free(self._begin)
                return
            held = self._lanes.begin()
            assert held is not None
            worker = asyncio.create_task(self._work(held), name="backstay-event")
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._slots.give_back()
        if not worker.cancelled() and worker.exception() is not None:
            self._failure = worker.exception()
            self._wake.set()
        if not self._workers or self._failure is not None:
            self._resting.set()

    async def _work(self, held: Held | None) -> None:
        """Process an event, and then others for as long as nobody else stands in line."""
        monotonic = self._services.clock.monotonic
        turn_ends = monotonic() + TURN_SECONDS
        while held is not None:
            await self._process(held)
            if self._stopped:  # And what was processed has kept its cancellation to itself.
                return
            self._lanes.leave(held)
            if monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = monotonic() + TURN_SECONDS
            held = None if self._slots.wanted_beside(self._begin) else self._lanes.begin()
        if self._lanes.ready:
            self._slots.call_when_free(self._begin)

    async def _process(self, held: Held) -> None:
        record, again = held
        self._begun = max(self._begun, record.offset)
        is_left = self._makes
        try:
            value = await self._stages.judged(record)
            if value is not FILTERED:
                await self._sink(value, record)
            else:
                is_left = False
        except Refused as refused:
            self.tally.set_aside(record, str(refused))
        if not is_left:
            self._release(cost(record))
        if again is None:
            self.tally.finished(record.offset)
        else:
            self.tally.settled(again, record.offset)
        self._wake.set()

    async def _rest(self) -> None:
        while self._workers or self._lanes.ready:
            self._resting.clear()
            self._begin()
            await self._resting.wait()
            if self._failure is not None:
                raise self._failure

    # What was written

    def _written(self, advance: Advance) -> None:
        self._settling.difference_update(advance.settled)
        if self._share is not None:
            self._share.written(len(advance.starts))
        if self._makes:
            self._release(written_bytes(advance))
        self._wake.set()
