"""A crash after any commit: the occurrence comes to its end, and each attempt is in the history once."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from backstay import App
from backstay.domain.jobs.records import ActionName, Counters, EntryStatus, HistoryEntry, JobState
from backstay.errors import Unknown
from tests.support.crashes import Crashes
from tests.support.jobs import Calendar
from tests.support.running import LeapingClock, eventually
from tests.support.running_jobs import Jobs, running_jobs
from tests.support.service import HttpService, says

FAILED = EntryStatus.FAILED
PAUSE = timedelta(seconds=15)


async def test_whenever_the_process_dies_the_attempts_are_those_that_the_policy_wants(
    crashes: Crashes, service: HttpService
):
    request = {"uri": service.url, "method": "POST"}
    policy = {"retryType": "Fixed", "retryInterval": "00:00:15", "retryCount": 1}
    error = {"type": "Http", "request": request, "retryPolicy": {"retryType": "None"}}
    action = {"type": "Http", "request": request, "retryPolicy": policy, "errorAction": error}
    service.answers = [says(503)]
    clock = LeapingClock()
    async with running_jobs(App("jobs"), crashes.store(), clock) as jobs:
        await jobs.calendar.open(clock.now())
        await jobs.put(action)
        await jobs.attempts(1)
        await jobs.after(PAUSE, 2)
        [task_id] = await jobs.ended()

    seen = set()
    for crash in crashes.copies:
        async with running_jobs(App("jobs"), crash.store(), clock) as jobs:
            if not await is_written(jobs.calendar):
                continue
            asked, known = len(service.asked), len(await jobs.calendar.history())
            seen.add(known)
            entries = await slept_through(jobs)
            assert await jobs.ended() == [task_id]
            job = await jobs.calendar.job()

        # What is in the history is not done again, although nobody else was told of it.
        assert len(service.asked) - asked == 3 - known
        assert [(one.action, one.status, one.retry) for one in entries] == [
            (ActionName.MAIN, FAILED, 0),
            (ActionName.MAIN, FAILED, 1),
            (ActionName.ERROR, FAILED, 0),
        ]
        assert (job.state, job.counters) == (JobState.FAULTED, Counters(executions=1, failures=2, faults=1))
    # There were crashes before the first attempt, and between all others.
    assert seen >= {0, 1, 2, 3}
    assert {*service.headers("Idempotency-Key")} == {task_id, f"{task_id}/error"}


async def slept_through(jobs: Jobs) -> list[HistoryEntry]:
    """The history of an occurrence that is done, however often it sleeps."""

    async def look() -> list[HistoryEntry]:
        # Only while it sleeps: an attempt would run out of time.
        if any(task.state == "waiting" for task in await jobs.calendar.tasks()):
            jobs.clock.leap(PAUSE)
        return await jobs.calendar.history()

    return await eventually(look, lambda found: len(found) == 3, what="three attempts")


async def is_written(calendar: Calendar) -> bool:
    with suppress(Unknown):
        return bool(await calendar.job())
    return False
