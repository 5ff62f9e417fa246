"""The last hour in numbers, sampled by this process: what the charts of the overview show.

Tasks that came in are counted by their numbers in the store, so that it does not matter who took them in.
Those that ended are counted as this process hears of them: all of its own, and on a server those of others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec

from backstay.domain.states import TaskState
from backstay.errors import Closed, Unavailable
from backstay.store.base import Changes
from backstay.store.records import TaskNumber
from backstay.web.common import Common

EVERY_SECONDS: Final = 10.0
SAMPLES_MAX: Final = 360

_FAILED: Final = frozenset({TaskState.ERROR, TaskState.UNDONE, TaskState.UNDO_FAILED})


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """How things stood at one moment; rates are a second's, since the sample before."""

    at: int
    entered: float
    ended: float
    failed: float
    pending: int
    processing: int
    waiting: int


class Samples:
    """A ring of samples: the oldest make room for the newest."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self._ring: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._ended = 0
        self._failed = 0
        self._last: _Mark | None = None

    def all(self) -> list[Sample]:
        """Oldest first."""
        return list(self._ring)

    @property
    def newest(self) -> Sample | None:
        return self._ring[-1] if self._ring else None

    async def run(self) -> None:
        """Sample until cancelled. A store that is away leaves a gap."""
        stop_listening = self.listen()
        try:
            while True:
                try:
                    await self.sample()
                except Unavailable:
                    self._last = None
                except Closed:
                    return
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            stop_listening()

    def listen(self) -> Callable[[], None]:
        """Count what ends from now on; returns how to stop that."""
        return self._common.ports.client.listen(self._changed)

    async def sample(self) -> None:
        """Take one now. The first has nothing that it could be compared with, and only begins."""
        ports = self._common.ports
        newest = await ports.client.newest()
        gauges = await self._common.task_gauges.get()
        mark = _Mark(ports.clock.monotonic(), newest, self._ended, self._failed)
        if self._last is not None:
            self._ring.append(_between(self._last, mark, gauges.tasks, ports.clock.now()))
        self._last = mark

    def _changed(self, changes: Changes) -> None:
        self._ended += len(changes.settled) + len(changes.ended)
        self._failed += sum(task.state in _FAILED for task in changes.settled)


class _Mark(msgspec.Struct, frozen=True):
    """How far the counts had got at a moment."""

    monotonic: float
    newest: int
    ended: int
    failed: int


def _between(before: _Mark, after: _Mark, tasks: Iterable[TaskNumber], now: datetime) -> Sample:
    seconds = max(after.monotonic - before.monotonic, 1e-3)
    numbers = Counter({one.state: one.number for one in tasks})

    def rate(first: int, last: int) -> float:
        return round(max(0, last - first) / seconds, 2)

    return Sample(
        at=int(now.timestamp()),
        entered=rate(before.newest, after.newest),
        ended=rate(before.ended, after.ended),
        failed=rate(before.failed, after.failed),
        pending=numbers[TaskState.PENDING],
        processing=numbers[TaskState.PROCESSING],
        waiting=numbers[TaskState.WAITING],
    )
