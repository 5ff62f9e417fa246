"""The pace: how many calls an agent makes at once follows how its service fares.

Calls are judged in rounds. A round is made of calls that began after the limit last changed, so that what was
decided is seen to work before more is decided.

    the limit was reached, and all went well      -> it grows by its square root
    calls take ``tolerance`` times their best     -> it falls to where the queue at the service runs empty
    one in ten failed                             -> it is halved, at once

Instants are seconds of a monotonic clock, passed in by the caller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import msgspec

from backstay.errors import InvalidRequest

LEAST_MAX: Final = 10_000
TOLERANCE_MIN: Final = 1.5
TOLERANCE_MAX: Final = 100.0

# The mean of fewer calls says little: where latencies are spread as widely as they are long, that of so many
# is off by a fifth.
CALLS_MIN: Final = 30

# A round does not wait for its slowest tenth. Nor does it end with those that happen to be quick: they would
# make every service look faster than it is.
HEARD: Final = 0.9

# Many services fail a little always. Were each failure to count, those would never be used fully.
FAILURES_SHARE: Final = 0.1

# At ``tolerance`` times its best latency a service is filled by the limit divided by ``tolerance``. Somewhat
# less lets its queue run empty, and only then is its best latency seen again.
ROOM: Final = 0.8

# How far the best follows a mean that is lower, and one that is higher. Without the second, the round that
# chance made quickest would be the measure of all to come.
FALL: Final = 0.2
RISE: Final = 0.004
# Fewer calls at once there cannot be: what the service does then is close to its best now.
RISE_AT_LEAST: Final = 0.5

# Below this it is our own event loop that is measured.
LATENCY_MIN: Final = 0.001


@dataclass(frozen=True, slots=True)
class Pace:
    """Between ``least`` and the agent's ``concurrency``, call as often as the service takes without slowing.

    It has slowed when its calls take more than ``tolerance`` times as long as they do at its best.
    """

    least: int = 1
    tolerance: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= LEAST_MAX:
            raise InvalidRequest(f"Pace.least is {self.least}; it must lie between 1 and {LEAST_MAX:,}")
        if not TOLERANCE_MIN <= self.tolerance <= TOLERANCE_MAX:
            raise InvalidRequest(
                f"Pace.tolerance is {self.tolerance};"
                f" it must lie between {TOLERANCE_MIN:g} and {TOLERANCE_MAX:g}"
            )


class Call(msgspec.Struct, frozen=True):
    """A call that is under way, and the round that it is part of; 0: none."""

    began_at: float
    round: int


class _Usual:
    """How long calls of one kind take at their best; ``None`` until enough have been seen."""

    __slots__ = ("_number", "_rise", "_seconds", "best")

    def __init__(self) -> None:
        self.best: float | None = None
        self._seconds, self._number, self._rise = 0.0, 0, 1.0

    def learn(self, seconds: float, *, of: int, rise: float) -> None:
        """Follow the mean of every ``of`` calls; upwards as far as each of them allows."""
        self._seconds += seconds
        self._number += 1
        self._rise = min(self._rise, rise)
        if self._number < of:
            return
        mean = self._seconds / self._number
        if self.best is None:
            self.best = mean
        else:
            self.best += (mean - self.best) * (FALL if mean < self.best else self._rise)
        self._seconds, self._number, self._rise = 0.0, 0, 1.0


class Governor:
    """The live state of one pace. Not thread-safe: one event loop owns it."""

    def __init__(self, policy: Pace, *, most: int) -> None:
        self._least = min(policy.least, most)
        self._most = most
        self._tolerance = policy.tolerance
        # One for each step of the agent, and some for how they may end: as many as the code has.
        self._usual: dict[str, _Usual] = {}
        self._round = 0
        self._reached = False
        self._set(self._least)

    @property
    def limit(self) -> int:
        """How many calls may be under way."""
        return self._limit

    def began(self, now: float, *, in_flight: int) -> Call:
        """A call begins; ``in_flight`` counts it."""
        self._reached = self._reached or in_flight >= self._limit
        if self._begun == self._size:
            return Call(now, 0)
        self._begun += 1
        return Call(now, self._round)

    def answered(self, call: Call, kind: str, now: float) -> None:
        """The service did its work. ``kind`` tells apart calls that take it more and less time."""
        if call.round != self._round:
            return
        self._answered += 1
        self._measure(kind, max(LATENCY_MIN, now - call.began_at))
        self._judge()

    def failed(self, call: Call) -> None:
        """The service failed, or did not answer in time."""
        if call.round != self._round:
            return
        self._failed += 1
        if self._failed > self._size * FAILURES_SHARE:
            self._set(self._limit // 2)
        else:
            self._judge()

    def withdrawn(self, call: Call) -> None:
        """The call ended without a verdict on the service: another takes its place."""
        if call.round == self._round:
            self._begun -= 1

    def begin_again(self) -> None:
        """The service is left alone for a while: what it can do after that is to be found out."""
        self._set(self._least)

    def _measure(self, kind: str, seconds: float) -> None:
        usual = self._usual.get(kind)
        if usual is None:
            usual = self._usual[kind] = _Usual()
        if usual.best is not None:
            self._times_best += seconds / usual.best
            self._measured += 1
        rise = RISE_AT_LEAST if self._limit == self._least else RISE
        usual.learn(seconds, of=self._enough, rise=rise)

    def _judge(self) -> None:
        """Decide, once enough of the round has been heard of; few of its calls have failed."""
        if self._answered + self._failed < self._enough:
            return
        if self._measured * 2 < self._enough:
            self._set(self._limit)  # Too few to compare with: this round was for learning.
        elif self._times_best > self._measured * self._tolerance:
            self._set(int(self._limit * ROOM / self._tolerance))
        elif self._reached:
            self._set(self._limit + math.isqrt(self._limit))
        else:
            self._set(self._limit)

    def _set(self, limit: int) -> None:
        """Begin a round with this limit, or the nearest that is allowed."""
        self._limit = min(self._most, max(self._least, limit))
        self._round += 1
        self._size = max(CALLS_MIN, self._limit)
        self._enough = math.ceil(self._size * HEARD)
        self._begun = self._answered = self._failed = self._measured = 0
        self._times_best = 0.0
        self._reached = False
