"""Tells writers what became of their transitions, a few at a time.

What follows from an answer is work for the same event loop that talks to the server. Were all of a batch
answered in one go, the server would wait for that, and after it everybody for the server; so it has the
next batch early, made of what follows from the first answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backstay.errors import BackstayError
from backstay.store.base import Changes, Posted
from backstay.store.commit import settle_all

# So many are answered before others have their turn on the event loop; more batches cost more than they
# gain where there are few.
AT_ONCE: Final = 32
FEW: Final = 128

Judged = tuple[Posted, BackstayError | None]


@dataclass(frozen=True, slots=True)
class _Batch:
    judged: deque[Judged]
    changes: Changes
    few: bool


class Settling:
    """Answers in the order of the batches; once a batch is answered, ``tell`` hears what it changed."""

    def __init__(self, tell: Callable[[Changes], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._batches: deque[_Batch] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, judged: list[Judged], changes: Changes) -> None:
        """Have a batch answered, that is durable now."""
        self._batches.append(_Batch(deque(judged), changes, few=len(judged) <= FEW))
        if self._idle.is_set():
            self._idle.clear()
            self._go_on()

    async def done(self) -> None:
        """Come back once everybody has been answered."""
        await self._idle.wait()

    def _go_on(self) -> None:
        batch = self._batches[0]
        judged = batch.judged
        number = len(judged) if batch.few else min(len(judged), AT_ONCE)
        settle_all([judged.popleft() for _ in range(number)])
        if not judged:
            self._batches.popleft()
            self._tell(batch.changes)
        if self._batches:
            self._loop.call_soon(self._go_on)
        else:
            self._idle.set()
