"""Keeps the locks of messages in hand: those at work and those that wait for their turn.

All of them are renewed together, three times within a lock. A message whose lock is lost is told at
once: by the store, or, while that is away, by our own clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from backstay.clock import Clock
from backstay.domain.message import LOCK_MOST, RECEIVE_MAX
from backstay.errors import BackstayError, Unavailable
from backstay.ingest.waiting import within
from backstay.messaging.exchange import Exchange
from backstay.messaging.message import Message
from backstay.observe import STORE_UNAVAILABLE, emit

# Within one lock: a renewal that fails can be tried again, and once more.
RENEWALS: Final = 3
# So many times as often a store is asked that did not answer.
_RETRIES: Final = 5
_SHORTEST_SECONDS: Final = 0.01
# No two locks last equally long, to the millisecond: this much less is meant.
_SHORTER: Final = 0.8


class Held:
    """A message in hand. ``until`` is the end of its lock in seconds that never jump."""

    def __init__(self, message: Message, *, until: float) -> None:
        self.message = message
        self.until = until
        self.lost = False
        # It is being said what became of it: whether its lock still holds, that will tell.
        self.settling = False
        self.task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.lost or self.settling or self.message.settled


class Keeper:
    """The locks of one consumer."""

    def __init__(self, exchange: Exchange, *, clock: Clock, lose: Callable[[Held], None]) -> None:
        self._exchange = exchange
        self._clock = clock
        self._lose = lose
        self._held: dict[Message, Held] = {}
        # There is something to keep that cannot wait until the next renewal.
        self._called = asyncio.Event()
        self._pause: float | None = None
        #: How long a lock lasts, as far as is known.
        self.lock: timedelta | None = None

    def __len__(self) -> int:
        return len(self._held)

    async def take(self, queue: str, limit: int) -> list[Held]:
        """Receive up to so many and keep them."""
        asked = self._clock.monotonic(), self._clock.now()
        taken = [self._hold(message, asked) for message in await self._exchange.take(queue, limit)]
        for held in taken:
            self._held[held.message] = held
        # Only if locks last less than they did: what is in hand has to be renewed before long.
        if taken and (self._pause is None or self._between() < self._pause * _SHORTER):
            self._called.set()
        return taken

    def all(self) -> list[Held]:
        return [*self._held.values()]

    def let_go(self, held: Held) -> None:
        self._held.pop(held.message, None)

    async def run(self) -> None:
        """Renew for ever."""
        await self._called.wait()
        renewed = True
        while True:
            self._called.clear()
            self._pause = self._between() if renewed else self._between() / _RETRIES
            await within(self._pause, self._called)
            if not self._called.is_set():
                renewed = await self._try()
                self.check()

    async def _try(self) -> bool:
        """Renew, if the store answers before the first lock runs out; whether it did."""
        first = min((one.until for one in self._held.values() if not one.over), default=float("inf"))
        left = max(_SHORTEST_SECONDS, first - self._clock.monotonic())
        try:
            async with asyncio.timeout(min(left, LOCK_MOST.total_seconds())):
                await self.run_once()
        except (Unavailable, TimeoutError) as error:
            emit(STORE_UNAVAILABLE, error=error)
            return False
        return True

    async def run_once(self) -> None:
        """Renew what is in hand."""
        held = [one for one in self._held.values() if not one.over]
        for begin in range(0, len(held), RECEIVE_MAX):
            await self._renew(held[begin : begin + RECEIVE_MAX])

    def check(self) -> None:
        """Give up what ran out while nobody could renew it."""
        now = self._clock.monotonic()
        for held in [*self._held.values()]:
            if not held.over and held.until <= now:
                self._give_up(held)

    async def _renew(self, held: Sequence[Held]) -> None:
        asked = self._clock.monotonic(), self._clock.now()
        answers = await self._exchange.renew_all([one.message.lock for one in held])
        for one, answer in zip(held, answers, strict=True):
            if not isinstance(answer, BackstayError):
                one.message.locked_until = answer
                one.until = self._until(answer, asked)
            elif not one.over:  # It may have been settled meanwhile.
                self._give_up(one)

    def _hold(self, message: Message, asked: tuple[float, datetime]) -> Held:
        assert message.locked_until is not None
        return Held(message, until=self._until(message.locked_until, asked))

    def _until(self, instant: datetime, asked: tuple[float, datetime]) -> float:
        # Counted from before the call: a slow answer must not stretch the lock.
        self.lock = instant - asked[1]
        return asked[0] + self.lock.total_seconds()

    def _give_up(self, held: Held) -> None:
        held.lost = True
        self.let_go(held)
        self._lose(held)

    def _between(self) -> float:
        """How many seconds lie between two renewals."""
        assert self.lock is not None
        return max(_SHORTEST_SECONDS, self.lock.total_seconds() / RENEWALS)
