"""What a state store means, in plain dictionaries: no SQL, no threads, no batches.

Every method returns whether the store must say yes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from backstay.domain.states import SETTLED, STEP_ARROWS, TASK_ARROWS, StepState, TaskState
from backstay.domain.step import StepKind
from backstay.store.supervision import Freed

HELD = (TaskState.PROCESSING, TaskState.UNDOING)
CLAIMABLE = (TaskState.PENDING, TaskState.UNDOING)
FORWARD = (TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING)
AGENT = "bank"  # of every step
UNDO_OVER = (TaskState.UNDONE, TaskState.UNDO_FAILED, TaskState.CANCELLED)


@dataclass
class Entry:
    """A step, or the wait for a signal or a child."""

    state: StepState
    kind: StepKind = StepKind.STEP
    waits_for: str | None = None
    complete_by: datetime | None = None
    failures: int = 0
    unsure: bool = False
    ended: bool = False


@dataclass
class Task:
    input: bytes
    workflow: str = "ship"
    parent: str | None = None
    parent_step: str | None = None
    state: TaskState = TaskState.PENDING
    holder: str | None = None
    lock: int = 0
    complete_by: datetime | None = None
    failures: int = 0
    crashes: int = 0
    parked: bool = False
    wake_at: datetime | None = None
    request: str | None = None
    request_at_claim: str | None = None
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

    def is_told(self) -> bool:
        """Whether a signal is there that it waits for."""
        awaited = {one.waits_for for one in self.journal.values() if one.state is StepState.RUNNING}
        told = any(name in awaited and not consumed for name, _, consumed in self.signals)
        return told and self.state is TaskState.WAITING

    def has_running_child(self) -> bool:
        return any(
            one.kind is StepKind.CHILD and one.state is StepState.RUNNING for one in self.journal.values()
        )


class Model:
    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.heartbeats: dict[str, datetime] = {}  # of the instances that live
        self.paused: set[str] = set()
        self.recoveries: Counter[tuple[str, str | None]] = Counter()  # by workflow and agent

    # The way in, and the scheduler

    def submit(self, name: str, input: bytes, workflow: str) -> bool:
        known = self.tasks.setdefault(name, Task(input, workflow))
        return (known.input, known.workflow) == (input, workflow)

    def claim(
        self, owner: str, workflows: Sequence[str], limit: int, complete_by: datetime
    ) -> list[str] | None:
        if owner not in self.heartbeats:
            return None
        free = [
            name
            for workflow in workflows
            if workflow not in self.paused
            for name, task in self.tasks.items()
            if task.workflow == workflow
            and task.state in CLAIMABLE
            and task.holder is None
            and not task.parked
        ]
        for name in free[:limit]:
            task = self.tasks[name]
            if task.state is TaskState.PENDING:
                task.state = TaskState.PROCESSING
            task.holder, task.lock, task.complete_by, task.wake_at = owner, task.lock + 1, complete_by, None
            task.request_at_claim = task.request
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
            task.journal[f"wait-{awaited}:1"] = Entry(
                StepState.RUNNING, kind=StepKind.SIGNAL, waits_for=awaited
            )
        task.state, task.holder, task.complete_by = state, None, None
        task.parked, task.wake_at = parked, wake_at
        if task.request == task.request_at_claim:
            task.request = None  # The holder knew of it, and has done what it asked for.
        if state is TaskState.ERROR and task.request:
            task.state = TaskState.PENDING  # What was asked for is still to be done.
        elif state not in FORWARD:
            task.request = None
        if state in SETTLED:
            self.wake_parent(task)
        self.unpark_if_called(name)
        return True

    def start_child(
        self, name: str, key: str, child: str, input: bytes, *, park: bool, wake_at: datetime | None
    ) -> bool:
        """An entry of the journal, the child that it stands for, and perhaps at once the wait for it."""
        if park and TaskState.WAITING not in TASK_ARROWS[self.tasks[name].state]:
            return False
        if not self.write(name, key, Entry(StepState.RUNNING, kind=StepKind.CHILD)):
            return False
        self.tasks.setdefault(child, Task(input, parent=name, parent_step=key))
        return not park or self.leave(name, TaskState.WAITING, parked=True, wake_at=wake_at)

    def wake_parent(self, task: Task) -> None:
        if task.parent is not None and self.tasks[task.parent].parked:
            self.tasks[task.parent].unpark()

    def unpark_if_called(self, name: str) -> None:
        task = self.tasks[name]
        if task.parked and (task.request or task.is_told() or self.has_child_that_is_over(name)):
            task.unpark()

    def has_child_that_is_over(self, name: str) -> bool:
        """Whether a child has got where the parent waits for it: to its end, or through its undo."""
        for child in self._those(lambda task: task.parent == name):
            entry = self.tasks[name].journal.get(child.parent_step or "")
            over = entry is not None and (
                (entry.state is StepState.RUNNING and child.state in (TaskState.PROCESSED, *UNDO_OVER))
                or (entry.state is StepState.UNDOING and child.state in UNDO_OVER)
            )
            if over:
                return True
        return False

    # Instances and the supervisor

    def end(self, owner: str, *, crashes: int) -> list[Task]:
        if self.heartbeats.pop(owner, None) is None:
            return []
        held = self._those(lambda task: task.holder == owner)
        for task in held:
            task.free(TaskState.PENDING if task.state is TaskState.PROCESSING else task.state)
            task.crashes += crashes
        return held

    def bury(self, lease: timedelta, now: datetime, spare: str | None) -> Freed:
        late = [owner for owner, beat in self.heartbeats.items() if now - beat > lease]
        held = [self.end(owner, crashes=1) for owner in late if owner != spare]
        for tasks in held:
            self.recoveries.update({(task.workflow, None) for task in tasks})
        return _freed(task for tasks in held for task in tasks)

    def pause_or_resume(self, workflow: str) -> None:
        self.paused ^= {workflow}
        if workflow not in self.paused:
            del self.recoveries[workflow, None]  # Whoever lets it go on has looked.

    def wake(self, now: datetime) -> int:
        due = self._those(
            lambda task: task.wake_at is not None and task.wake_at <= now and task.holder is None
        )
        for task in due:
            task.unpark()
        return len(due)

    def expire_runs(self, now: datetime) -> Freed:
        late = self._those(lambda task: task.complete_by is not None and task.complete_by < now)
        for task in late:
            forward = task.state is TaskState.PROCESSING
            task.failures += forward
            task.free(TaskState.PENDING if forward else task.state)
        self.recoveries.update((task.workflow, None) for task in late)
        return _freed(late)

    def expire_steps(self, now: datetime) -> int:
        expired = 0
        for task in self._those(lambda task: task.state is TaskState.PROCESSING):
            late = [one for one in task.journal.values() if _overdue(one, now)]
            for one in late:
                one.failures, one.unsure, one.ended = one.failures + 1, True, True
            if late:
                task.free(TaskState.PENDING)
                self.recoveries[task.workflow, AGENT] += len(late)
            expired += len(late)
        return expired

    # The operator

    def signal(self, name: str, signal: str, dedup: str | None) -> bool:
        task = self.tasks[name]
        if task.state in (TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED):
            return False
        if dedup is None or all(known[:2] != [signal, dedup] for known in task.signals):
            task.signals.append([signal, dedup, False])
        self.unpark_if_called(name)
        return True

    def cancel(self, name: str) -> bool:
        task = self.tasks[name]
        stoppable = task.state in (TaskState.WAITING, TaskState.PENDING, TaskState.ERROR)
        if task.state is TaskState.PROCESSING or (stoppable and task.has_running_child()):
            if task.state in (TaskState.WAITING, TaskState.ERROR):
                task.move(TaskState.PENDING)
            task.request = "cancel"
            return True
        if not task.move(TaskState.CANCELLED):
            return False
        self.wake_parent(task)
        return True

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


def _freed(tasks: Iterable[Task]) -> Freed:
    """What was taken away, by the state that it is left in."""
    undos = [task.state is TaskState.UNDOING for task in tasks]
    return Freed(runs=undos.count(False), undos=undos.count(True))


def _overdue(entry: Entry, now: datetime) -> bool:
    running = entry.state is StepState.RUNNING and entry.kind is StepKind.STEP and not entry.ended
    return running and entry.complete_by is not None and entry.complete_by < now
