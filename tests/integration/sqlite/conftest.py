"""A store in a file of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from tests.integration.sqlite.file import OpenStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[OpenStore]:
    """Opens stores on one file; all of them are closed at the end."""
    stores: list[SqliteStore] = []

    async def open_store(**options: Any) -> SqliteStore:
        store = SqliteStore(f"sqlite:///{path}", **options)
        await store.open()
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        await store.close()


@pytest.fixture
async def store(opened: OpenStore) -> SqliteStore:
    return await opened()


@pytest.fixture
async def alice(store: SqliteStore, clock: ManualClock) -> Holder:
    return await Holder.joined(store, clock, "alice")
