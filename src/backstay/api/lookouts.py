"""Looking at tasks on behalf of those who watch them: one look for all who watch the same task.

A journal is read with its values, which may be megabytes. However many watch, a task is looked at twice a
second at most, and so many journals are read in a second, whichever tasks they belong to.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from backstay.client import Client
from backstay.domain.states import SETTLED, TaskState
from backstay.errors import Closed, Unavailable, UnknownTask
from backstay.views import Task

# Steps settle without a word to anybody else: we look by ourselves.
LOOK_EVERY_SECONDS: Final = 0.5
JOURNALS_PER_SECOND: Final = 20

#: A task that stopped in any other state may be sent on its way again.
OVER: Final = frozenset({TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED})


class Event(msgspec.Struct, frozen=True):
    """What there is to say of one thing as it stands, written once for everybody."""

    #: What it is about, within one task.
    about: str
    text: bytes
    digest: bytes


def event(name: str, data: Any, *, about: str = "") -> Event:
    # JSON has no line breaks of its own, so that an event is always one line of data.
    text = b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
    return Event(f"{name} {about}", text, hashlib.blake2b(text, digest_size=16).digest())


class Sight(msgspec.Struct, frozen=True):
    """How a task stood when it was looked at, without its values; and all that there is to say of it."""

    task: Task
    events: tuple[Event, ...]


class Lookouts:
    """One lookout for each task that somebody watches."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pace = Pace(JOURNALS_PER_SECOND)
        self._by_task: dict[str, Lookout] = {}

    @contextlib.contextmanager
    def on(self, task_id: str) -> Iterator[Lookout]:
        """The lookout on this task, which is there until the last who shares it is gone."""
        lookout = self._by_task.get(task_id)
        if lookout is None:
            lookout = self._by_task[task_id] = Lookout(self._client, self._pace, task_id)
        lookout.watchers += 1
        try:
            yield lookout
        finally:
            lookout.watchers -= 1
            if not lookout.watchers:
                del self._by_task[task_id]
                lookout.close()


class Lookout:
    """Looks at one task again and again, until it is over or there is nothing to look at."""

    def __init__(self, client: Client, pace: Pace, task_id: str) -> None:
        self._client = client
        self._pace = pace
        self._task_id = task_id
        self._looked = asyncio.Event()
        self._looking = asyncio.create_task(self._look_on(), name=f"backstay-lookout-{task_id}")
        self.watchers = 0
        #: What was seen last; ``None`` before the first look.
        self.sight: Sight | None = None

    def close(self) -> None:
        self._looking.cancel()

    def has_ended(self) -> bool:
        """Whether nothing else will be seen. Raises what nobody foresaw, if it ended by that."""
        if self._looking.done():
            self._looking.result()
            return True
        return False

    async def next_look(self) -> None:
        """Wait for it, but no longer than a look usually takes to come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._looked.wait()

    async def _look_on(self) -> None:
        while True:
            try:
                await self._look()
            except (UnknownTask, Closed):
                return
            except Unavailable:
                pass  # It may come back, and whoever watches has the time.
            if self.sight is not None and self.sight.task.state in OVER:
                return
            await self._pause()

    async def _look(self) -> None:
        task = _without_values(await self._client.task(self._task_id))
        # A task that has settled takes no step before it is touched.
        if self.sight is None or task != self.sight.task or task.state not in SETTLED:
            await self._pace.turn()
            steps = await self._client.steps(self._task_id)
            told = [event("step", step, about=step.key) for step in steps]
            self.sight = Sight(task, (event("task", task), *told))
        self._looked.set()
        self._looked = asyncio.Event()

    async def _pause(self) -> None:
        """A moment, or less when the task settles meanwhile."""
        if self.sight is None or self.sight.task.state in SETTLED:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            return
        with contextlib.suppress(TimeoutError, Unavailable, UnknownTask):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._client.settled(self._task_id)


class Pace:
    """So many turns a second, in the order in which they are asked for."""

    def __init__(self, per_second: int) -> None:
        self._interval = 1 / per_second
        self._one_at_a_time = asyncio.Lock()
        self._next_at = 0.0

    async def turn(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            await asyncio.sleep(self._next_at - loop.time())
            self._next_at = loop.time() + self._interval


def _without_values(task: Task) -> Task:
    return msgspec.structs.replace(task, input=msgspec.UNSET, output=msgspec.UNSET)
