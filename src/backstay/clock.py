"""Where ``now`` comes from, and the one timer behind every deadline.

Time is an argument: whatever needs it is handed a ``Clock``. Tests hand in one that they turn by
hand (``backstay.testing.ManualClock``) and call ``Alarms.run_once()``.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Final, Protocol

# Fewer cancelled alarms than this are not worth a sweep.
SWEEP_FROM: Final = 1_000


class Clock(Protocol):
    """Readings of the same time: the instant, in two forms, and seconds that never jump."""

    def now(self) -> datetime: ...

    def micros(self) -> int:
        """``now`` in whole microseconds since 1970 (``domain.instants``)."""

    def monotonic(self) -> float: ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def micros(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)


class Alarm:
    """A callback that is due at some time; ``cancel`` is cheap and may be called more than once."""

    __slots__ = ("_alarms", "callback")

    def __init__(self, callback: Callable[[], None], alarms: Alarms) -> None:
        self.callback: Callable[[], None] | None = callback
        self._alarms = alarms

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._alarms.one_was_cancelled()


class Alarms:
    """Any number of alarms on one timer of the event loop: the one that is due next.

    Most alarms are cancelled long before they are due, so the cancelled ones are swept out once they
    are the majority.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Alarms are also set from inside workflows, which have an event loop and a context of their own.
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._heap: list[tuple[float, int, Alarm]] = []
        self._number = itertools.count()
        self._cancelled = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = math.inf
        #: How many coroutines sleep here.
        self.sleepers = 0

    def after(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """Call ``callback`` once ``seconds`` have passed."""
        due = self._clock.monotonic() + seconds
        alarm = Alarm(callback, self)
        heapq.heappush(self._heap, (due, next(self._number), alarm))
        if due < self._armed_for:
            self._arm(due)
        return alarm

    async def sleep(self, seconds: float) -> None:
        """Come back once ``seconds`` have passed."""
        done = self._loop.create_future()
        alarm = self.after(seconds, lambda: None if done.done() else done.set_result(None))
        self.sleepers += 1
        try:
            await done
        finally:
            self.sleepers -= 1
            alarm.cancel()

    @property
    def next_due(self) -> float:
        """When the first of them is due, by the clock's ``monotonic``; those that were cancelled count."""
        return self._heap[0][0] if self._heap else math.inf

    def clock_was_turned(self) -> None:
        """See anew, from the event loop, what is due: the clock has gone ahead by hand."""
        if self._heap:
            self._arm(self._heap[0][0])

    def run_once(self) -> None:
        """Fire what is due, then wait for the next."""
        try:
            self._fire()
        finally:
            # Also when a callback failed: the others wait for the same timer.
            self._disarm()
            if self._heap:
                self._arm(self._heap[0][0])

    def _fire(self) -> None:
        now = self._clock.monotonic()
        heap = self._heap
        while heap and (heap[0][0] <= now or heap[0][2].callback is None):
            alarm = heapq.heappop(heap)[2]
            callback, alarm.callback = alarm.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback()

    def one_was_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def clear(self) -> None:
        self._heap.clear()
        self._cancelled = 0
        self._disarm()

    def _arm(self, due: float) -> None:
        self._disarm()
        delay = max(0.0, due - self._clock.monotonic())
        self._timer = self._loop.call_later(delay, self.run_once, context=self._context)
        self._armed_for = due

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._armed_for = math.inf
