"""Time that moves when the test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from backstay.domain.instants import micros


class ManualClock:
    """Starts at the beginning of 2030 and stands still."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._start + self._passed

    def micros(self) -> int:
        return micros(self.now())

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def pass_time(self, time: timedelta) -> None:
        self._passed += time
