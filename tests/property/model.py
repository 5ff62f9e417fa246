"""What a state store means, in plain dictionaries: no SQL, no threads, no batches.

Every method returns whether the store must say yes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from backstay.domain.states import STEP_ARROWS, TASK_ARROWS, StepState, TaskState

HELD = (TaskState.PROCESSING, TaskState.UNDOING)
CLAIMABLE = (TaskState.PENDING, TaskState.UNDOING)
FORWARD = (TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING)


@dataclass
class Entry:
    """A step, or the wait for a signal."""

    state: StepState
    waits_for: str | None = None
    complete_by: datetime | None = None
    failures: int = 0
    unsure: bool = False
    ended: bool = False


@dataclass
class Task:
    input: bytes
    state: TaskState = TaskState.PENDING
    holder: str | None = None
    lock: int = 0
    complete_by: datetime | None = None
    failures: int = 0
    crashes: int = 0
    parked: bool = False
    wake_at: datetime | None = None
    request: str | None = None
    journal: dict[str, Entry] = field(default_factory=dict)
    signals: list[list[Any]] = field(default_factory=list)  # name, dedup, consumed

    def free(self, state: TaskState) -> None:
        """Taken from its holder, who is fenced off."""
        self.state, self.holder, self.complete_by, self.lock = state, None, None, self.lock + 1

    def move(self, state: TaskState) -> bool:
        """By hand, along an arrow; it is then due at once."""
        if state not in TASK_ARROWS[self.state]:
            return False
        self.state, self.parked, self.wake_at = state, False, None
        if state is not TaskState.PENDING:
            self.request = None
        return True

    def unpark(self) -> None:
        if self.state is TaskState.WAITING:
            self.state = TaskState.PENDING
        self.parked, self.wake_at = False, None

    def unpark_if_called(self) -> None:
        awaited = {one.waits_for for one in self.journal.values() if one.state is StepState.RUNNING}
        told = any(name in awaited and not consumed for name, _, consumed in self.signals)
        if self.parked and (self.request or (self.state is TaskState.WAITING and told)):
            self.unpark()


class Model:
    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.heartbeats: dict[str, datetime] = {}  # of the instances that live

    # The way in, and the scheduler

    def submit(self, name: str, input: bytes) -> bool:
        return self.tasks.setdefault(name, Task(input)).input == input

    def claim(self, owner: str, limit: int, complete_by: datetime) -> list[str] | None:
        if owner not in self.heartbeats:
            return None
        free = [
            n for n, t in self.tasks.items() if t.state in CLAIMABLE and t.holder is None and not t.parked
        ]
        for name in free[:limit]:
            task = self.tasks[name]
            if task.state is TaskState.PENDING:
                task.state = TaskState.PROCESSING
            task.holder, task.lock, task.complete_by, task.wake_at = owner, task.lock + 1, complete_by, None
        return free[:limit]

    def holds(self, owner: str, name: str, lock: int) -> bool:
        task = self.tasks[name]
        return owner in self.heartbeats and (task.holder, task.lock) == (owner, lock)

    def write(self, name: str, key: str, entry: Entry) -> bool:
        journal = self.tasks[name].journal
        if key in journal and entry.state not in STEP_ARROWS[journal[key].state] | {journal[key].state}:
            return False
        journal[key] = entry
        return True

    def consume(self, name: str) -> int | None:
        """The number of the oldest signal that was not consumed, if there is one."""
        for number, signal in enumerate(self.tasks[name].signals, start=1):
            if not signal[2]:
                signal[2] = True
                return number
        return None

    def turn_back(self, name: str) -> bool:
        """Into undoing, and still held."""
        task = self.tasks[name]
        if task.state not in HELD:
            return False
        task.state, task.request = TaskState.UNDOING, None
        return True

    def leave(
        self,
        name: str,
        state: TaskState,
        *,
        parked: bool,
        wake_at: datetime | None,
        awaited: str | None = None,
    ) -> bool:
        task = self.tasks[name]
        if state not in TASK_ARROWS[task.state] | {task.state}:
            return False
        if awaited is not None:
            task.journal[f"wait-{awaited}:1"] = Entry(StepState.RUNNING, waits_for=awaited)
        task.state, task.holder, task.complete_by = state, None, None
        task.parked, task.wake_at = parked, wake_at
        if state is TaskState.ERROR and task.request:
            task.state = TaskState.PENDING  # What was asked for is still to be done.
        elif state not in FORWARD:
            task.request = None
        task.unpark_if_called()
        return True

    # Instances and the supervisor

    def end(self, owner: str, *, crashes: int) -> int:
        if self.heartbeats.pop(owner, None) is None:
            return 0
        held = self._those(lambda task: task.holder == owner)
        for task in held:
            task.free(TaskState.PENDING if task.state is TaskState.PROCESSING else task.state)
            task.crashes += crashes
        return len(held)

    def bury(self, lease: timedelta, now: datetime) -> int:
        dead = [owner for owner, beat in self.heartbeats.items() if now - beat > lease]
        return sum(self.end(owner, crashes=1) for owner in dead)

    def wake(self, now: datetime) -> int:
        due = self._those(
            lambda task: task.wake_at is not None and task.wake_at <= now and task.holder is None
        )
        for task in due:
            task.unpark()
        return len(due)

    def expire_runs(self, now: datetime) -> int:
        late = self._those(lambda task: task.complete_by is not None and task.complete_by < now)
        for task in late:
            forward = task.state is TaskState.PROCESSING
            task.failures += forward
            task.free(TaskState.PENDING if forward else task.state)
        return len(late)

    def expire_steps(self, now: datetime) -> int:
        expired = 0
        for task in self._those(lambda task: task.state is TaskState.PROCESSING):
            late = [one for one in task.journal.values() if _overdue(one, now)]
            for one in late:
                one.failures, one.unsure, one.ended = one.failures + 1, True, True
            if late:
                task.free(TaskState.PENDING)
            expired += len(late)
        return expired

    # The operator

    def signal(self, name: str, signal: str, dedup: str | None) -> bool:
        task = self.tasks[name]
        if task.state in (TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED):
            return False
        if dedup is None or all(known[:2] != [signal, dedup] for known in task.signals):
            task.signals.append([signal, dedup, False])
        task.unpark_if_called()
        return True

    def cancel(self, name: str) -> bool:
        task = self.tasks[name]
        if task.state is TaskState.PROCESSING:
            task.request = "cancel"
            return True
        return task.move(TaskState.CANCELLED)

    def undo(self, name: str) -> bool:
        task = self.tasks[name]
        if task.state in (TaskState.PENDING, TaskState.PROCESSING):
            if task.state is TaskState.PENDING and not task.journal:
                return False
            task.request = "undo"
            return True
        if not task.move(TaskState.UNDOING):
            return False
        for entry in task.journal.values():
            if entry.state is StepState.UNDO_FAILED:
                entry.state = StepState.UNDOING
        return True

    def resubmit(self, name: str, *, anew: bool) -> bool:
        task = self.tasks[name]
        if task.state is TaskState.UNDO_FAILED and not anew:
            return self.undo(name)
        if task.state is TaskState.PROCESSING or not task.move(TaskState.PENDING):
            return False
        task.failures, task.crashes, task.request = 0, 0, None
        if anew:
            task.journal.clear()
            for signal in task.signals:
                signal[2] = False
        return True

    def complete(self, name: str, key: str) -> bool:
        task = self.tasks[name]
        entry = task.journal.get(key)
        if entry is None:
            return False
        undo = entry.state in (StepState.UNDOING, StepState.UNDO_FAILED)
        reached = StepState.UNDONE if undo else StepState.COMPLETED
        goal = TaskState.UNDOING if undo else TaskState.PENDING
        if reached not in STEP_ARROWS[entry.state] or (task.state is not goal and not task.move(goal)):
            return False
        task.parked, task.wake_at = False, None
        task.free(goal)
        entry.state, entry.ended = reached, True
        entry.complete_by = None if undo else entry.complete_by
        return True

    def _those(self, wanted: Callable[[Task], bool]) -> list[Task]:
        return [task for task in self.tasks.values() if wanted(task)]


def _overdue(entry: Entry, now: datetime) -> bool:
    running = entry.state is StepState.RUNNING and entry.waits_for is None and not entry.ended
    return running and entry.complete_by is not None and entry.complete_by < now
