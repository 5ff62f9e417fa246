"""Writes what became of events, and how far a process has got: beside its flows, never in their way.

While one transaction is written the next one gathers: everything that is due, of all partitions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from backstay.clock import Clock
from backstay.domain.alert import AlertKind, of_group
from backstay.domain.lease import Owner
from backstay.domain.stream import Group
from backstay.errors import (
    BackstayError,
    LeaseLost,
    QuarantineFull,
    QueueFull,
    Unavailable,
    UnknownQueue,
)
from backstay.ingest.calling import Calls
from backstay.ingest.streams.tally import Tally
from backstay.observe import (
    EVENT_QUARANTINED,
    PIPELINE_WAITS,
    STORE_UNAVAILABLE,
    counters,
    emit,
)
from backstay.pulse import Pulse
from backstay.settings import Settings
from backstay.store.groups import Advance, Advanced, Groups

# Tasks and messages of one transaction, over all partitions: others wait for it.
MADE_MAX: Final = 2_000
# A store that is away, or has no room in quarantine or in a queue, is asked again after this pause.
RETRY_SECONDS: Final = 0.5
_PULSE_SECONDS: Final = 1.0

#: For what is answered so there is no way now, and perhaps there is later.
_NO_WAY: Final = (QuarantineFull, QueueFull, UnknownQueue)


class Checkpointer:
    """The one writer of all pipelines and batches of a process."""

    def __init__(
        self, groups: Groups, owner: Owner, *, settings: Settings, clock: Clock, calls: Calls
    ) -> None:
        self._groups = groups
        self._calls = calls
        self._owner = owner
        self._quarantine_max = settings.quarantine_max
        self._clock = clock
        self._followed: set[Tally] = set()
        # With something to write, now or later; those that were written are at the end.
        self._noted: dict[Tally, None] = {}
        self._called = asyncio.Event()
        self._writing = asyncio.Lock()
        # Not before then those are tried again that found no room.
        self._stalled_until = 0.0
        # Somebody was called for these.
        self._full: set[Group] = set()
        self.pulse = Pulse(clock)

    def follow(self, tally: Tally) -> None:
        self._followed.add(tally)
        tally.noted = self._note

    def leave(self, tally: Tally) -> None:
        """Nothing more is written of it: the partition is another's."""
        self._followed.discard(tally)
        self._noted.pop(tally, None)

    def _note(self, tally: Tally) -> None:
        if tally not in self._followed:
            return
        self._noted[tally] = None
        if tally.due_in() == 0.0:
            self._called.set()

    # Run

    async def run(self) -> None:
        """Write what is due, for ever. Raises LeaseLost when this instance was declared dead."""
        while True:
            self.pulse.felt()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._called.wait()
            self._called.clear()
            try:
                await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(RETRY_SECONDS)

    def _pause(self) -> float:
        """Until something is due by its age, or to be tried again."""
        waits = [wait for one in self._noted if not one.stalled and (wait := one.due_in()) is not None]
        if any(one.stalled and one.due_in() == 0.0 for one in self._noted):
            waits.append(max(0.0, self._stalled_until - self._clock.monotonic()))
        return min([*waits, _PULSE_SECONDS])

    async def run_once(self) -> int:
        """Write what is due now; how many advances that were."""
        return await self.write([one for one in self._noted if self._is_due(one)])

    async def write(self, tallies: Sequence[Tally]) -> int:
        """Write all that these have noted, in a few transactions; how many advances that were."""
        written = 0
        waiting = [*tallies]
        while waiting:
            async with self._writing:
                lot = self._lot(waiting)
                written += await self._write(lot)
        return written

    def _is_due(self, tally: Tally) -> bool:
        if tally.stalled and self._clock.monotonic() < self._stalled_until:
            return False
        return tally.due_in() == 0.0

    def _lot(self, waiting: list[Tally]) -> list[tuple[Tally, Advance]]:
        """Those that are written together; they leave the line."""
        lot: list[tuple[Tally, Advance]] = []
        made = 0
        while waiting and made < MADE_MAX:
            tally = waiting.pop(0)
            if tally not in self._noted:
                continue
            del self._noted[tally]
            advance = tally.take()
            if advance is not None:
                made += len(advance.starts) + len(advance.messages)
                lot.append((tally, advance))
        return lot

    async def _write(self, lot: list[tuple[Tally, Advance]]) -> int:
        if not lot:
            return 0
        answers: Sequence[Advanced | BackstayError] = []
        try:
            answers = await self._groups.advance(
                [advance for _, advance in lot],
                owner=self._owner,
                quarantine_max=self._quarantine_max,
                now=self._clock.now(),
            )
        finally:
            for index, (tally, advance) in enumerate(lot):
                self._answered(tally, advance, answers[index] if answers else None)
        return len(lot)

    def _answered(self, tally: Tally, advance: Advance, answer: Advanced | BackstayError | None) -> None:
        if isinstance(answer, Advanced):
            counters[EVENT_QUARANTINED] += len(advance.quarantined) + answer.conflicts
            if tally.stalled:
                self._full.discard(advance.holding.group)
            tally.done()
            if tally.due_in() == 0.0:
                self._note(tally)
            return
        if isinstance(answer, LeaseLost):
            self.leave(tally)
            tally.lost()
            return
        tally.failed()
        if isinstance(answer, _NO_WAY) and not (isinstance(answer, QueueFull) and tally.lessened()):
            self._stall(tally, answer)
        self._note(tally)

    def _stall(self, tally: Tally, error: BackstayError) -> None:
        """Nothing is skipped: the partition waits until there is a way. It is told of once."""
        group = tally.holding.group
        if group not in self._full:
            self._full.add(group)
            self._tell(group, error)
        tally.stalled = True
        self._stalled_until = self._clock.monotonic() + RETRY_SECONDS

    def _tell(self, group: Group, error: BackstayError) -> None:
        """Call a person; not where receivers are behind: to wait for them is what a full queue is for."""
        if isinstance(error, QueueFull):
            emit(PIPELINE_WAITS, stream=group.stream, group=group.name, message=error)
            return
        full = isinstance(error, QuarantineFull)
        kind = AlertKind.QUARANTINE_FULL if full else AlertKind.QUEUE_MISSING
        self._calls.call(of_group(kind, group.stream, group.name, message=str(error)))
