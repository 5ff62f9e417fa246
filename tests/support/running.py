"""Running an application in a test, with what such tests share, and waiting for something to become true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from backstay import App, Retry, TaskFailed
from backstay.client import Client
from backstay.clock import Clock, SystemClock
from backstay.domain.instants import micros_in
from backstay.errors import UnknownTask
from backstay.runtime import Running
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.views import Task

Value = TypeVar("Value")

PATIENCE_SECONDS = 10.0
SOON = PATIENCE_SECONDS

#: The sweep looks often, so that nobody waits for it; a process that is busy for a while is not dead.
FAST: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "1s", "lease": "10s"}
#: As fast, for tests in which it is the sweep that moves the task on.
FASTER: dict[str, Any] = FAST | {"supervisor_period": "20ms"}
ONCE = Retry(attempts=1)

#: A complete-by that passes soon, but not before the record of the attempt is written: it would never begin.
SHORT = "400ms"
SHORT_SECONDS = 0.4

#: With a clock that leaps, days may lie between two heartbeats.
NEVER_STALE = {"lease": "100d"}
_LOOK_EVERY_SECONDS = 0.005


class Down(Exception):
    """The service does not answer."""


class LeapingClock(SystemClock):
    """Real time, but now and then some of it is left out: days pass, and no timer has run."""

    def __init__(self) -> None:
        self._left_out = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self._left_out

    def micros(self) -> int:
        return super().micros() + micros_in(self._left_out)

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
    look: Callable[[], Awaitable[Value]],
    holds: Callable[[Value], object],
    *,
    what: str = "it",
    seconds: float = PATIENCE_SECONDS,
) -> Value:
    """Look until ``holds`` says yes to what was seen; that is what comes back."""
    seen: Value | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                seen = await look()
                if holds(seen):
                    return seen
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true; last seen: {seen!r}") from None


async def comes_true(holds: Callable[[], object]) -> None:
    async def look() -> object:
        return holds()

    await eventually(look, bool)


async def until(client: App | Client, task_id: str, *states: str) -> Task:
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


async def ends(client: App | Client, task_id: str) -> TaskFailed:
    """The failure that the task ends with."""
    try:
        result = await client.handle(task_id).result(SOON)
    except TaskFailed as failed:
        return failed
    raise AssertionError(f"{task_id} did not fail; its result: {result!r}")


async def recorded(app: App, task_id: str, key: str) -> None:
    """Wait until the task has a record of this step."""
    await eventually(lambda: step_of(app, task_id, key), bool, what=f"{task_id}/{key}")


async def step_of(app: App, task_id: str, key: str) -> Any:
    """The step as it is recorded, or nothing."""
    return next((step for step in await app.steps(task_id) if step.key == key), None)
