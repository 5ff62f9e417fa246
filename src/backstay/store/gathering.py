"""Gathers what many callers ask for into few transactions.

What comes while a transaction is under way leaves with the next one; nobody waits for a batch to fill.
Each caller is answered for its own part, once that is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from backstay.errors import BackstayError, Conflict, StoreUnavailable
from backstay.observe import log

BATCH_MAX: Final = 2_000
#: Of the values in one batch; a single caller may exceed it alone.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Group(Generic[Item, Answer]):
    """What one caller asks for."""

    items: Sequence[Item]
    now: datetime
    bytes: int
    future: asyncio.Future[list[Answer]]


class Gathering(Generic[Item, Answer]):
    """Hands groups of items to ``write``, which answers for each item, one batch after the other."""

    def __init__(
        self,
        write: Callable[[list[tuple[Item, datetime]]], Awaitable[list[Answer]]],
        *,
        weigh: Callable[[Item], int] = lambda _item: 0,
    ) -> None:
        self._write = write
        self._weigh = weigh
        self._waiting: deque[_Group[Item, Answer]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def add(self, items: Sequence[Item], *, now: datetime) -> list[Answer]:
        """The answers to ``items``, which are written together, each with the time at which it came."""
        if not items:
            return []
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Group(items, now, sum(map(self._weigh, items)), future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_waiting(), name="backstay-gathering")
        return await future

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                await self._write_groups(self._next())
        finally:
            self._writing = None
            for group in self._waiting:  # Only when we were cancelled: the event loop ends.
                group.future.cancel()

    def _next(self) -> list[_Group[Item, Answer]]:
        groups = [self._waiting.popleft()]
        number, size = len(groups[0].items), groups[0].bytes
        while self._waiting:
            number += len(self._waiting[0].items)
            size += self._waiting[0].bytes
            if number > BATCH_MAX or size > BATCH_BYTES_MAX:
                break
            groups.append(self._waiting.popleft())
        return groups

    async def _write_groups(self, groups: list[_Group[Item, Answer]]) -> None:
        try:
            answers = iter(await self._write([(item, one.now) for one in groups for item in one.items]))
        except Conflict as error:
            # Something in it breaks a rule of the schema. The others must not suffer: each by itself.
            await self._apart(groups, error)
        except BackstayError as error:
            _fail(groups, error)
        except Exception as error:  # noqa: BLE001
            # A mistake of ours in one batch must not end what all others depend on.
            log.exception("a batch could not be written")
            _fail(groups, StoreUnavailable(repr(error)))
        except asyncio.CancelledError:
            self._waiting.extendleft(reversed(groups))
            raise
        else:
            for one in groups:
                mine = [next(answers) for _ in one.items]
                if not one.future.done():
                    one.future.set_result(mine)

    async def _apart(self, groups: list[_Group[Item, Answer]], error: Conflict) -> None:
        if len(groups) == 1:
            _fail(groups, error)
            return
        for one in groups:
            await self._write_groups([one])


def _fail(groups: list[_Group[Item, Answer]], error: BackstayError) -> None:
    for one in groups:
        if not one.future.done():
            one.future.set_exception(error)
