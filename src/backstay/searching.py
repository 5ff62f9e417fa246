"""Search for tasks in bounded time, however many there are and whatever is met rarely among them.

A listing walks back from the newest task until its page is full; for what is met rarely it would walk through
all of them. A search walks in strides, and stops after a while: the page then says how far it has looked.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.clock import Clock
from backstay.domain.task import TaskRecord
from backstay.store.base import Store, TaskFilter

#: The first stride is so many tasks long, each other one twice as long as the one before it.
STRIDE: Final = 10_000
SECONDS: Final = 0.05

#: Tasks are numbered in the order of their commits, which is so far off that of their instants at most.
SLACK: Final = timedelta(minutes=1)


class Found(msgspec.Struct, frozen=True):
    """What was found, newest first; and the key to go on below, if there is anything to look at."""

    tasks: list[TaskRecord]
    before: int | None
    # It was given up for now, with room left on the page.
    is_cut: bool = False


async def search(store: Store, wanted: TaskFilter, *, error_text: str | None, clock: Clock) -> Found:
    """A page of tasks; with ``error_text`` of those only whose error holds it, in letters of either case."""
    until = clock.monotonic() + SECONDS
    before, lowest = await _range(store, wanted)
    found: list[TaskRecord] = []
    stride = STRIDE
    while before > lowest + 1 and len(found) <= wanted.limit:
        # However slow the store is, one stride is made: who asks again gets further.
        if stride > STRIDE and clock.monotonic() > until:
            return Found(found, before, is_cut=True)
        after = max(lowest, before - 1 - stride)
        part = msgspec.structs.replace(wanted, before=before, after=after, limit=wanted.limit + 1)
        tasks = await store.tasks(part)
        found += [task for task in tasks if error_text is None or _tells(task, error_text)]
        before = tasks[-1].key if len(tasks) > wanted.limit else after + 1
        stride *= 2
    page = found[: wanted.limit]
    return Found(page, page[-1].key if len(found) > wanted.limit else None)


async def newest(store: Store) -> int:
    """The key of the newest task; 0 without any."""
    task = await _newest_below(store, None)
    return 0 if task is None else task.key


async def _range(store: Store, wanted: TaskFilter) -> tuple[int, int]:
    """The keys between which everything is that can be wanted, neither of them included."""
    end = await newest(store) + 1
    before = end if wanted.before is None else min(wanted.before, end)
    lowest = wanted.after
    if wanted.created_before is not None:
        before = min(before, await _last_before(store, wanted.created_before + SLACK, end=end) + 1)
    if wanted.created_after is not None:
        lowest = max(lowest, await _last_before(store, wanted.created_after - SLACK, end=end))
    return before, lowest


async def _last_before(store: Store, instant: datetime, *, end: int) -> int:
    """The last key up to which tasks were created before ``instant``: found by halves."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        task = await _newest_below(store, middle + 1)
        if task is None or task.created_at < instant:
            low = middle
        else:
            high = task.key - 1
    return low


async def _newest_below(store: Store, key: int | None) -> TaskRecord | None:
    tasks = await store.tasks(TaskFilter(before=key, limit=1))
    return tasks[0] if tasks else None


def _tells(task: TaskRecord, text: str) -> bool:
    error = task.error
    return error is not None and text.casefold() in f"{error.type}: {error.message}".casefold()
