"""Events that become tasks, followed to the end: what came when, and what was done when, to the last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from backstay.client import Client
from backstay.domain.states import TaskState
from backstay.store.base import TaskFilter
from bench.streaming.course import Times
from bench.streaming.reconcile import events_of

#: How long what is left may take once nothing comes in any more.
DRAIN_SECONDS_MAX: Final = 600.0
_LOOK_EVERY_SECONDS: Final = 0.1
_PAGE: Final = 1_000
_OPEN: Final = (TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING, TaskState.UNDOING)

#: Of the body of an event: the number of its request, and the id of the task that it becomes.
Read = Callable[[bytes], tuple[int, str]]


class Arrivals(NamedTuple):
    """When each event came, by its number; and the numbers by the ids of their tasks."""

    at: Times
    numbers: dict[str, int]


async def until_done(client: Client, stream: str, group: str) -> None:
    """Until the group has passed every event, and no task of them is open. Nothing comes in any more."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while time.monotonic() < deadline:
        view = await client.streamroom.stream(stream)
        passed = sum(one.checkpoint or 0 for one in view.groups if one.group == group)
        is_open = (await client.tasks(TaskFilter(states=_OPEN, limit=1))).items
        if passed == sum(one.end for one in view.partitions) and not is_open:
            return
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
    raise RuntimeError(f"not all events were done within {DRAIN_SECONDS_MAX:.0f} s")


async def came(streams: str, stream: str, read: Read) -> Arrivals:
    at: dict[int, float] = {}
    numbers: dict[str, int] = {}
    async for event in events_of(streams, stream):
        number, task_id = read(event.body)
        at[number] = event.enqueued_at.timestamp()
        numbers[task_id] = number
    return Arrivals(at, numbers)


async def done(client: Client, numbers: dict[str, int]) -> Times:
    """When the tasks ended that did what they should."""
    ended: dict[int, float] = {}
    before = None
    while True:
        page = await client.tasks(TaskFilter(states=(TaskState.PROCESSED,), before=before, limit=_PAGE))
        ended |= {numbers[task.id]: task.updated_at.timestamp() for task in page.items}
        if page.next is None:
            return ended
        before = int(page.next)
