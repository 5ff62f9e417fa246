"""Reads one stream for one group in this process: a flow for each partition that it holds.

holder ──► flow of partition 0 ─┐
           flow of partition 1 ─┼──► checkpointer ──► state store
           …                   ─┘    (one for the whole process)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from backstay.domain.stream import Group, Holding
from backstay.errors import BackstayError, LeaseLost, OtherLog, Unavailable
from backstay.ingest.streams.flow import Flow
from backstay.ingest.streams.holder import Holder
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.tally import Tally
from backstay.observe import OTHER_LOG, PARTITION_LOST, PARTITION_TAKEN, STORE_UNAVAILABLE, alert, emit
from backstay.pulse import Pulse

# How often it is looked for what a person wants processed again, and how many are taken up at once.
AGAIN_SECONDS: Final = 1.0
AGAIN_MAX: Final = 100
RETRY_SECONDS: Final = 0.5
# So long a process that ends without being drained has for its last checkpoint.
LAST_WORDS_SECONDS: Final = 2.0

#: Makes the flow of a partition that was taken.
MakeFlow = Callable[[Holding, Lookout], Flow]


class Pipeline:
    """Takes partitions, keeps a flow for each, and drops those that were lost."""

    def __init__(self, group: Group, make_flow: MakeFlow, services: Services) -> None:
        self.group = group
        self.flows: dict[int, Flow] = {}
        self._make_flow = make_flow
        self._services = services
        self._lookout = Lookout(services.streams, group.stream)
        self._holder = Holder(group, services)
        self._running: asyncio.TaskGroup | None = None
        # Of each partition the task of its flow; of one that was lost as long as it comes to its end.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._draining = False
        self._called_for_help = False
        self._holding = asyncio.Lock()
        self.pulse = Pulse(services.clock)

    @property
    def label(self) -> str:
        return f"{self.group.stream}/{self.group.name}"

    @property
    def in_flight(self) -> int:
        return sum(flow.in_flight for flow in self.flows.values())

    def silent_seconds(self) -> float:
        # Flows that drain read nothing more: they are silent, and right to be.
        flows = [] if self._draining else self.flows.values()
        return max([self.pulse.silent_seconds(), *(flow.silent_seconds() for flow in flows)])

    # Run

    async def run(self) -> None:
        """Hold and read, until cancelled. Raises LeaseLost when this instance was declared dead."""
        try:
            async with asyncio.TaskGroup() as group:
                self._running = group
                group.create_task(self._lookout.run(), name=f"backstay-lookout {self.label}")
                group.create_task(self._keep_trying_again(), name=f"backstay-again {self.label}")
                await self._keep_holding()
        finally:
            self._running = None
            await asyncio.shield(self._last_words())

    async def run_once(self) -> int:
        """Hold, read each partition once, process what came, and write that down; how many events."""
        self._adopt(await self._holder.run_once())
        await self._look_for_again()
        processed = 0
        for flow in [*self.flows.values()]:
            with contextlib.suppress(LeaseLost):
                processed += await flow.run_once()
        await self._services.checkpointer.write([flow.tally for flow in self.flows.values()])
        return processed

    async def drain(self) -> None:
        """Read nothing more, finish what was begun, write the last checkpoint, let others take over."""
        async with self._holding:
            self._draining = True
        await asyncio.gather(*(flow.drain() for flow in self.flows.values()))
        await self._write_all()
        drained = [*self.flows.values()]
        self.flows.clear()
        for flow in drained:
            self._services.checkpointer.leave(flow.tally)
        await self._holder.release([flow.holding for flow in drained])

    async def _keep_holding(self) -> None:
        while True:
            self.pulse.felt()
            pause = RETRY_SECONDS
            try:
                async with self._holding:
                    if not self._draining:
                        self._adopt(await self._holder.run_once())
                pause = self._holder.pause_seconds()
            except LeaseLost:
                raise
            except OtherLog as error:
                self._call_for_help(error)
            except BackstayError as error:
                # The store or the log is away, or somebody has yet to declare the stream.
                emit(STORE_UNAVAILABLE, error=error)
            await self._sleep(pause)

    def _call_for_help(self, error: OtherLog) -> None:
        """Nothing is read until a person has decided which log it is to be. One is called once."""
        if not self._called_for_help:
            self._called_for_help = True
            alert(OTHER_LOG, stream=self.group.stream, group=self.group.name, message=error)

    async def _sleep(self, seconds: float) -> None:
        while seconds > 0:
            self.pulse.felt()
            await asyncio.sleep(min(seconds, 1.0))
            seconds -= 1.0

    # Partitions come and go

    def _adopt(self, holdings: list[Holding]) -> None:
        """Have a flow for each of these, and for nothing else."""
        ours = {one.partition: one for one in holdings}
        for partition, flow in [*self.flows.items()]:
            if partition not in ours or ours[partition].epoch != flow.holding.epoch:
                self._drop(flow)
        for partition, holding in ours.items():
            ending = self._tasks.get(partition)
            if partition not in self.flows and (ending is None or ending.done()):
                self._begin(holding)

    def _begin(self, holding: Holding) -> None:
        flow = self._make_flow(holding, self._lookout)
        self.flows[holding.partition] = flow
        self._services.checkpointer.follow(flow.tally)
        flow.tally.lost = lambda: self._drop(flow)
        emit(PARTITION_TAKEN, stream=self.group.stream, group=self.group.name, partition=holding.partition)
        if self._running is not None:
            name = f"backstay-flow {self.label}/{holding.partition}"
            self._tasks[holding.partition] = self._running.create_task(flow.run(), name=name)

    def _drop(self, flow: Flow) -> None:
        """The partition is another's: nothing of it may go on here, and nothing of it is written."""
        partition = flow.holding.partition
        flow.lost = True
        self._services.checkpointer.leave(flow.tally)
        if self.flows.get(partition) is flow:
            del self.flows[partition]
            emit(PARTITION_LOST, stream=self.group.stream, group=self.group.name, partition=partition)
            if partition in self._tasks:
                self._tasks[partition].cancel()

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
        found = await self._services.store.groups.resubmitted(self.group, [*self.flows], limit=AGAIN_MAX)
        for partition, flow in self.flows.items():
            if mine := [one for one in found if one.event.partition == partition]:
                flow.try_again(mine)

    # The end

    async def _write_all(self) -> None:
        """Write all that is noted, as soon as the store is there; not what finds no room in quarantine."""
        while tallies := self._open_tallies():
            try:
                await self._services.checkpointer.write(tallies)
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            if self._open_tallies():
                await asyncio.sleep(RETRY_SECONDS)

    def _open_tallies(self) -> list[Tally]:
        tallies = [flow.tally for flow in self.flows.values()]
        return [one for one in tallies if one.is_open and not one.stalled]

    async def _last_words(self) -> None:
        """Write down what is finished: nobody has to do that again."""
        with contextlib.suppress(TimeoutError, BackstayError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._write_all()
