"""A log in a file of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backstay.messaging.embedded import EmbeddedLog
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed
from tests.integration.embedded_log.file import OpenLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[OpenLog]:
    """Opens logs on one file; all of them are closed at the end."""
    logs: list[EmbeddedLog] = []

    async def open_log(**options: Any) -> EmbeddedLog:
        log = EmbeddedLog(f"sqlite:///{path}", **options)
        await log.open()
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        await log.close()


@pytest.fixture
async def log(opened: OpenLog) -> EmbeddedLog:
    return await opened()


@pytest.fixture
async def feed(log: EmbeddedLog, clock: ManualClock) -> Feed:
    """With a stream called rides, of four partitions."""
    feed = Feed(log, clock)
    await feed.declare()
    return feed
