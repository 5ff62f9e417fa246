"""The platform that the tests of one file share, where it does not matter what it has seen before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.drone_platform import DronePlatform, drone_platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DronePlatform]:
    """The services and one process with every role."""
    async with drone_platform(tmp_path_factory.mktemp("platform")) as running:
        await running.serve()
        yield running
