"""A whole platform stepped by hand: three days pass in a moment, and every test sees the same.

The clock stands still. Whatever can happen without it moving happens in ``settle``; ``pass_time`` goes from
one moment at which something is due to the next, and settles at each. Only the bodies of steps are real: they
are waited for, on the clock of the machine, for a while.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from backstay.app import App
from backstay.domain import durations
from backstay.domain.durations import Duration
from backstay.domain.states import TaskState
from backstay.runtime import Role, Running, open_store
from backstay.settings import Settings
from backstay.store.base import Store, TaskFilter
from backstay.testing.clock import ManualClock

#: Queues and streams are read at their own pace: whoever tests them runs the application as it is.
ROLES: Final = frozenset({Role.SCHEDULER, Role.AGENTS, Role.SUPERVISOR, Role.JOBS})

#: Days may pass between two signs of life, and nobody is dead.
LEASE: Final = timedelta(days=36_500)

# In a row: between a reply and the write that it leads to, everything looks at rest.
_QUIET_LOOKS: Final = 3
_LOOK_SECONDS: Final = 0.001
# As many as may wait in a store by default.
_TASKS_MAX: Final = 100_000
_SLEEPING: Final = (TaskState.WAITING, TaskState.UNDOING)


@asynccontextmanager
async def stepped(
    app: App,
    clock: ManualClock | None = None,
    *,
    seed: int = 1,
    patience: Duration = "1s",
    **options: Any,
) -> AsyncIterator[Platform]:
    """Run ``app`` on a store of its own, with a clock that stands still until the test lets time pass.

    ``app.submit`` and everything else work as they do inside ``app.run``; ``options`` are settings by name.
    ``seed`` decides what chance decides. The body of a step that has not ended after ``patience``, on the
    clock of the machine, is taken to wait for time to pass.
    """
    clock = clock or ManualClock()
    with TemporaryDirectory(prefix="backstay-") as folder:
        url = f"sqlite:///{Path(folder, 'test.db')}"
        settings = Settings.load({"store": url, "lease": LEASE, **options}, environment={})
        store = open_store(settings)
        running = Running(
            app.registry,
            settings,
            store=store,
            clock=clock,
            random=Random(seed),  # noqa: S311  For jitter, not for secrets.
            roles=ROLES,
        )
        async with running:
            assert running.client is not None
            await running.registered.wait()
            with app.running_with(running.client):
                yield Platform(running, store, clock, patience=durations.duration(patience))


class Platform:
    """An application that runs, and the hand on its clock."""

    def __init__(self, running: Running, store: Store, clock: ManualClock, *, patience: timedelta) -> None:
        self.clock = clock
        self._running = running
        self._store = store
        self._patience_seconds = patience.total_seconds()
        # Bodies that were waited for in vain.
        self._hang = 0

    async def settle(self) -> None:
        """Come back when nothing more happens unless time passes, or somebody acts."""
        quiet = 0
        while quiet < _QUIET_LOOKS:
            moved = await self._running.instance.turn()
            await self._at_rest()
            quiet = 0 if moved else quiet + 1

    async def pass_time(self, duration: Duration) -> None:
        """Let time pass, and at its moment whatever is due meanwhile."""
        end = self.clock.now() + durations.duration(duration)
        await self.settle()
        while (left := end - self.clock.now()) > timedelta(0):
            self.clock.pass_time(min(left, await self._until_due()))
            self._running.instance.alarms.clock_was_turned()
            await self.settle()

    async def _at_rest(self) -> None:
        deadline = time.monotonic() + self._patience_seconds
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            instance = self._running.instance
            self._hang = min(self._hang, instance.calls)
            if instance.in_motion:
                continue
            if instance.calls == self._hang:
                return
            if time.monotonic() >= deadline:
                self._hang = instance.calls
                return

    async def _until_due(self) -> timedelta:
        """How long until something is due."""
        now = self.clock.now()
        sleeping = await self._store.tasks(TaskFilter(states=_SLEEPING, limit=_TASKS_MAX))
        dues = [task.wake_at for task in sleeping] + [await self._store.jobs.next_due()]
        ahead = [due - now for due in dues if due is not None and due > now]
        return min([*ahead, self._until_alarm()])

    def _until_alarm(self) -> timedelta:
        """With nothing in memory no alarm is of consequence; the one that looks around comes each second."""
        instance = self._running.instance
        if not instance.runs or instance.alarms.next_due == math.inf:
            return timedelta.max
        seconds = instance.alarms.next_due - self.clock.monotonic()
        # What is due within a microsecond must not stay so for ever because that is rounded away.
        return max(timedelta.resolution, timedelta(seconds=seconds))
