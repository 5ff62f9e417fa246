"""What a log promises, one test each; every log passes them.

A log proves itself with a fixture that gives one that is open and empty:

    class TestMyLog(LogSuite):
        @pytest.fixture
        async def log(self): ...

The tests are coroutines: they need pytest-asyncio in its auto mode.
"""

from __future__ import annotations

from backstay.testing.promises.appending import AppendingPromises
from backstay.testing.promises.reading import ReadingPromises
from backstay.testing.promises.retention import RetentionPromises


class LogSuite(AppendingPromises, ReadingPromises, RetentionPromises):
    """Everything that a log promises."""
