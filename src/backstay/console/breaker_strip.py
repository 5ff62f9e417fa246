"""What the breakers of an agent did lately: a strip for each process, and the turns one by one.

Pure: made of what processes report and an instant. Places on a strip are in percent of its length, which
stands for the same time in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from backstay.domain.breaker import BreakerState
from backstay.domain.wording import span
from backstay.store.base import BreakerTurn
from backstay.views import AgentInstance

#: However long ago a breaker turned, a strip shows no more time than this, and no less.
LONGEST: Final = timedelta(hours=1)
SHORTEST: Final = timedelta(minutes=2)

#: Nothing is so short that it cannot be seen.
_LEAST_WIDTH: Final = 0.4


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The breaker stood like that, from where to where in percent."""

    state: str
    left: float
    width: float


class Strip(msgspec.Struct, frozen=True, kw_only=True):
    process: str
    stretches: list[Stretch]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One turn, in words."""

    at: datetime
    process: str
    state: str
    why: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Without turns there is nothing to be drawn."""

    strips: list[Strip]
    # Newest first.
    turns: list[Told]
    length: str


def history(instances: Sequence[AgentInstance], *, now: datetime) -> History:
    turned = [one for one in instances if one.breaker_turns]
    oldest = min((one.breaker_turns[0].at for one in turned), default=now)
    length = max(SHORTEST, min(LONGEST, now - oldest))
    return History(
        strips=[_strip(one, now - length, now) for one in turned],
        turns=sorted((told for one in turned for told in _told(one)), key=lambda told: told.at, reverse=True),
        length=span(length),
    )


def _strip(instance: AgentInstance, first: datetime, last: datetime) -> Strip:
    turns = instance.breaker_turns
    ends = [*(turn.at for turn in turns[1:]), last]
    stretches = [
        _stretch(turn.state, max(turn.at, first), end, first, last)
        for turn, end in zip(turns, ends, strict=True)
        if end > first
    ]
    return Strip(process=instance.id, stretches=stretches)


def _stretch(state: BreakerState, begin: datetime, end: datetime, first: datetime, last: datetime) -> Stretch:
    left = min(100 * ((begin - first) / (last - first)), 100 - _LEAST_WIDTH)
    width = max(_LEAST_WIDTH, 100 * ((end - begin) / (last - first)))
    return Stretch(state=state, left=round(left, 2), width=round(min(width, 100 - left), 2))


def _told(instance: AgentInstance) -> Iterable[Told]:
    before: list[BreakerTurn | None] = [None, *instance.breaker_turns]
    for previous, turn in pairwise(before):
        assert turn is not None
        was_probed = previous is not None and previous.state is BreakerState.HALF_OPEN
        yield Told(at=turn.at, process=instance.id, state=turn.state, why=_why(turn, was_probed=was_probed))


def _why(turn: BreakerTurn, *, was_probed: bool) -> str:
    if turn.state is BreakerState.HALF_OPEN:
        return "its time was over, and a probe was let through"
    if turn.state is BreakerState.CLOSED:
        return "the probe succeeded"
    failures = "1 failure" if turn.failures == 1 else f"{turn.failures:,} failures, the last"
    said = "the probe failed" if was_probed else failures
    return said if turn.error is None else f"{said}: {turn.error}"
