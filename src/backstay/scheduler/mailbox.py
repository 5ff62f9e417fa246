"""The way to agents in other processes, through the store.

The request itself goes with the transition that records its attempt. Here is what comes before and after
that: a place in the line for the agent, and the answer, which is fetched when the store says that there is
one. A request that an earlier holder of a task sent is followed in the same way.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

from backstay.clock import Alarm, Alarms, Clock
from backstay.domain.control import Controls, Subject
from backstay.domain.lease import Owner, is_stale
from backstay.domain.offer import Hosted, offer
from backstay.domain.request import Reference, Request, RequestStanding
from backstay.errors import Unavailable
from backstay.messaging.wire import Answer, Ticket
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.scheduler.lines import UNOFFERED_SECONDS, Line, RemotePlace
from backstay.settings import Settings
from backstay.store.base import Changes, InstanceRecord, Store

# How often we look although nobody called; and how often we ask what the agents elsewhere can do.
LOOK_SECONDS: Final = 1.0

# So many tasks are asked about at once.
ASKED_MAX: Final = 1_000

# Of so many tasks we remember that they were answered before we began to follow their requests.
EARLY_MAX: Final = 10_000

Told = Callable[[Answer | None, bool], None]


class Followed:
    """A request under way in another process. An ``Execution``."""

    __slots__ = ("_mailbox", "alarm", "deadline", "ended", "place", "reference", "reply", "told")

    def __init__(
        self,
        mailbox: Mailbox,
        reference: Reference,
        place: RemotePlace,
        *,
        deadline: float,
        reply: Callable[[Answer], None],
    ) -> None:
        self._mailbox = mailbox
        self.reference = reference
        self.place = place
        self.deadline = deadline
        self.reply: Callable[[Answer], None] | None = reply
        self.told: Told | None = None
        self.ended: Callable[[], None] | None = None
        self.alarm: Alarm | None = None

    def cancel(self, ended: Callable[[], None]) -> None:
        self.reply = None
        self.ended = ended
        self._mailbox.withdraw(self)

    def overdue(self, told: Told) -> None:
        self.told = told
        self._mailbox.withdraw(self)

    def leave(self) -> None:
        self._mailbox.forget(self)


class Mailbox:
    """What one scheduler has sent, and what it may send. An ``AgentLink``."""

    through_store: Final = True

    def __init__(
        self,
        store: Store,
        owner: Owner,
        *,
        settings: Settings,
        clock: Clock,
        alarms: Alarms,
        soon: Callable[[Callable[[], Any]], None],
    ) -> None:
        self._store = store
        self._owner = owner
        self._settings = settings
        self._clock = clock
        self._alarms = alarms
        self._soon = soon
        self._lines: defaultdict[str, Line] = defaultdict(lambda: Line(clock))
        self._followed: dict[int, dict[Reference, Followed]] = {}
        self._following = 0
        self._withdrawing: dict[Reference, Followed] = {}
        # The tasks to be asked about; and those that were answered and are not followed yet.
        self._due: set[int] = set()
        self._early: dict[int, None] = {}
        self._wake = asyncio.Event()
        self._resting: Callable[[], None] = lambda: None
        self._let_in: Callable[[list[str]], None] = lambda _agents: None
        self.pulse = Pulse(clock)

    # For runs

    @property
    def resting(self) -> int:
        return self._following + sum(line.in_line for line in self._lines.values())

    def when_resting(self, callback: Callable[[], None]) -> None:
        self._resting = callback

    def reserve(self, agent: str) -> RemotePlace:
        return self._lines[agent].reserve()

    def execute(self, ticket: Ticket, request: Request, reply: Callable[[Answer], None]) -> Followed:
        """Follow a request that has just been written."""
        assert isinstance(ticket, RemotePlace)
        return self._follow(ticket, request.reference, request.remaining_seconds, reply)

    def follow(
        self, found: RequestStanding, agent: str, remaining_seconds: float, reply: Callable[[Answer], None]
    ) -> Followed:
        """Follow a request that an earlier holder of the task sent; it may have been answered already."""
        followed = self._follow(self._lines[agent].occupy(), found.reference, remaining_seconds, reply)
        self._ask_about([found.reference.task_key])
        return followed

    def _follow(
        self,
        place: RemotePlace,
        reference: Reference,
        remaining_seconds: float,
        reply: Callable[[Answer], None],
    ) -> Followed:
        deadline = self._clock.monotonic() + remaining_seconds
        followed = Followed(self, reference, place, deadline=deadline, reply=reply)
        place.used = True
        self._followed.setdefault(reference.task_key, {})[reference] = followed
        self._following += 1
        if reference.task_key in self._early:
            del self._early[reference.task_key]
            self._ask_about([reference.task_key])
        self._resting()
        return followed

    def withdraw(self, followed: Followed) -> None:
        """Have a request stopped with the next look."""
        self._withdrawing[followed.reference] = followed
        self._wake.set()

    def forget(self, followed: Followed) -> None:
        """Nobody follows it here any more."""
        of_task = self._followed.get(followed.reference.task_key, {})
        if of_task.pop(followed.reference, None) is None:
            return
        if not of_task:
            del self._followed[followed.reference.task_key]
        self._withdrawing.pop(followed.reference, None)
        self._following -= 1
        if followed.alarm is not None:
            followed.alarm.cancel()
        followed.place.line.free(followed.place)

    # For the instance

    def regulate(self, controls: Controls) -> list[str]:
        """Hold back what operators hold back, and nothing else; the agents whose steps may begin again."""
        # An agent that nobody asked for yet may be held back before somebody does.
        names = set(self._lines) | controls.names(Subject.AGENT)
        return [name for name in names if self._lines[name].regulate(controls.of(Subject.AGENT, name))]

    def when_let_in(self, callback: Callable[[list[str]], None]) -> None:
        """Have ``callback`` called with the agents whose steps may begin although they could not before."""
        self._let_in = callback

    def close(self) -> None:
        """Send nothing any more."""
        for line in self._lines.values():
            line.close()

    async def run(self, *, sends: bool) -> None:
        """Fetch answers, until cancelled; where requests are sent, learn what the agents can do as well.

        Raises LeaseLost when this instance was declared dead.
        """
        stop_listening = self._store.listen(self._changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fetch(), name="backstay-mail")
                if sends:
                    group.create_task(self._look_around(), name="backstay-offers")
        finally:
            stop_listening()

    async def _fetch(self) -> None:
        while True:
            self._wake.clear()
            self.pulse.felt()
            try:
                await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                await asyncio.sleep(LOOK_SECONDS)
                continue
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                self._ask_about(self._followed)

    async def run_once(self) -> None:
        """Stop what is to be stopped, and fetch what was answered."""
        if self._withdrawing:
            await self._stop()
        while self._due:
            keys = [*islice(self._due, ASKED_MAX)]
            standings = await self._store.requests.standing(keys)
            self._due.difference_update(keys)
            found = {one.reference: one for one in standings}
            for key in keys:
                for followed in list(self._followed.get(key, {}).values()):
                    self._judge(followed, found.get(followed.reference))

    def _judge(self, followed: Followed, found: RequestStanding | None) -> None:
        if followed.ended is not None:
            if found is None or found.answer() is not None:
                self._soon(followed.ended)
                self.forget(followed)
            return
        answer = None if found is None else found.answer()
        if answer is not None and followed.reply is not None and followed.told is None:
            self._soon(partial(followed.reply, answer))
            self.forget(followed)

    # Stopping

    async def _stop(self) -> None:
        withdrawing = dict(self._withdrawing)
        found = await self._store.requests.withdraw(self._owner, [*withdrawing], now=self._clock.now())
        for reference, followed in withdrawing.items():
            if self._withdrawing.pop(reference, None) is not None:
                self._stopped(followed, found.get(reference))

    def _stopped(self, followed: Followed, found: RequestStanding | None) -> None:
        """It is withdrawn; perhaps nobody had begun it, or it had been answered."""
        at_work = found is not None and found.claimed_by is not None and found.answer() is None
        if followed.told is not None:
            answer = None if found is None else found.answer()
            # One that is gone was taken away by somebody else, who knows why.
            began = found is None or found.claimed_by is not None
            self._soon(partial(followed.told, answer, began))
            self.forget(followed)
        elif not at_work:
            if followed.ended is not None:
                self._soon(followed.ended)
            self.forget(followed)
        else:
            # It says when it has stopped; past its complete-by it has, or is not heard of any more.
            remaining = max(0.0, followed.deadline - self._clock.monotonic())
            followed.alarm = self._alarms.after(remaining, partial(self.forget, followed))

    # What happens elsewhere

    def _changed(self, changes: Changes) -> None:
        if changes.foreign:
            self._ask_about(self._followed)
        elif changes.replied:
            self._ask_about(key for key in changes.replied if key in self._followed)
            for key in changes.replied:
                if key not in self._followed:
                    self._early[key] = None
            while len(self._early) > EARLY_MAX:
                del self._early[next(iter(self._early))]

    def _ask_about(self, keys: Iterable[int]) -> None:
        self._due.update(keys)
        if self._due:
            self._wake.set()

    async def _look_around(self) -> None:
        """Learn now and then what the agents elsewhere can do."""
        while True:
            try:
                await self.look_around()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(LOOK_SECONDS)

    async def look_around(self) -> None:
        """Learn what the agents elsewhere can do."""
        now = self._clock.now()
        live = [
            one
            for one in await self._store.instances()
            if one.live and not is_stale(one.heartbeat_at, lease=self._settings.lease, now=now)
        ]
        schedulers = sum(bool(one.runs) and "agents" not in one.roles for one in live)
        hosted = _hosted(live)
        let_in = []
        for name in hosted.keys() | self._lines.keys():
            made = offer(
                hosted.get(name, []), schedulers=schedulers, at_most=self._settings.requests_open, now=now
            )
            seconds = UNOFFERED_SECONDS
            if made.open_until is not None:
                seconds = (made.open_until - now).total_seconds()
            if self._lines[name].offered(made, wait_seconds=seconds):
                let_in.append(name)
        if let_in:
            self._let_in(let_in)


def _hosted(live: Iterable[InstanceRecord]) -> dict[str, list[Hosted]]:
    """How each agent stands in the processes that do its work."""
    found: defaultdict[str, list[Hosted]] = defaultdict(list)
    for one in live:
        if "agents" in one.roles:
            for name, report in one.report.agents.items():
                found[name].append(Hosted(report.concurrency, report.breaker, report.open_until))
    return found
