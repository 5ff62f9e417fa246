"""Transitions that were handed to the store and have not been answered yet."""

from __future__ import annotations

import asyncio
from functools import partial

from backstay.clock import Clock
from backstay.errors import BackstayError
from backstay.pulse import Pulse
from backstay.store.base import Settle


class _Open:
    """How many are open of those that were handed in between two questions for "those of now"."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class Unanswered:
    """How many there are, for how long the store has been silent, and when those of now are written."""

    def __init__(self, clock: Clock) -> None:
        self._now = _Open()
        # Those that somebody waits for.
        self._before: list[_Open] = []
        self._pulse = Pulse(clock)
        self._answered: asyncio.Event | None = None

    def __len__(self) -> int:
        return self._now.number + sum(one.number for one in self._before)

    def silent_seconds(self) -> float:
        """For how long the store has answered none of them."""
        return self._pulse.silent_seconds() if len(self) else 0.0

    def counted(self, settle: Settle) -> Settle:
        """``settle``, which counts as unanswered until it is called."""
        among = self._now
        if not among.number and not len(self):
            self._pulse.felt()
        among.number += 1
        return partial(self._settled, among, settle)

    def _settled(self, among: _Open, settle: Settle, refusal: BackstayError | None) -> None:
        among.number -= 1
        self._pulse.felt_at = self._pulse.monotonic()
        if self._answered is not None:
            self._answered.set()
        settle(refusal)

    async def those_of_now(self) -> None:
        """Wait until each of them is answered, but not for those that are handed in meanwhile."""
        self._before = awaited = [one for one in (*self._before, self._now) if one.number]
        self._now = _Open()
        while any(one.number for one in awaited):
            self._answered = self._answered or asyncio.Event()
            self._answered.clear()
            await self._answered.wait()
