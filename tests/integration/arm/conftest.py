"""A server over a store, for clients of Azure Scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay import App
from backstay.messaging.embedded import EmbeddedLog
from backstay.store.base import Store
from tests.support.arm import Arm
from tests.support.databases import Database
from tests.support.serving import Served, serving


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    store = database.store()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def served(store: Store, tmp_path: Path) -> AsyncIterator[Served]:
    log = EmbeddedLog(f"sqlite:///{tmp_path / 'streams.db'}")
    await log.open()
    async with serving(store, App("jobs").registry, log=log) as served:
        yield served


@pytest.fixture
def arm(served: Served) -> Arm:
    return Arm(served)


@pytest.fixture
async def jc1(arm: Arm) -> Arm:
    """With a collection of that name."""
    await arm.made("jc1")
    return arm
