"""Where the slots of one agent are handed out: limit and pace, the breaker, a person's hand, and the line."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.clock import Alarm, Alarms, Clock
from backstay.definitions.agents import Agent
from backstay.domain.breaker import BreakerState, Circuit, Turn
from backstay.domain.control import Control, Forced
from backstay.domain.latency import Recently
from backstay.domain.pace import Call, Governor
from backstay.domain.step import failure_of
from backstay.observe import AGENT_SLOWED, BREAKER_OPENED, emit
from backstay.store.base import AgentReport, BreakerTurn

# Nobody knows how long a person holds an agent back. Letting it go on wakes who waits; this is the net.
HELD_SECONDS: Final = 300.0

# Of what opened a breaker, so much is reported.
ERROR_LENGTH_MAX: Final = 200


class Place(msgspec.Struct, eq=False):
    """A place in an agent's line, or a slot once it is granted."""

    counter: Counter
    granted: bool
    used: bool = False
    _changed: Callable[[], None] | None = None

    def when_changed(self, callback: Callable[[], None] | None) -> None:
        self._changed = callback

    def change(self) -> None:
        """Something changed for who stands in line here."""
        if self._changed is not None:
            self._changed()

    def open_in_seconds(self) -> float:
        return self.counter.open_in_seconds()

    def give_back(self) -> None:
        self.counter.give_back(self)


class Counter:
    """First come, first served. Whatever changes for those in line is told to them here."""

    def __init__(self, agent: Agent, clock: Clock, alarms: Alarms) -> None:
        self._agent = agent.name
        self.breaker = Circuit(agent.breaker) if agent.breaker is not None else None
        self._most = agent.concurrency
        self.governor = (
            None
            if agent.pace is None or agent.concurrency is None
            else Governor(agent.pace, most=agent.concurrency)
        )
        self._clock = clock
        self._alarms = alarms
        self._recently = Recently(clock.monotonic())
        #: Told how many seconds each call took.
        self.took = self._recently.ended
        self._taken = 0
        # Ordered, and left from the middle at no cost: a parked task must not stay in memory here.
        self._line: OrderedDict[Place, None] = OrderedDict()
        self._reopening: Alarm | None = None
        self._control: Control | None = None
        self._closing = False
        # Whether nothing can stand in anybody's way.
        self._unrestrained = self.breaker is None and self._most is None

    @property
    def _limit(self) -> int | None:
        return self._most if self.governor is None else self.governor.limit

    @property
    def judges(self) -> bool:
        """Whether anything follows from how calls end."""
        return self.breaker is not None or self.governor is not None

    @property
    def in_flight(self) -> int:
        return self._taken

    @property
    def in_line(self) -> int:
        return len(self._line)

    def report(self) -> AgentReport:
        """How the agent stands in this process, for those who look at the store."""
        seconds = self.open_in_seconds()
        now, monotonic = self._clock.now(), self._clock.monotonic()
        return AgentReport(
            in_flight=self._taken,
            waiting=len(self._line),
            concurrency=self._limit,
            breaker=self._breaker(),
            open_until=now + timedelta(seconds=seconds) if seconds > 0 else None,
            concurrency_max=self._most,
            calls=self._recently.read(monotonic),
            breaker_turns=[] if self.breaker is None else _as_instants(self.breaker.turns, now, monotonic),
        )

    def open_in_seconds(self) -> float:
        """How long nobody is let in at least; 0 when only a slot is missing."""
        if self._held:
            return HELD_SECONDS
        if self.breaker is None or self._forced is Forced.CLOSED:
            return 0.0
        now = self._clock.monotonic()
        return self.breaker.retry_at(now) - now

    def vacancies(self, at_most: int) -> int:
        """How many would be let in now, but no more than ``at_most`` beside those that are there."""
        if self._closing or self._line or self.open_in_seconds() > 0:
            return 0
        limit = self._limit
        room = max(0, (at_most if limit is None else min(limit, at_most)) - self._taken)
        if self.breaker is None or self._forced is Forced.CLOSED:
            return room
        return min(room, self.breaker.admits(self._clock.monotonic(), at_most))

    # A person's hand

    def regulate(self, control: Control | None) -> bool:
        """Obey what an operator decided: nobody is let in, the breaker does not count, or neither.

        Whether steps may begin now that could not before.
        """
        if control == self._control:
            return False
        was_shut = self.open_in_seconds() > 0
        self._control = control
        self._judge_restraint()
        if self._reopening is not None:
            self._reopening.cancel()
            self._reopening = None
        self._serve()
        return was_shut and self.open_in_seconds() <= 0

    def close(self) -> None:
        """The process is about to stop: let nobody in any more, and those in line stay there."""
        self._closing = True
        self._judge_restraint()

    def _judge_restraint(self) -> None:
        self._unrestrained = (
            self.breaker is None and self._most is None and not self._held and not self._closing
        )

    @property
    def _forced(self) -> Forced | None:
        return None if self._control is None else self._control.breaker

    @property
    def _held(self) -> bool:
        return self._control is not None and self._control.shuts

    def _breaker(self) -> BreakerState:
        if self._forced is not None:
            return BreakerState(self._forced)
        if self.breaker is None:
            return BreakerState.CLOSED
        return self.breaker.state(self._clock.monotonic())

    # Slots

    def reserve(self) -> Place:
        if self._unrestrained:
            self._taken += 1
            return Place(self, granted=True)
        if not self._line and self._take():
            return Place(self, granted=True)
        self._wait_for_breaker()
        place = Place(self, granted=False)
        self._line[place] = None
        return place

    def give_back(self, place: Place) -> None:
        """Leave the line, or free a slot that was not used."""
        if place in self._line:
            del self._line[place]
        elif place.granted and not place.used:
            place.used = True
            self._taken -= 1
            self.withdrawn()

    def free(self) -> None:
        """An attempt has ended, and so has its body."""
        self._taken -= 1
        if self._line:
            self._serve()

    # What breaker and pace hear. Each may let more in, so each looks at the line again: a body that hangs for
    # ever frees no slot, and those in line would wait for that.

    def began(self) -> Call | None:
        """A call begins in a slot; ``None`` when nobody keeps the time."""
        if self.governor is None:
            return None
        return self.governor.began(self._clock.monotonic(), in_flight=self._taken)

    def answered(self, call: Call | None, kind: str, now: float) -> None:
        """The service did its work, or refused it. ``kind`` tells apart what takes it more and less time."""
        if call is not None and self.governor is not None:
            before = self.governor.limit
            self.governor.answered(call, kind, now)
            self._tell_of_pace(before)
        if self.breaker is not None:
            self.breaker.succeeded(now)
        self._serve()

    def failed(self, call: Call | None, error: BaseException | None, now: float) -> None:
        """The service failed, with ``error``; or, without one, did not answer in time."""
        self._recently.failed()
        before = 0 if self.governor is None else self.governor.limit
        if call is not None and self.governor is not None:
            self.governor.failed(call)
        if self.breaker is not None:
            self._count_against(self.breaker, error, now)
        self._tell_of_pace(before)
        self._serve()

    def withdrawn(self, call: Call | None = None) -> None:
        """A call ended without a verdict on the service."""
        if call is not None and self.governor is not None:
            self.governor.withdrawn(call)
        if self.breaker is not None:
            self.breaker.withdraw()
        self._serve()

    def _count_against(self, breaker: Circuit, error: BaseException | None, now: float) -> None:
        was = breaker.state(now)
        breaker.failed(now, _said(error))
        if was is not BreakerState.OPEN and breaker.state(now) is BreakerState.OPEN:
            emit(BREAKER_OPENED, agent=self._agent)
            if self.governor is not None:
                self.governor.begin_again()  # A service that comes back is not met by all who waited.

    def _tell_of_pace(self, before: int) -> None:
        # Logged only for those who look for it: at the edge of what a service can do it is the rule.
        if self.governor is not None and self.governor.limit < before:
            emit(AGENT_SLOWED, level=logging.DEBUG, agent=self._agent, limit=self.governor.limit)

    def admit(self) -> bool:
        """Whether a call is let through now."""
        if self._held:
            return False
        if self.breaker is None or self._forced is Forced.CLOSED:
            return True
        return self.breaker.admit(self._clock.monotonic())

    # The line

    def _take(self) -> bool:
        limit = self._limit
        full = limit is not None and self._taken >= limit
        if self._closing or full or not self.admit():
            return False
        self._taken += 1
        return True

    def _serve(self) -> None:
        """Hand out what is free."""
        while self._line:
            if not self._take():
                self._wait_for_breaker()
                return
            place, _ = self._line.popitem(last=False)
            place.granted = True
            place.change()
            place.when_changed(None)

    def _wait_for_breaker(self) -> None:
        """Nobody frees a slot while the breaker keeps everybody out: come back when it may let one in."""
        seconds = self.open_in_seconds()
        if seconds > 0 and self._reopening is None:
            self._reopening = self._alarms.after(seconds, self._reopen)
            for place in list(self._line):
                place.change()

    def _reopen(self) -> None:
        self._reopening = None
        self._serve()


def _said(error: BaseException | None) -> str:
    if error is None:
        return "no answer in time"
    failure = failure_of(error)
    return f"{failure.type}: {failure.message}"[:ERROR_LENGTH_MAX]


def _as_instants(turns: Iterable[Turn], now: datetime, monotonic: float) -> list[BreakerTurn]:
    """As those see them who have no monotonic clock of ours."""
    return [
        BreakerTurn(
            at=now - timedelta(seconds=monotonic - turn.at),
            state=turn.state,
            failures=turn.failures,
            error=turn.error,
        )
        for turn in turns
    ]
