"""Transitions that were handed to the store and have not been answered yet."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

from backstay.clock import Clock
from backstay.errors import BackstayError
from backstay.pulse import Pulse
from backstay.store.base import Settle


class Unanswered:
    """How many there are, for how long the store has been silent, and when those of now are written."""

    def __init__(self, clock: Clock) -> None:
        self._numbers = itertools.count()
        self._open: dict[int, None] = {}  # oldest first
        self._pulse = Pulse(clock)
        # Somebody waits for answers.
        self._answered: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._open)

    def silent_seconds(self) -> float:
        """For how long the store has answered none of them."""
        return self._pulse.silent_seconds() if self._open else 0.0

    def counted(self, settle: Settle) -> Settle:
        """``settle``, which counts as unanswered until it is called."""
        if not self._open:
            self._pulse.felt()
        number = next(self._numbers)
        self._open[number] = None
        return partial(self._settled, number, settle)

    def _settled(self, number: int, settle: Settle, refusal: BackstayError | None) -> None:
        del self._open[number]
        self._pulse.felt_at = self._pulse.monotonic()
        if self._answered is not None:
            self._answered.set()
        settle(refusal)

    async def those_of_now(self) -> None:
        """Wait until each of them is answered, but not for those that are handed in meanwhile."""
        end = next(self._numbers)
        while self._open and next(iter(self._open)) < end:
            self._answered = self._answered or asyncio.Event()
            self._answered.clear()
            await self._answered.wait()
