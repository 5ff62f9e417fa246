"""Where the slots of one agent are handed out: the limit, the breaker, and the line before them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from backstay.clock import Alarm, Alarms, Clock
from backstay.definitions.agents import Agent
from backstay.domain.breaker import BreakerState, Circuit
from backstay.observe import BREAKER_OPENED, emit


class Place:
    """A place in an agent's line, or a slot once it is granted."""

    __slots__ = ("_counter", "granted", "on_change", "used")

    def __init__(self, counter: Counter, on_change: Callable[[], None]) -> None:
        self._counter = counter
        self.on_change = on_change
        self.granted = False
        self.used = False

    def open_in_seconds(self) -> float:
        return self._counter.open_in_seconds()

    def give_back(self) -> None:
        self._counter.give_back(self)


class Counter:
    """First come, first served. Whatever changes for those in line is told to them here."""

    def __init__(self, agent: Agent, clock: Clock, alarms: Alarms) -> None:
        self._agent = agent.name
        self._circuit = Circuit(agent.breaker) if agent.breaker is not None else None
        self._limit = agent.concurrency
        self._clock = clock
        self._alarms = alarms
        self._taken = 0
        # Ordered, and left from the middle at no cost: a parked task must not stay in memory here.
        self._line: OrderedDict[Place, None] = OrderedDict()
        self._reopening: Alarm | None = None

    def open_in_seconds(self) -> float:
        now = self._clock.monotonic()
        return 0.0 if self._circuit is None else self._circuit.retry_at(now) - now

    # Slots

    def reserve(self, on_change: Callable[[], None]) -> Place:
        place = Place(self, on_change)
        if not self._line and self._take():
            place.granted = True
        else:
            self._wait_for_breaker()
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
        self._serve()

    # What the breaker hears. Each may open or close it, so each looks at the line again: a body that
    # hangs for ever frees no slot, and those in line would wait for that.

    def answered(self) -> None:
        if self._circuit is not None:
            self._circuit.succeeded()
            self._serve()

    def failed(self) -> None:
        if self._circuit is None:
            return
        now = self._clock.monotonic()
        was = self._circuit.state(now)
        self._circuit.failed(now)
        if was is not BreakerState.OPEN and self._circuit.state(now) is BreakerState.OPEN:
            emit(BREAKER_OPENED, agent=self._agent)
        self._serve()

    def withdrawn(self) -> None:
        """A call ended without a verdict on the service."""
        if self._circuit is not None:
            self._circuit.withdraw()
        self._serve()

    def admit(self) -> bool:
        """Whether the breaker lets a call through now."""
        return self._circuit is None or self._circuit.admit(self._clock.monotonic())

    # The line

    def _take(self) -> bool:
        if (self._limit is not None and self._taken >= self._limit) or not self.admit():
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
            place.on_change()

    def _wait_for_breaker(self) -> None:
        """Nobody frees a slot while the breaker keeps everybody out: come back when it may let one in."""
        seconds = self.open_in_seconds()
        if seconds > 0 and self._reopening is None:
            self._reopening = self._alarms.after(seconds, self._reopen)
            for place in list(self._line):
                place.on_change()

    def _reopen(self) -> None:
        self._reopening = None
        self._serve()
