"""All roles of an application on one store, with its jobs, by a clock that leaps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from backstay import App
from backstay.client import Client
from backstay.domain.jobs.records import HistoryEntry, JobRecord
from backstay.domain.recurrence import Moment
from backstay.store.base import Store
from tests.support.databases import Database, PostgresDatabase
from tests.support.jobs import Calendar
from tests.support.running import NEVER_STALE, LeapingClock, eventually, running


@dataclass
class Jobs:
    """What runs, and what it runs."""

    client: Client
    calendar: Calendar
    clock: LeapingClock

    async def put(self, action: dict[str, Any], name: str = "j", **properties: Any) -> JobRecord:
        """Write a job that runs once, now."""
        now = self.clock.now()
        start = {"startTime": Moment(now).text}
        return await self.calendar.put(name, {"action": action, **start, **properties}, now=now)

    async def attempts(self, number: int, name: str = "j") -> list[HistoryEntry]:
        """The history, once there are so many entries."""
        return await eventually(
            lambda: self.calendar.history(name), lambda found: len(found) >= number, what=f"{number} entries"
        )

    async def after(self, pause: timedelta, number: int) -> list[HistoryEntry]:
        """The history after ``pause``, through which the occurrence sleeps; nothing comes before."""
        before = len(await self.attempts(number - 1))
        await eventually(self.calendar.tasks, lambda tasks: any(task.state == "waiting" for task in tasks))
        assert len(await self.calendar.history()) == before
        self.clock.leap(pause)
        return await self.attempts(number)

    async def ended(self) -> list[str]:
        """The ids of the occurrences, once all of them have come to their end."""
        tasks = await eventually(
            self.calendar.tasks, lambda found: found and all(task.state == "processed" for task in found)
        )
        return [task.id for task in tasks]


RunJobs = Callable[..., AbstractAsyncContextManager[Jobs]]


def store_by_our_clock(database: Database) -> Store:
    """One that goes by the time that it is told."""
    return database.store(**({"server_clock": False} if isinstance(database, PostgresDatabase) else {}))


@asynccontextmanager
async def running_jobs(app: App, store: Store, clock: LeapingClock, **settings: Any) -> AsyncIterator[Jobs]:
    async with running(
        app, store, clock=clock, **{**NEVER_STALE, "outbound_allow": "loopback", **settings}
    ) as client:
        yield Jobs(client, Calendar(store), clock)
