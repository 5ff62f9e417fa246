"""Running an application in a test, and waiting for something to become true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from backstay import App
from backstay.client import Client
from backstay.clock import Clock, SystemClock
from backstay.errors import UnknownTask
from backstay.runtime import Running
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.views import Task

Value = TypeVar("Value")

PATIENCE_SECONDS = 10.0

#: With a clock that leaps, days may lie between two heartbeats.
NEVER_STALE = {"lease": "100d"}
_LOOK_EVERY_SECONDS = 0.005


class LeapingClock(SystemClock):
    """Real time, but now and then some of it is left out: days pass, and no timer has run."""

    def __init__(self) -> None:
        self._left_out = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self._left_out

    def leap(self, time: timedelta) -> None:
        self._left_out += time


@asynccontextmanager
async def running(
    app: App, store: Store, *, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Client]:
    """All roles of ``app`` on ``store``; the sweep looks often, so that nobody waits for it."""
    settings = Settings.load({"supervisor_period": "20ms", **options}, environment={})
    async with Running(app.registry, settings, store=store, clock=clock) as live:
        assert live.client is not None
        yield live.client


async def eventually(
    look: Callable[[], Awaitable[Value]], holds: Callable[[Value], object], *, what: str = "it"
) -> Value:
    """Look until ``holds`` says yes to what was seen; that is what comes back."""
    seen: Value | None = None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                seen = await look()
                if holds(seen):
                    return seen
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true; last seen: {seen!r}") from None


async def until(client: Client, task_id: str, *states: str) -> Task:
    """The task, once it is there and in one of ``states``."""

    async def look() -> Task | None:
        try:
            return await client.task(task_id)
        except UnknownTask:
            return None

    found = await eventually(
        look, lambda task: task and task.state in states, what=f"{task_id} {' or '.join(states)}"
    )
    assert found is not None
    return found
