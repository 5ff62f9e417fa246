"""SQLite keeps every promise of a state store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay.store.sqlite import SqliteStore
from backstay.testing import StoreSuite


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(f"sqlite:///{tmp_path}/suite.db")
        await store.open()
        yield store
        await store.close()
