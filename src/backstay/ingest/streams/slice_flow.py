"""Judges a partition slice by slice, in one loop: for plain stages that end in a task or a message.

Without a task of the event loop for each event this is several times as fast. What is judged waits for the
checkpointer, which writes that and moves the checkpoint on in one transaction; meanwhile the next slice is
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from backstay.domain.stream import EventRecord, Holding, NewQuarantined, Quarantined, Slice
from backstay.ingest.streams.allowance import Allowance, Share
from backstay.ingest.streams.budget import cost
from backstay.ingest.streams.flow import SLICE_MAX, Flow, written_bytes
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.stages import FILTERED, Refused, Stages
from backstay.ingest.streams.tally import Made, Tally
from backstay.store.groups import Advance

# A stage may be slow. So long at a time it has the event loop to itself.
TURN_SECONDS: Final = 0.01


class Maker(Protocol):
    """A sink that makes something of an event, to be written with its position."""

    def make(self, value: Any, record: EventRecord) -> Made:
        """Of what the stages gave. Raises Refused."""


class SliceFlow(Flow):
    def __init__(
        self,
        holding: Holding,
        tally: Tally,
        lookout: Lookout,
        services: Services,
        *,
        stages: Stages,
        maker: Maker,
        allowance: Allowance | None = None,
        readers: int = 1,
    ) -> None:
        super().__init__(holding, tally, lookout, services, readers=readers)
        self._stages = stages
        self._maker = maker
        self._share = None if allowance is None else Share(allowance)
        self._judging = 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        tally.written = self._written

    @property
    def in_flight(self) -> int:
        return self._judging

    def let_go(self) -> None:
        super().let_go()
        self._keep(0)

    async def _demand(self) -> int:
        self._keep(self.tally.starts_unwritten)
        room = self._window - self.tally.unwritten
        if room < self._lot:
            return 0
        limit = min(room, SLICE_MAX)
        return limit if self._share is None else await self._allowed(self._share, limit)

    async def _take(self, found: Slice) -> None:
        self._at_rest.clear()
        self._judging = len(found.events)
        try:
            made, refused = await self._judge(found.events)
            self._set_aside(refused)
            self.tally.judged(len(found.events), made, to=found.next)
        finally:
            self._judging = 0
            self._at_rest.set()
        # At once: others may be waiting for what is not needed here.
        self._keep(self.tally.starts_unwritten)

    async def _take_again(self, events: Sequence[Quarantined]) -> None:
        self._settling.update(one.id for one in events)
        self._charge([one.event for one in events])
        for one in events:
            made, refused = await self._judge([one.event])
            # What leaves the quarantine and what comes back into it must be one advance.
            self._set_aside(refused)
            for what in made:
                self.tally.made(what)
            self.tally.settled(one.id, one.event.offset)

    async def _judge(self, events: Sequence[EventRecord]) -> tuple[list[Made], list[NewQuarantined]]:
        """What is made of these events, and those that were refused."""
        made: list[Made] = []
        refused: list[NewQuarantined] = []
        monotonic = self._services.clock.monotonic
        judge, make = self._stages.judge, self._maker.make
        turn_ends = monotonic() + TURN_SECONDS
        for record in events:
            try:
                value = judge(record)
                if value is FILTERED:
                    self._release(cost(record))
                else:
                    made.append(make(value, record))
            except Refused as why:
                refused.append(NewQuarantined(event=record, reason=str(why)))
            if monotonic() > turn_ends:
                await asyncio.sleep(0)
                self.pulse.felt()
                turn_ends = monotonic() + TURN_SECONDS
        return made, refused

    def _keep(self, needed: int) -> None:
        if self._share is not None:
            self._share.keep(needed)

    def _set_aside(self, refused: Sequence[NewQuarantined]) -> None:
        for one in refused:
            self.tally.set_aside(one.event, one.reason)

    async def _rest(self) -> None:
        await self._at_rest.wait()

    def _written(self, advance: Advance) -> None:
        if self._share is not None:
            self._share.written(len(advance.starts))
        self._settling.difference_update(advance.settled)
        self._release(written_bytes(advance))
        self._wake.set()
