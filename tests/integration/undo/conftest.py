"""An application without steps yet, for every database."""

from __future__ import annotations

import pytest

from backstay import App
from tests.support.databases import Database


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def app() -> App:
    return App("undo")
