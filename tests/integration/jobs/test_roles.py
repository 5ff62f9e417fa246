"""Who runs jobs: any process with the role, as soon as there is something to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from backstay import App
from backstay.clock import SystemClock
from backstay.domain.jobs.records import JobState
from backstay.domain.recurrence import Moment
from backstay.jobs import ticker
from backstay.observe import OCCURRENCE_STARTED, counters
from backstay.runtime import Running
from backstay.runtime.roles import Role, Roles
from backstay.settings import Settings
from tests.support.databases import Database
from tests.support.jobs import Calendar
from tests.support.running import eventually
from tests.support.service import HttpService
from tests.support.split import FAST

ALLOWED = {**FAST, "outbound_allow": "loopback"}
#: Nobody looks by itself within the time of a test.
NEVER = 3600.0


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(milliseconds=300)])
async def test_a_job_that_is_written_is_started_when_it_is_due_and_not_at_the_next_look(
    app: App, database: Database, service: HttpService, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
):
    monkeypatch.setattr(ticker, "LOOK_SECONDS", NEVER)
    store = database.store()
    async with Running(app.registry, Settings.load(ALLOWED, environment={}), store=store) as live:
        await live.registered.wait()
        calendar = Calendar(store)
        await calendar.open(live.clock.now())
        now = live.clock.now()
        action = {"type": "Http", "request": {"uri": service.url, "method": "GET"}}

        await calendar.put("j", {"startTime": Moment(now + ahead).text, "action": action}, now=now)

        await eventually(calendar.job, lambda job: job.state is JobState.COMPLETED)


@pytest.fixture
def process(app: App, database: Database) -> Callable[..., Running]:
    def made(*roles: Role) -> Running:
        settings = Settings.load(ALLOWED, environment={})
        return Running(app.registry, settings, store=database.store(), roles=Roles(roles))

    return made


async def test_ticker_scheduler_and_agents_may_be_in_processes_of_their_own(
    process: Callable[..., Running], database: Database, service: HttpService
):
    async with AsyncExitStack() as parts:
        for roles in ([Role.JOBS], [Role.JOBS], [Role.SCHEDULER, Role.SUPERVISOR], [Role.AGENTS]):
            await parts.enter_async_context(process(*roles))
        store = database.store()
        await store.open()
        parts.push_async_callback(store.close)
        calendar, now = Calendar(store), SystemClock().now()
        await calendar.open(now)
        action = {"type": "Http", "request": {"uri": service.url, "method": "GET"}}
        for number in range(10):
            await calendar.put(f"j{number}", {"startTime": Moment(now).text, "action": action}, now=now)

        names = [f"j{number}" for number in range(10)]

        async def states() -> set[JobState]:
            return {(await calendar.job(name)).state for name in names}

        await eventually(states, lambda seen: seen == {JobState.COMPLETED})

    assert sorted(str(name) for name in service.headers("x-ms-scheduler-jobid")) == names


async def test_a_process_that_drains_starts_nothing_more(
    process: Callable[..., Running], database: Database, service: HttpService
):
    counters.clear()
    async with process(Role.JOBS) as live:
        await live.registered.wait()
        await live.drain()
        store = database.store()
        await store.open()
        calendar, now = Calendar(store), live.clock.now()
        await calendar.open(now)
        action = {"type": "Http", "request": {"uri": service.url, "method": "GET"}}
        await calendar.put("j", {"startTime": Moment(now).text, "action": action}, now=now)

    assert counters[OCCURRENCE_STARTED] == 0
    assert await calendar.tasks() == []
    await store.close()
