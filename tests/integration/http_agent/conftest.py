"""An application on a store in a file, and a real service for its agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay import App
from tests.support.service import HttpService, http_service


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'http.db'}"


@pytest.fixture
def app() -> App:
    return App("http")


@pytest.fixture
async def service() -> AsyncIterator[HttpService]:
    async with http_service() as running:
        yield running
