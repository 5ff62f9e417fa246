"""An application whose jobs run on every database, against a real receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from backstay import App
from tests.support.databases import Database
from tests.support.running import LeapingClock
from tests.support.running_jobs import Jobs, RunJobs, running_jobs, store_by_our_clock
from tests.support.service import HttpService, http_service


@pytest.fixture
def app() -> App:
    return App("jobs")


@pytest.fixture
async def service() -> AsyncIterator[HttpService]:
    async with http_service() as receiver:
        yield receiver


@pytest.fixture
def run_jobs(app: App, database: Database) -> RunJobs:
    """Run them; there is a collection."""

    @asynccontextmanager
    async def run(**settings: Any) -> AsyncIterator[Jobs]:
        clock = LeapingClock()
        async with running_jobs(app, store_by_our_clock(database), clock, **settings) as jobs:
            await jobs.calendar.open(clock.now())
            yield jobs

    return run


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """One that this machine trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made
