"""The fault dial, and what one request meets: a pure rule of dial and chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from random import Random
from statistics import NormalDist
from typing import Annotated, Final

import msgspec

from drone_delivery.entities import Entity

MEDIAN_MS_MIN: Final = 0.001
LATENCY_MS_MAX: Final = 60_000.0
FOR_SECONDS_MAX: Final = 3_600.0

_SIGMAS_AT_P99: Final = NormalDist().inv_cdf(0.99)

_Milliseconds = Annotated[float, msgspec.Meta(ge=MEDIAN_MS_MIN, le=LATENCY_MS_MAX)]


class Latency(Entity, frozen=True):
    """Half of the requests take longer than ``median``, one in a hundred longer than ``p99``."""

    median: _Milliseconds
    p99: _Milliseconds

    def __post_init__(self) -> None:
        if self.median > self.p99:
            raise ValueError(f"median is {self.median} and p99 is {self.p99}; median may be p99 at most")


class Dial(Entity, frozen=True):
    """Which faults a service has. As it stands here: none."""

    latency_ms: Latency | None = None
    error_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    outage: bool = False
    hang: bool = False
    #: When the outage or the hang ends by itself; errors and latency stay.
    for_seconds: Annotated[float, msgspec.Meta(ge=0, le=FOR_SECONDS_MAX)] | None = None


class Setting(msgspec.Struct, frozen=True):
    """A dial as it was turned, with an absolute end instead of a duration: it holds across restarts."""

    dial: Dial = Dial()
    ends_at: datetime | None = None


class Failure(Enum):
    OUTAGE = auto()  # refused at once
    HANG = auto()  # held, then refused
    BEFORE_WORK = auto()  # refused
    AFTER_WORK = auto()  # done, but the answer is lost


@dataclass(frozen=True, slots=True)
class Faults:
    """What one request meets."""

    failure: Failure | None = None
    seconds_before: float = 0.0
    seconds_after: float = 0.0


def turned(dial: Dial, now: datetime) -> Setting:
    if dial.for_seconds is None:
        return Setting(dial)
    return Setting(dial, now + timedelta(seconds=dial.for_seconds))


def in_force(setting: Setting, now: datetime) -> Dial:
    """The dial as it is ``now``; its ``for_seconds`` is what is left of them."""
    if setting.ends_at is None:
        return setting.dial
    left = (setting.ends_at - now).total_seconds()
    if left > 0:
        return msgspec.structs.replace(setting.dial, for_seconds=round(left, 3))
    return msgspec.structs.replace(setting.dial, outage=False, hang=False, for_seconds=None)


def draw(dial: Dial, chance: Random) -> Faults:
    """The faults of one request."""
    if dial.outage:
        return Faults(Failure.OUTAGE)
    if dial.hang:
        return Faults(Failure.HANG)
    half = _draw_latency_ms(dial.latency_ms, chance) / 1_000 / 2
    return Faults(_draw_failure(dial.error_rate, chance), seconds_before=half, seconds_after=half)


def _draw_failure(error_rate: float, chance: Random) -> Failure | None:
    drawn = chance.random()
    if drawn < error_rate / 2:
        return Failure.BEFORE_WORK
    return Failure.AFTER_WORK if drawn < error_rate else None


def _draw_latency_ms(latency: Latency | None, chance: Random) -> float:
    if latency is None:
        return 0.0
    sigma = math.log(latency.p99 / latency.median) / _SIGMAS_AT_P99
    return min(chance.lognormvariate(math.log(latency.median), sigma), LATENCY_MS_MAX)
