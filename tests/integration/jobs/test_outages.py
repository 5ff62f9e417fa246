"""A store that is away for a while costs neither an instant nor a second request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from backstay import App
from backstay.domain.jobs.records import EntryStatus, JobState
from backstay.errors import StoreUnavailable
from backstay.jobs import acting, ticker
from backstay.store.jobs import Attempt, DueJob
from tests.support.databases import Database
from tests.support.running import LeapingClock, eventually
from tests.support.running_jobs import running_jobs, store_by_our_clock
from tests.support.service import HttpService

#: So often in a row nobody answers.
TIMES = 3


async def test_what_could_not_be_told_is_told_later_and_not_done_again(
    app: App, database: Database, service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    store = store_by_our_clock(database)
    kind, failures = type(store.jobs), {"due": TIMES, "record": TIMES}
    due, record = kind.due, kind.record

    def fail(verb: str) -> None:
        failures[verb] -= 1
        if failures[verb] >= 0:
            raise StoreUnavailable("it is away")

    async def no_due(self: Any, **how: Any) -> list[DueJob]:
        fail("due")
        return await due(self, **how)

    async def no_record(self: Any, attempts: Sequence[Attempt], **how: Any) -> list[bool]:
        fail("record")
        return await record(self, attempts, **how)

    monkeypatch.setattr(kind, "due", no_due)
    monkeypatch.setattr(kind, "record", no_record)
    monkeypatch.setattr(ticker, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(acting, "RECORD_SECONDS", 0.01)
    clock = LeapingClock()
    async with running_jobs(app, store, clock) as jobs:
        await jobs.calendar.open(clock.now())
        await jobs.put({"type": "Http", "request": {"uri": service.url, "method": "GET"}})
        [entry] = await jobs.attempts(1)
        await eventually(jobs.calendar.job, lambda job: job.state is JobState.COMPLETED)

    assert entry.status is EntryStatus.COMPLETED
    assert len(service.asked) == 1
    assert max(failures.values()) < 0
