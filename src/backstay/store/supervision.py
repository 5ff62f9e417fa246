"""What a state store does for the supervisor: elect its leader, and free what nobody moves.

Every verb that writes names the leader it acts under and is refused with LeaseLost when another leads
by now, or when the lease has run out: a leader that stalled and woke changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from backstay.domain.control import Control
from backstay.domain.lease import Leader, Owner


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of the supervisor did."""

    at: datetime
    epoch: int = 0
    # Tasks of dead instances, tasks that overran, tasks with a step that did: free to be taken up again.
    freed: int = 0
    overrun: int = 0
    steps_expired: int = 0
    # Undos among the first two.
    undos: int = 0
    woken: int = 0
    # Workflows and agents held back for having been recovered too often.
    paused: int = 0

    @property
    def recovered(self) -> int:
        return self.freed + self.overrun + self.steps_expired

    @property
    def idle(self) -> bool:
        return not (self.recovered or self.woken or self.paused)


class Freed(msgspec.Struct, frozen=True):
    """How many tasks were taken away from somebody who did not move them: runs, and undos."""

    runs: int = 0
    undos: int = 0


class Recoveries(msgspec.Struct, frozen=True):
    """How often something of a workflow, or an agent's step in it, had to be recovered."""

    workflow: str
    agent: str | None
    number: int


class Supervision(Protocol):
    """Each method is one transaction: it happens entirely or not at all."""

    # Who leads

    async def lead(self, holder: str, *, lease: timedelta, now: datetime) -> Leader:
        """Take the lead if it is free, or renew it; the answer tells who leads now, which may be another.

        The lead is free when nobody holds it, its lease ran out, or its holder is known to be dead.
        Taking it moves the epoch on, and waits for what the leader before is just writing.
        """

    async def step_down(self, leader: Leader, *, now: datetime) -> None:
        """A graceful stop: another may take over at once. Nothing when ``leader`` no longer leads."""

    async def leader(self) -> Leader:
        """Who leads, as last written; the lease may have run out since. Nobody, if it is known to be dead."""

    # One round

    async def work_waits(
        self, *, lease: timedelta, grace: timedelta, now: datetime, spare: Owner | None
    ) -> bool:
        """Whether a round would find anything to do: one cheap look, so that an idle round writes nothing."""

    async def bury(
        self, leader: Leader, *, lease: timedelta, now: datetime, spare: Owner | None = None
    ) -> Freed:
        """Declare instances without a sign of life dead and free their tasks.

        Both in one transaction: a dead instance never holds anything, a live one is never robbed.
        ``spare`` is the instance that asks: late as its own heartbeat may be, it is alive.
        A dead instance counts as one recovery of each workflow of which it held tasks.
        """

    async def wake(self, leader: Leader, *, now: datetime, limit: int) -> int:
        """Make parked tasks whose time has come claimable again."""

    async def expire_runs(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> Freed:
        """Take tasks past their complete-by away from whoever holds them, and count the failure.

        The same with those whose holder let ``grace`` pass after their hard end.
        """

    async def expire_steps(self, leader: Leader, *, grace: timedelta, now: datetime, limit: int) -> int:
        """Take tasks away from holders that let ``grace`` pass after a step's complete-by.

        The attempt counts as failed.
        """

    # What came of it

    async def recoveries(self, *, since: datetime) -> list[Recoveries]:
        """How often what was recovered since then, by workflow and agent; counted by the three above."""

    async def hold_back(self, leader: Leader, control: Control, *, message: str, now: datetime) -> bool:
        """Pause what had to be recovered too often, with an alert and a line in the audit trail.

        ``False`` when it is paused already; then nothing is written.
        """

    async def record_round(self, leader: Leader, done: Round) -> None:
        """Keep what a round did. Of idle rounds in a row only the last is kept, of all the last thousand."""

    async def rounds(self, *, limit: int) -> list[Round]:
        """The last rounds, newest first."""
