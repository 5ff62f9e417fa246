"""The connections, the clock, and who is sent what."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from bench.openloop.connection import Connection, Heads, Sent
from bench.openloop.outcome import Fate, Outcome, Tally
from bench.openloop.plan import DIGITS, MARK, Load, Phase, Schedule

#: How often is looked what is due: so much the sending may lag behind the plan on an idle machine.
TICK_SECONDS: Final = 0.001
#: How often is looked what has timed out.
SWEEP_SECONDS: Final = 0.1
#: The load begins when all connections are open, or so long after the first try.
OPEN_SECONDS: Final = 5.0
#: After a connection that was not accepted.
PAUSE_SECONDS: Final = 0.05

NUMBERS_MAX: Final = 10**DIGITS

# As what they are kept: a look into an enumeration takes longer than the rest of the line.
_UNDER_WAY: Final = Fate.UNDER_WAY.value
_ACCEPTED: Final = Fate.ACCEPTED.value


async def generate(load: Load) -> Outcome:
    """Send the requests of a load when they are due, and say what became of each."""
    return await Generator(load).run()


def _tallies(phases: Sequence[Phase]) -> list[Tally]:
    begins = itertools.accumulate((phase.seconds for phase in phases), initial=0.0)
    return [
        Tally(phase.name, begin, phase.seconds, phase.rate)
        for phase, begin in zip(phases, begins, strict=False)
    ]


class Generator:
    """Sends each request once. What has no answer is not sent again: it counts as failed, or timed out."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._outcome = Outcome(_tallies(load.phases))
        self._text = load.request.replace("%", "%%").replace(MARK, f"%0{DIGITS}d").encode("ascii")
        self._marks = load.request.count(MARK)
        self._schedule: Schedule
        self._begun = 0.0
        # A connection stands here once for every request that it may take. Who waited longest is next, so
        # that no connection is idle so long that the server closes it.
        self._free: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._heads = Heads()
        self._under_way = 0
        self._all_open = asyncio.Event()

    async def run(self) -> Outcome:
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep()) for _ in range(self._load.connections)]
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    await self._all_open.wait()
            except TimeoutError:
                pass  # What cannot be sent is late, and then times out: it is all in the outcome.
            self._begun = time.perf_counter()
            self._schedule = Schedule(self._load.phases, begin=self._begun)
            await self._follow_the_plan()
            for keeper in keepers:
                keeper.cancel()
        for connection in self._open:
            connection.close()
        return self._outcome

    async def _keep(self) -> None:
        """One connection, opened again whenever it is lost."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(self, self._heads), self._load.host, self._load.port
                )
            except OSError:
                self._outcome.connections_refused += 1
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await connection.gone.wait()

    async def _follow_the_plan(self) -> None:
        swept_at = self._begun
        while self._under_way or not self._schedule.is_over:
            now = time.perf_counter()
            self._send_what_is_due(now)
            if now - swept_at >= SWEEP_SECONDS:
                swept_at = now
                self._sweep(now - self._load.timeout)
            await asyncio.sleep(TICK_SECONDS)

    # Out

    def _send_what_is_due(self, now: float) -> None:
        while self._free:
            if not self._free[0].is_open:
                self._free.popleft()
                continue
            due = self._schedule.take(now)
            if due is None:
                return
            self._send(self._free.popleft(), due, now)
            if self._free:
                now = time.perf_counter()

    def _send(self, connection: Connection, due: float, now: float) -> None:
        sent = self._counted(due)
        sent.tally.lateness.record(now - due)
        self._under_way += 1
        connection.send(self._text % ((sent.number,) * self._marks), sent)

    def _counted(self, due: float) -> Sent:
        number = len(self._outcome.fates)
        if number == NUMBERS_MAX:
            raise RuntimeError(f"there are no more than {NUMBERS_MAX:,} numbers for requests")
        self._outcome.fates.append(_UNDER_WAY)
        tally = self._outcome.phases[self._schedule.phase]
        tally.due += 1
        return Sent(number, due, tally)

    # In

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)
        self._free.extend([connection] * self._load.depth)
        if len(self._open) == self._load.connections:
            self._all_open.set()

    def answered(self, connection: Connection, sent: Sent, status: int) -> None:
        now = time.perf_counter()
        tally = sent.tally
        self._under_way -= 1
        if status == self._load.accepts:
            tally.accepted += 1
            self._outcome.fates[sent.number] = _ACCEPTED
        else:
            tally.refused[str(status)] += 1
            self._outcome.fates[sent.number] = Fate.REFUSED
        tally.latencies.record(now - sent.due)
        tally.last_answer_at = now - self._begun
        # Others that are free have waited longer; with none of them, what is due is this one's.
        self._free.append(connection)
        self._send_what_is_due(now)

    def lost(self, connection: Connection, reason: str) -> None:
        self._open.discard(connection)
        self._outcome.connections_lost += 1
        for sent in connection.under_way:
            self._under_way -= 1
            sent.tally.failed[reason] += 1
            self._outcome.fates[sent.number] = Fate.FAILED
        connection.under_way.clear()

    # Neither

    def _sweep(self, before: float) -> None:
        """What was due before that instant, and has no answer, has timed out, whether or not it was sent."""
        for connection in [*self._open]:
            if connection.under_way and connection.under_way[0].due < before:
                for sent in connection.under_way:
                    self._under_way -= 1
                    self._time_out(sent)
                connection.under_way.clear()
                connection.give_up("timed out")
        for due in self._schedule.take_missed(before):
            self._time_out(self._counted(due))

    def _time_out(self, sent: Sent) -> None:
        sent.tally.timed_out += 1
        sent.tally.latencies.record(self._load.timeout)
        self._outcome.fates[sent.number] = Fate.TIMED_OUT
