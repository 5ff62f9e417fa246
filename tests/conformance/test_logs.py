"""Every log keeps every promise of logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.stream import Log
from backstay.testing import LogSuite


class TestEmbeddedLog(LogSuite):
    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[Log]:
        log = EmbeddedLog(f"sqlite:///{tmp_path}/suite.db")
        await log.open()
        yield log
        await log.close()
