"""Tells whoever waits for a task that it has settled.

What this process commits is heard at once. What others commit is looked up, in one read for all who
wait, however many they are.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, Closed, Unavailable, UnknownTask
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.store.base import Changes, Store

# A safety net under the notifications: we look by ourselves as well.
LOOK_EVERY_SECONDS: Final = 1.0

# So many tasks are remembered that settled here lately: somebody may ask for them a moment too late.
LATELY_MAX: Final = 10_000

# Others may write all the time: what they did to everything is looked at once in this time.
LOOK_PAUSE_SECONDS: Final = 0.05


class Outcomes:
    """Everybody in this process who waits for a task."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, set[asyncio.Future[TaskRecord]]] = {}
        # Those to be looked at now; the others are looked at in their turn.
        self._called: set[str] = set()
        # What settled in this process lately, oldest first; and how often others changed anything.
        self._lately: OrderedDict[str, None] = OrderedDict()
        self.foreign_changes = 0
        self._wake = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._look_due: asyncio.TimerHandle | None = None
        self._stop_listening = store.listen(self._changed)

    def close(self) -> None:
        self._stop_listening()
        if self._looking is not None:
            self._looking.cancel()
        if self._look_due is not None:
            self._look_due.cancel()
        self._fail(list(self._waiting), Closed("the client was closed before the task settled"))

    async def of(self, task_id: str, *, unsettled_at: int | None = None) -> TaskRecord:
        """The task once it has settled. Raises UnknownTask.

        ``unsettled_at``: what ``foreign_changes`` was when the task was known to be under way, if it was.
        """
        future: asyncio.Future[TaskRecord] = asyncio.get_running_loop().create_future()
        # Listen first, then look: what happens in between is heard.
        self._waiting.setdefault(task_id, set()).add(future)
        if unsettled_at == self.foreign_changes and task_id not in self._lately:
            self._keep_looking()  # Nobody can have settled it yet, and who does will be heard.
        else:
            self._call([task_id])
        try:
            return await future
        finally:
            self._forget(task_id, future)

    def _forget(self, task_id: str, future: asyncio.Future[TaskRecord]) -> None:
        waiting = self._waiting.get(task_id)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[task_id]

    def _changed(self, changes: Changes) -> None:
        waiting = self._waiting
        for task in changes.settled:
            self._lately[task.id] = None
            if task.id in waiting:
                self._tell(task)
        while len(self._lately) > LATELY_MAX:
            self._lately.popitem(last=False)
        if changes.foreign or changes.ended:
            self.foreign_changes += 1
        self._call([task_id for task_id in changes.ended if task_id in self._waiting])
        if changes.foreign and self._look_due is None:
            self._look_due = asyncio.get_running_loop().call_later(LOOK_PAUSE_SECONDS, self._call_all)

    def _call_all(self) -> None:
        self._look_due = None
        self._call(list(self._waiting))

    def _call(self, task_ids: list[str]) -> None:
        """Have tasks looked at now."""
        if not task_ids:
            return
        self._called.update(task_ids)
        self._wake.set()
        self._keep_looking()

    def _keep_looking(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_while_waiting(), name="backstay-outcomes")

    async def _look_while_waiting(self) -> None:
        while self._waiting:
            await self._until_called()
            called, self._called = self._called, set()
            self._wake.clear()
            await self._look(sorted(called.intersection(self._waiting)) or list(self._waiting))

    async def _until_called(self) -> None:
        try:
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _look(self, task_ids: list[str]) -> None:
        try:
            found = await self._store.outcomes(task_ids)
        except Closed as error:
            self._fail(task_ids, error)
        except Unavailable as error:
            emit(STORE_UNAVAILABLE, error=error)  # It may come back, and those who wait have the time.
        else:
            for task_id in task_ids:
                self._judge(task_id, found)

    def _judge(self, task_id: str, found: dict[str, TaskRecord | None]) -> None:
        if task_id not in found:
            self._fail([task_id], UnknownTask(task_id))
        elif (task := found[task_id]) is not None:
            self._tell(task)

    def _tell(self, task: TaskRecord) -> None:
        for future in self._waiting.get(task.id, ()):
            if not future.done():
                future.set_result(task)

    def _fail(self, task_ids: list[str], error: BackstayError) -> None:
        for task_id in task_ids:
            for future in self._waiting.get(task_id, ()):
                if not future.done():
                    future.set_exception(error)
