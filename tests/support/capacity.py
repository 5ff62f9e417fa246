"""A service that can do so much and no more, and an agent that calls it, in a time that nobody waits for."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from random import Random

from backstay.agents.counter import Counter, Place
from backstay.clock import Alarms
from backstay.definitions.agents import Agent
from backstay.domain.pace import Call
from backstay.testing import ManualClock

#: So many steps want to be done at any time.
DEMAND = 400

#: A service that is down says so after this time.
REFUSAL_SECONDS = 0.002

#: From so many times its capacity on, a service loses time over those that wait.
CROWD = 2


class Service:
    """Works on ``capacity`` calls at once, about ``seconds`` each; the others wait, and a crowd slows it."""

    def __init__(self, capacity: int, *, seconds: float = 0.05, spread: float = 0.5) -> None:
        self.capacity = capacity
        self.seconds = seconds
        self.spread = spread
        self.up = True
        self.random = Random(7)

    def work_seconds(self, inside: int) -> float:
        drawn = math.exp(self.random.gauss(-(self.spread**2) / 2, self.spread))
        return self.seconds * drawn * max(1.0, inside / (CROWD * self.capacity))


class World:
    """The agent's counter and the service. ``run`` lets time pass; there is always somebody in line."""

    def __init__(self, agent: Agent, service: Service) -> None:
        self.clock = ManualClock()
        self.alarms = Alarms(self.clock)
        self.counter = Counter(agent, self.clock, self.alarms)
        self.service = service
        self.answered = 0
        self.refused = 0
        #: How many calls were at the service at the same time, at most since the last run began.
        self.most = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._queue: deque[Call | None] = deque()
        self._at_work = 0
        for _ in range(DEMAND):
            self._want()

    @property
    def limit(self) -> int:
        limit = self.counter.report().concurrency
        assert limit is not None
        return limit

    def run(self, seconds: float) -> float:
        """Let ``seconds`` pass; how many calls a second the service answered meanwhile."""
        end = self.clock.monotonic() + seconds
        before, self.most = self.answered, 0
        while self._events and self._events[0][0] <= end:
            at, _, happens = heapq.heappop(self._events)
            self._until(at)
            happens()
        self._until(end)
        return (self.answered - before) / seconds

    def _until(self, at: float) -> None:
        self.clock.pass_time(timedelta(seconds=max(0.0, at - self.clock.monotonic())))
        self.alarms.run_once()

    def _after(self, seconds: float, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.monotonic() + seconds, next(self._order), happens))

    # An agent's side

    def _want(self) -> None:
        place = self.counter.reserve()
        if place.granted:
            self._begin(place)
        else:
            place.when_changed(lambda: self._begin(place) if place.granted else None)

    def _begin(self, place: Place) -> None:
        place.used = True
        call = self.counter.began()
        self.most = max(self.most, self.counter.in_flight)
        if not self.service.up:
            self._after(REFUSAL_SECONDS, lambda: self._refuse(call))
        elif self._at_work < self.service.capacity:
            self._work(call)
        else:
            self._queue.append(call)

    def _end(self) -> None:
        self.counter.free()
        self._want()

    # The service's side

    def _work(self, call: Call | None) -> None:
        self._at_work += 1
        self._after(self.service.work_seconds(self.counter.in_flight), lambda: self._answer(call))

    def _answer(self, call: Call | None) -> None:
        self._at_work -= 1
        self.answered += 1
        while self._queue and self._at_work < self.service.capacity:
            self._work(self._queue.popleft())
        self.counter.answered(call, "work", self.clock.monotonic())
        self._end()

    def _refuse(self, call: Call | None) -> None:
        self.refused += 1
        self.counter.failed(call, None, self.clock.monotonic())
        self._end()
