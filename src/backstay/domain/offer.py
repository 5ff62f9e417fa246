"""How much a scheduler may ask of an agent in other processes, by what those told of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from backstay.domain.breaker import BreakerState


class Hosted(msgspec.Struct, frozen=True):
    """How an agent stands in one live process that does its work."""

    concurrency: int | None
    breaker: BreakerState
    # Until when at least it begins nothing; None: it would begin something now.
    open_until: datetime | None


class Offer(msgspec.Struct, frozen=True):
    """How many requests a scheduler may have open at an agent; if none, from when on perhaps some."""

    slots: int
    open_until: datetime | None = None
    hosts: int = 0


def offer(hosts: Sequence[Hosted], *, schedulers: int, at_most: int, now: datetime) -> Offer:
    """A scheduler's share of what ``hosts`` can do at the same time.

    Schedulers share equally, so that what they send finds a slot: its complete-by runs from then on.
    """
    shut = [one for one in hosts if one.open_until is not None and one.open_until > now]
    if len(shut) == len(hosts):
        until = min((one.open_until for one in shut if one.open_until is not None), default=None)
        return Offer(0, until, len(hosts))
    slots = sum(_slots(one, at_most) for one in hosts if one not in shut)
    share = -(-slots // max(1, schedulers))  # rounded up: each of them gets somewhere
    return Offer(min(share, at_most), hosts=len(hosts))


def _slots(host: Hosted, at_most: int) -> int:
    if host.breaker is BreakerState.OPEN:
        return 0
    if host.breaker is BreakerState.HALF_OPEN:
        return 1
    return at_most if host.concurrency is None else host.concurrency
