"""How full queues are: counted in the store now and then, and in between by what came and went here.

Nobody who sends waits for a count of everything, and no row is written by all who send. What other
processes send is seen with the next count: together they may exceed the bound of a queue by that much.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from backstay.domain.bound import look_again_after


@dataclass(slots=True)
class _Estimate:
    counted: int
    counted_at: float
    number: int

    def is_fresh(self, limit: int) -> bool:
        good_for = look_again_after(self.counted, limit, believed=self.number)
        return time.monotonic() < self.counted_at + good_for.total_seconds()


class Fullness:
    """How many messages are in the queues of one store, by their keys, as far as is known here."""

    def __init__(self) -> None:
        self._estimates: dict[int, _Estimate] = {}
        # Some are written to by threads of the application.
        self._one_at_a_time = threading.Lock()

    def number(self, key: int, *, limit: int) -> int | None:
        """How many there are where ``limit`` may be; None when it is time to count them."""
        known = self._estimates.get(key)
        return known.number if known is not None and known.is_fresh(limit) else None

    def counted(self, key: int, number: int) -> None:
        with self._one_at_a_time:
            self._estimates[key] = _Estimate(number, time.monotonic(), number)

    def came(self, numbers: Mapping[int, int]) -> None:
        """So many entered these queues. If that is rolled back, the next count says so."""
        with self._one_at_a_time:
            for key, number in numbers.items():
                if key in self._estimates:
                    self._estimates[key].number += number

    def went(self, numbers: Mapping[int, int]) -> None:
        """So many left these queues."""
        self.came({key: -number for key, number in numbers.items()})

    def forget(self, key: int) -> None:
        """The queue is gone."""
        with self._one_at_a_time:
            self._estimates.pop(key, None)
