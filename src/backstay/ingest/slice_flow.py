"""Judges a partition slice by slice, in one loop: for plain stages that end in a task.

Without a task of the event loop for each event this is several times as fast. What is judged waits for the
checkpointer, which starts the tasks and moves the checkpoint on in one transaction; meanwhile the next slice
is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from backstay.domain.stream import EventRecord, Holding, NewQuarantined, Quarantined, Slice
from backstay.ingest.allowance import Allowance, Share
from backstay.ingest.budget import cost
from backstay.ingest.flow import SLICE_MAX, Flow, written_bytes
from backstay.ingest.lookout import Lookout
from backstay.ingest.services import Services
from backstay.ingest.stages import FILTERED, Refused, Stages
from backstay.ingest.starter import Starter
from backstay.ingest.tally import Tally
from backstay.store.groups import Advance, Start

# A stage may be slow. So long at a time it has the event loop to itself.
TURN_SECONDS: Final = 0.01


class SliceFlow(Flow):
    def __init__(
        self,
        holding: Holding,
        tally: Tally,
        lookout: Lookout,
        services: Services,
        *,
        stages: Stages,
        starter: Starter,
        allowance: Allowance,
    ) -> None:
        super().__init__(holding, tally, lookout, services)
        self._stages = stages
        self._starter = starter
        self._share = Share(allowance)
        self._judging = 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        tally.written = self._written

    @property
    def in_flight(self) -> int:
        return self._judging

    def let_go(self) -> None:
        super().let_go()
        self._share.keep(0)

    async def _demand(self) -> int:
        self._share.keep(self.tally.starts_unwritten)
        room = self._window - self.tally.unwritten
        return await self._allowed(self._share, min(room, SLICE_MAX)) if room >= self._lot else 0

    async def _take(self, found: Slice) -> None:
        self._at_rest.clear()
        self._judging = len(found.events)
        try:
            starts, refused = await self._judge(found.events)
            self._set_aside(refused)
            self.tally.judged(len(found.events), starts, to=found.next)
        finally:
            self._judging = 0
            self._at_rest.set()
        # At once: others may be waiting for what is not needed here.
        self._share.keep(self.tally.starts_unwritten)

    async def _take_again(self, events: Sequence[Quarantined]) -> None:
        self._settling.update(one.id for one in events)
        self._charge([one.event for one in events])
        for one in events:
            starts, refused = await self._judge([one.event])
            # What leaves the quarantine and what comes back into it must be one advance.
            self._set_aside(refused)
            for start in starts:
                self.tally.started(start)
            self.tally.settled(one.id)

    async def _judge(self, events: Sequence[EventRecord]) -> tuple[list[Start], list[NewQuarantined]]:
        """The tasks of these events, and those that were refused."""
        starts: list[Start] = []
        refused: list[NewQuarantined] = []
        monotonic = self._services.clock.monotonic
        judge, start = self._stages.judge, self._starter.start
        turn_ends = monotonic() + TURN_SECONDS
        for record in events:
            try:
                value = judge(record)
                if value is FILTERED:
                    self._release(cost(record))
                else:
                    starts.append(start(value, record))
            except Refused as why:
                refused.append(NewQuarantined(event=record, reason=str(why)))
            if monotonic() > turn_ends:
                await asyncio.sleep(0)
                self.pulse.felt()
                turn_ends = monotonic() + TURN_SECONDS
        return starts, refused

    def _set_aside(self, refused: Sequence[NewQuarantined]) -> None:
        for one in refused:
            self.tally.set_aside(one.event, one.reason)

    async def _rest(self) -> None:
        await self._at_rest.wait()

    def _written(self, advance: Advance) -> None:
        self._share.written(len(advance.starts))
        self._settling.difference_update(advance.settled)
        self._release(written_bytes(advance))
        self._wake.set()
