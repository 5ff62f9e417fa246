"""Group commit on one lane: what gathers while a commit is under way leaves with the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from backstay.errors import BackstayError, Closed, StoreUnavailable
from backstay.observe import log

BATCH_MAX: Final = 5_000

# What another transaction holds on to is tried again after this pause.
_PAUSE_SECONDS: Final = 0.05

Entry = TypeVar("Entry")


class Committer(Generic[Entry]):
    """Hands batches to ``commit``, one after the other. What ``commit`` returns is tried again."""

    def __init__(
        self,
        commit: Callable[[list[Entry]], Awaitable[list[Entry]]],
        *,
        give_up: Callable[[list[Entry], BackstayError], None],
        name: str,
    ) -> None:
        self._commit = commit
        self._give_up = give_up
        self._entries: deque[Entry] = deque()
        self._called = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closing = False
        self._work = asyncio.create_task(self._run(), name=name)

    def add(self, entry: Entry) -> None:
        if self._closing:
            raise Closed("the store is closed")
        self._entries.append(entry)
        self._quiet.clear()
        self._called.set()

    async def quiet(self, *, within: float) -> None:
        """Come back once everything that was handed in has been answered, or time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._quiet.wait()

    async def close(self, *, within: float) -> None:
        """Commit what was handed in, as far as that is possible in time."""
        self._closing = True
        self._called.set()
        await asyncio.wait([self._work], timeout=within)
        if not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])
        self._give_up(list(self._entries), Closed("the store was closed before this could be written"))

    async def _run(self) -> None:
        while not (self._closing and not self._entries):
            await self._called.wait()
            self._called.clear()
            await self._commit_gathered()
            self._quiet.set()
            if self._closing:
                self._called.set()

    async def _commit_gathered(self) -> None:
        while self._entries:
            batch = [self._entries.popleft() for _ in range(min(len(self._entries), BATCH_MAX))]
            left = batch
            try:
                left = await self._commit(batch)
            except Exception as error:  # noqa: BLE001
                # A mistake of ours in one batch must not end what all others depend on.
                log.exception("a batch could not be written")
                left = []
                self._give_up(batch, StoreUnavailable(repr(error)))
            finally:
                self._entries.extendleft(reversed(left))
            if left and len(left) == len(self._entries):
                await asyncio.sleep(_PAUSE_SECONDS)
