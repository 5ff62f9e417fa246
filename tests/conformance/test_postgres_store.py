"""PostgreSQL keeps every promise of a state store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backstay.store.postgres import PostgresStore
from backstay.testing import StoreSuite
from backstay.vault import Vault
from tests.support.databases import SECRET_KEY


class TestPostgresStore(StoreSuite):
    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[PostgresStore]:
        store = PostgresStore(postgres_url, server_clock=False, vault=Vault(SECRET_KEY))
        await store.open()
        yield store
        await store.close()
