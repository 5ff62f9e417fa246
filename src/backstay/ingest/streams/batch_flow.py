"""Hands the events of a partition to a handler, batch by batch; it says itself how far it has got.

What the handler raises brings the same batch again, without what it has said to be finished. When its tries
are used up a batch is taken apart, and the one event that keeps failing is set aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from backstay.definitions.batches import BatchDefinition
from backstay.domain.stream import Event, EventRecord, Holding, Quarantined, Slice
from backstay.errors import InvalidRequest, Permanent, Transient, Unavailable
from backstay.ingest.streams.flow import PULSE_SECONDS, RETRY_SECONDS, Flow
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.stages import Refused, event_of, is_cancelled, refusal
from backstay.ingest.streams.tally import Tally
from backstay.ingest.waiting import within
from backstay.observe import STORE_UNAVAILABLE, emit, log

#: Nothing in the same batch can help these.
_HOPELESS: Final = (Permanent, Refused)


class BatchFlow(Flow):
    def __init__(
        self,
        holding: Holding,
        tally: Tally,
        lookout: Lookout,
        services: Services,
        *,
        declared: BatchDefinition,
    ) -> None:
        super().__init__(holding, tally, lookout, services)
        self._declared = declared
        self._next = holding.checkpoint or 0
        self._gathered: list[EventRecord] = []
        # When a batch is handed over although it is not full.
        self._full_at = float("inf")
        self._handling = 0
        # Everything below was handed over and is behind us, whether the handler called it finished or not.
        self._handled_to = self._next
        self._slice_max = declared.max_events
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def in_flight(self) -> int:
        return self._handling

    def silent_seconds(self) -> float:
        return 0.0 if self._handling else super().silent_seconds()

    @property
    def _position(self) -> int:
        return self._next

    # Gather

    async def _step(self) -> None:
        if self._again:
            await self._take_again([self._again.popleft() for _ in range(len(self._again))])
        if (limit := await self._demand()) > 0 and self._is_more() and self._has_room():
            self._gather(await self._read(limit))
            limit = 0
        if self._draining:
            return  # What is not handed over is left to whoever reads this partition next.
        left = self._full_at - self._services.clock.monotonic()
        if len(self._gathered) >= self._declared.max_events or left <= 0:
            await self._hand_over()
        elif limit:  # There was nothing to read, or no room for it.
            await within(min(PULSE_SECONDS, left), self._wake)

    async def _demand(self) -> int:
        return self._declared.max_events - len(self._gathered)

    def _gather(self, found: Slice) -> None:
        if found.events and not self._gathered:
            waits = self._declared.max_wait.total_seconds()
            self._full_at = self._services.clock.monotonic() + waits
        self._gathered += found.events
        self._next = found.next

    async def _take(self, found: Slice) -> None:
        self._gather(found)
        if self._gathered:
            await self._hand_over()

    async def _hand_over(self) -> None:
        batch, self._gathered, self._full_at = self._gathered, [], float("inf")
        size = self._bytes
        self._idle.clear()
        try:
            await self._deliver(batch)
        finally:
            self._idle.set()
            self._release(size)

    async def _rest(self) -> None:
        await self._idle.wait()

    # Hand over

    async def _deliver(self, batch: Sequence[EventRecord]) -> None:
        """Hand a batch over until it is behind us, one way or the other."""
        tries = 0
        while batch:
            failure = await self._handle(batch)
            if failure is None:
                self._handled_to = batch[-1].offset + 1
                return
            left = [one for one in batch if one.offset >= self.tally.mark.low]
            tries = 1 if len(left) < len(batch) else tries + 1
            batch = left
            if self._draining:
                return  # Whoever reads this partition next gets it again.
            delay = self._delay(tries, failure)
            if delay is None:
                await self._give_up(batch, failure)
                return
            await asyncio.sleep(delay)

    async def _give_up(self, batch: Sequence[EventRecord], failure: Exception) -> None:
        """Take a batch apart, of which one may be good and the other not; set aside what is one event."""
        for one in batch:
            if len(batch) == 1:
                await self._set_aside(one, failure)
            elif not self._draining:
                await self._deliver([one])

    async def _handle(self, batch: Sequence[EventRecord], *, again: bool = False) -> Exception | None:
        """Call the handler once; what it raised. Raises LeaseLost when the partition is another's."""
        self._handling = len(batch)
        try:
            events = [event_of(record) for record in batch]
            await self._declared.handler(events, Said(self, [] if again else batch))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return RuntimeError("the handler was cancelled, by itself")
        except Exception as error:
            if self.lost:
                raise
            log.info("a batch of %s failed", self._declared.label, exc_info=error)
            return error
        finally:
            self._handling = 0
            self.pulse.felt()
        return None

    def _delay(self, tries: int, failure: Exception) -> float | None:
        """How long to wait before the next try; None when there is none."""
        if isinstance(failure, _HOPELESS):
            return None
        retry_after = failure.retry_after if isinstance(failure, Transient) else None
        delay = self._declared.retry.delay_after(tries, self._services.random.random, retry_after=retry_after)
        return None if delay is None else delay.total_seconds()

    async def _set_aside(self, record: EventRecord, failure: Exception) -> None:
        """The checkpoint passes it, unless the handler has yet to call finished what came before."""
        unsaid = self._handled_to > self.tally.mark.low
        self.tally.set_aside(record, str(refusal("batch", failure)))
        self._handled_to = record.offset + 1
        await self.say(0 if unsaid else self._handled_to)

    async def say(self, to: int) -> None:
        """Everything below ``to`` is finished. Raises LeaseLost when the partition is another's."""
        self.tally.judged(max(1, to - self.tally.mark.low), [], to=to)
        await self._write()

    async def _write(self) -> None:
        """Come back when all of it is written, however long the store is away or the quarantine full."""
        while self.tally.is_open:
            self.pulse.felt()
            try:
                await self._services.checkpointer.write([self.tally])
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(RETRY_SECONDS)
            if self.lost:
                raise self._lost_error()
            if self.tally.stalled:
                await asyncio.sleep(RETRY_SECONDS)

    # What was in quarantine

    async def _take_again(self, events: Sequence[Quarantined]) -> None:
        """Each by itself; while draining they stay in quarantine, for whoever reads this partition next."""
        self._idle.clear()
        try:
            for one in events:
                if not self._draining:
                    self._settling.add(one.id)
                    await self._deliver_again(one)
                    await self._write()
                    self._settling.discard(one.id)
        finally:
            self._idle.set()

    async def _deliver_again(self, one: Quarantined) -> None:
        tries = 0
        while (failure := await self._handle([one.event], again=True)) is not None:
            tries += 1
            delay = self._delay(tries, failure)
            if self._draining:
                return
            if delay is None:
                self.tally.set_aside(one.event, str(refusal("batch", failure)))
                break
            await asyncio.sleep(delay)
        self.tally.settled(one.id, one.event.offset)


class Said:
    """A ``Checkpoint``: how the handler says what is finished. Of what was in quarantine it says nothing."""

    def __init__(self, flow: BatchFlow, batch: Sequence[EventRecord]) -> None:
        self._flow = flow
        self._batch = batch

    async def __call__(self, event: Event | None = None) -> None:
        if self._batch:
            await self._flow.say(self._offset(event) + 1)

    def _offset(self, event: Event | None) -> int:
        first, last = self._batch[0], self._batch[-1]
        if event is None:
            return last.offset
        if event.partition != first.partition or not first.offset <= event.offset <= last.offset:
            raise InvalidRequest(
                f"the event at offset {event.offset} of partition {event.partition} is not of this batch,"
                f" which has offsets {first.offset} to {last.offset} of partition {first.partition}"
            )
        return event.offset
