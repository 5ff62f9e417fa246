"""Reads one stream for one group in this process: a flow for each unit that it holds.

holder ──► flow of partition 0 ─┐
           flow of partition 1 ─┼──► checkpointer ──► state store
           …                   ─┘    (one for the whole process)

A unit is a partition, or a slot of one that several readers share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from backstay.domain.alert import AlertKind, of_group
from backstay.domain.stream import Group, Holding, Unit, slot_of
from backstay.errors import BackstayError, LeaseLost, OtherLog, ReadersDiffer, Unavailable
from backstay.ingest.streams.flow import Flow
from backstay.ingest.streams.holder import LOOK_SECONDS, Holder
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.tally import Tally
from backstay.ingest.waiting import within
from backstay.observe import (
    PARTITION_GIVEN_UP,
    PARTITION_LOST,
    PARTITION_TAKEN,
    READERS_DIFFER,
    STORE_UNAVAILABLE,
    emit,
)
from backstay.pulse import Pulse
from backstay.store.base import Changes

# How often it is looked for what a person wants processed again, and how many are taken up at once.
AGAIN_SECONDS: Final = 1.0
AGAIN_MAX: Final = 100
RETRY_SECONDS: Final = 0.5
# So long a process that ends without being drained has for its last checkpoint.
LAST_WORDS_SECONDS: Final = 2.0

#: Makes the flow of a partition that was taken.
MakeFlow = Callable[[Holding, Lookout], Flow]


class Pipeline:
    """Takes units, keeps a flow for each, hands over what is to be another's and drops what was lost."""

    def __init__(self, group: Group, make_flow: MakeFlow, services: Services, *, readers: int = 1) -> None:
        self.group = group
        self.flows: dict[Unit, Flow] = {}
        self._make_flow = make_flow
        self._services = services
        self._readers = readers
        self._lookout = Lookout(services.streams, group.stream)
        self._holder = Holder(group, services, readers=readers)
        self._running: asyncio.TaskGroup | None = None
        # Of each unit the task of its flow; of one that was lost as long as it comes to its end.
        self._tasks: dict[Unit, asyncio.Task[None]] = {}
        self._handing_over: dict[Flow, asyncio.Task[None]] = {}
        self._draining = False
        # What is held is looked at, adopted and let go by one at a time.
        self._holding = asyncio.Lock()
        self._called = asyncio.Event()
        # Somebody was told that nothing is read.
        self._called_for_help = False
        self._differing = False
        self.pulse = Pulse(services.clock)

    @property
    def label(self) -> str:
        return f"{self.group.stream}/{self.group.name}"

    @property
    def in_flight(self) -> int:
        return sum(flow.in_flight for flow in self.flows.values())

    def silent_seconds(self) -> float:
        # Flows that drain read nothing more: they are silent, and right to be.
        flows = (
            [] if self._draining else [one for one in self.flows.values() if one not in self._handing_over]
        )
        return max([self.pulse.silent_seconds(), *(flow.silent_seconds() for flow in flows)])

    # Run

    async def run(self) -> None:
        """Hold and read, until cancelled. Raises LeaseLost when this instance was declared dead."""
        stop_listening = self._services.store.listen(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                self._running = group
                group.create_task(self._lookout.run(), name=f"backstay-lookout {self.label}")
                group.create_task(self._keep_trying_again(), name=f"backstay-again {self.label}")
                await self._keep_holding()
        finally:
            self._running = None
            stop_listening()
            await asyncio.shield(self._last_words())

    async def run_once(self) -> int:
        """Hold, read each unit once, process what came, and write that down; how many events."""
        await asyncio.gather(*map(self._hand_over, await self._look()))
        await self._look_for_again()
        processed = 0
        for flow in [*self.flows.values()]:
            with contextlib.suppress(LeaseLost):
                processed += await flow.run_once()
        await self._services.checkpointer.write([flow.tally for flow in self.flows.values()])
        return processed

    async def drain(self) -> None:
        """Read nothing more, finish what was begun, write the last checkpoints, let others take over."""
        self._draining = True
        self._read_no_more()
        async with self._holding:  # A look that was under way may have brought more.
            self._read_no_more()
        with contextlib.suppress(BackstayError):  # Then others take over when we let go, or end.
            await self._holder.leave()
        flows = [flow for flow in self.flows.values() if flow not in self._handing_over]
        await asyncio.gather(*map(self._hand_over, flows))
        if self._handing_over:
            await asyncio.wait(self._handing_over.values())

    def _read_no_more(self) -> None:
        """At once: others are told through the store, which may take its time."""
        for flow in self.flows.values():
            flow.read_no_more()

    async def _keep_holding(self) -> None:
        assert self._running is not None
        while True:
            self.pulse.felt()
            self._called.clear()
            try:
                for flow in await self._look():
                    self._handing_over[flow] = self._running.create_task(
                        self._hand_over(flow), name=f"backstay-hand-over {flow.holding.label}"
                    )
            except LeaseLost:
                raise
            except ReadersDiffer as error:
                self._say_that_readers_differ(error)
            except OtherLog as error:
                self._call_for_help(error)
            except BackstayError as error:
                # The store or the log is away, or somebody has yet to declare the stream.
                emit(STORE_UNAVAILABLE, error=error)
            await within(LOOK_SECONDS, self._called)

    def _hear(self, changes: Changes) -> None:
        if changes.ownership:
            self._called.set()

    def _call_for_help(self, error: OtherLog) -> None:
        """Nothing is read until a person has decided which log it is to be. One is called once."""
        if not self._called_for_help:
            self._called_for_help = True
            message, group = str(error), self.group
            self._services.calls.call(
                of_group(AlertKind.OTHER_LOG, group.stream, group.name, message=message)
            )

    def _say_that_readers_differ(self, error: ReadersDiffer) -> None:
        """Once: it goes on by itself as soon as the others have stopped."""
        if not self._differing:
            emit(READERS_DIFFER, level=logging.WARNING, error=error)
        self._differing = True

    # Units come and go

    async def _look(self) -> list[Flow]:
        """Have a flow for each unit that is ours; those that are to be handed over, and are not yet."""
        async with self._holding:
            if self._draining:
                return []
            try:
                found = await self._holder.run_once()
            except ReadersDiffer:
                self._adopt([])  # They took us for dead: what we held is no more.
                raise
            self._differing = False
            self._adopt(found.held)
            leaving = [flow for unit, flow in self.flows.items() if unit in found.give_up]
            return [flow for flow in leaving if flow not in self._handing_over]

    def _adopt(self, holdings: Sequence[Holding]) -> None:
        """Have a flow for each of these, and for nothing else."""
        ours = {one.unit: one for one in holdings}
        for unit, flow in [*self.flows.items()]:
            if unit not in ours or ours[unit].epoch != flow.holding.epoch:
                self._drop(flow)
        for unit, holding in ours.items():
            ending = self._tasks.get(unit)
            if unit not in self.flows and (ending is None or ending.done()):
                self._begin(holding)

    async def _hand_over(self, flow: Flow) -> None:
        """Finish what was begun, write that down, and let go: whoever takes it repeats nothing of it."""
        try:
            await flow.drain()
            await self._write_all([flow])
            await self._let_go(flow)
        finally:
            self._handing_over.pop(flow, None)

    async def _let_go(self, flow: Flow) -> None:
        unit = flow.holding.unit
        async with self._holding:
            if self.flows.get(unit) is not flow:
                return  # It was lost meanwhile.
            del self.flows[unit]
            self._services.checkpointer.leave(flow.tally)
            emit(PARTITION_GIVEN_UP, **self._holder.fields(unit))
            with contextlib.suppress(Unavailable):  # Then the next look finds it ours, and it goes again.
                await self._holder.release([flow.holding])

    def _begin(self, holding: Holding) -> None:
        flow = self._make_flow(holding, self._lookout)
        self.flows[holding.unit] = flow
        self._services.checkpointer.follow(flow.tally)
        flow.tally.lost = lambda: self._drop(flow)
        emit(PARTITION_TAKEN, **self._holder.fields(holding.unit))
        if self._running is not None:
            name = f"backstay-flow {holding.label}"
            self._tasks[holding.unit] = self._running.create_task(flow.run(), name=name)

    def _drop(self, flow: Flow) -> None:
        """The unit is another's: nothing of it may go on here, and nothing of it is written."""
        unit = flow.holding.unit
        flow.lost = True
        self._services.checkpointer.leave(flow.tally)
        if self.flows.get(unit) is flow:
            del self.flows[unit]
            emit(PARTITION_LOST, **self._holder.fields(unit))
            if unit in self._tasks:
                self._tasks[unit].cancel()

    # What a person wants processed again

    async def _keep_trying_again(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                await self._look_for_again()
            except BackstayError as error:
                emit(STORE_UNAVAILABLE, error=error)

    async def _look_for_again(self) -> None:
        if not self.flows:
            return
        partitions = sorted({unit.partition for unit in self.flows})
        found = await self._services.store.groups.resubmitted(self.group, partitions, limit=AGAIN_MAX)
        for one in found:
            unit = Unit(one.event.partition, slot_of(one.event, self._readers))
            if unit in self.flows:
                self.flows[unit].try_again([one])

    # The end

    async def _write_all(self, flows: Collection[Flow]) -> None:
        """Write all that these noted, as soon as the store is there; not what finds no room in quarantine."""
        while tallies := self._open_tallies(flows):
            try:
                await self._services.checkpointer.write(tallies)
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            if self._open_tallies(flows):
                await asyncio.sleep(RETRY_SECONDS)

    def _open_tallies(self, flows: Collection[Flow]) -> list[Tally]:
        ours = [flow.tally for flow in self.flows.values() if flow in flows]
        return [one for one in ours if one.is_open and not one.stalled]

    async def _last_words(self) -> None:
        """Write down what is finished: nobody has to do that again."""
        with contextlib.suppress(TimeoutError, BackstayError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._write_all([*self.flows.values()])
