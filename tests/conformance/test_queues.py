"""Every database keeps every promise of queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay.messaging.queue import Queues
from backstay.store.postgres import PostgresStore
from backstay.store.sqlite import SqliteStore
from backstay.testing import QueueSuite


class TestSqliteQueues(QueueSuite):
    @pytest.fixture
    async def queues(self, tmp_path: Path) -> AsyncIterator[Queues]:
        store = SqliteStore(f"sqlite:///{tmp_path}/suite.db")
        await store.open()
        yield store.queues
        await store.close()


class TestPostgresQueues(QueueSuite):
    @pytest.fixture
    async def queues(self, postgres_url: str) -> AsyncIterator[Queues]:
        store = PostgresStore(postgres_url, server_clock=False)
        await store.open()
        yield store.queues
        await store.close()
