"""Group commit: the transitions of all running tasks, written as one transaction.

A backend collects what is handed in while it is busy, then writes all of it at once; it never
waits for a batch to fill. This module holds what does not depend on the database: how transitions
merge into rows, and which of them are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from backstay.domain.alert import NewAlert
from backstay.domain.lease import Owner
from backstay.domain.message import NewMessage
from backstay.domain.request import Reference
from backstay.domain.states import SETTLED, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, LeaseLost
from backstay.observe import WRITE_REFUSED, emit, log
from backstay.store.base import Changes, Posted, StepBegan, StepCompleted, Transition
from backstay.store.requests import Sent

_PROCESSED: Final = TaskState.PROCESSED


class Fences:
    """What is current, as read inside the transaction that is about to write."""

    def __init__(self, epochs: Mapping[str, int], locks: Mapping[int, tuple[str | None, int]]) -> None:
        self._epochs = epochs
        self._locks = dict(locks)

    def refusal(self, transition: Transition) -> BackstayError | None:
        """Why this transition must not be written, or ``None``: then the next meets the lock it leaves."""
        owner = transition.owner
        key = transition.task_key
        if self._epochs.get(owner.id) != owner.epoch:
            return LeaseLost("this instance", owner.id)
        if self._locks.get(key) != (owner.id, transition.lock_number):
            return LeaseLost(f"task {key}", owner.id)
        task = transition.task
        if task is not None:
            self._locks[key] = (task.locked_by, task.lock_number)
        return None


def judged_together(transitions: Sequence[Transition]) -> tuple[Owner, dict[int, int]] | None:
    """The one owner of all of them, and the lock of each task, if they stand or fall with these.

    ``None`` when each has to be judged by itself, in its turn: owners or locks differ, or a task goes on
    after it was let go of.
    """
    owner = transitions[0].owner
    locks = {one.task_key: one.lock_number for one in transitions}
    if any(one.owner is not owner for one in transitions):
        return None
    if len(locks) < len(transitions):
        let_go: set[int] = set()
        for one in transitions:
            key = one.task_key
            if key in let_go or locks[key] != one.lock_number:
                return None
            if one.task is not None:
                let_go.add(key)
    return owner, locks


class Rows:
    """The rows that a set of transitions comes down to: of each, the last version.

    Of a step there may be several moves: ``began`` is to be written before ``completed``, and both before
    ``steps``. Where that is not the order in which they were made, the schema has no such arrow, and the
    transitions are written one by one.
    """

    def __init__(self, transitions: Iterable[Transition]) -> None:
        self.began: list[StepBegan] = []
        self.completed: list[StepCompleted] = []
        self.steps: dict[tuple[int, str], StepRecord] = {}
        self.tasks: dict[int, TaskRecord] = {}
        self.children: list[tuple[NewTask, datetime]] = []
        self.consumed: list[tuple[int, int, str]] = []
        self.alerts: list[tuple[NewAlert, datetime]] = []
        self.messages: list[tuple[NewMessage, datetime]] = []
        #: Of each task whose submitter wants to be told: when this run of it first wrote.
        self.replying: dict[int, datetime] = {}
        # To be written in this order: what is closed may have been sent a moment ago.
        self.sent: dict[tuple[int, str], Sent] = {}
        self.closed: list[Reference] = []
        for transition in transitions:
            self._add(transition)

    def _add(self, transition: Transition) -> None:
        for step in transition.steps:
            if isinstance(step, StepCompleted):
                self.completed.append(step)
            elif isinstance(step, StepBegan):
                self.began.append(step)
            else:
                self.steps[step.task_key, step.key] = step
        if transition.task is not None:
            self.tasks[transition.task_key] = transition.task
        if transition.children:
            self.children.extend((child, transition.at) for child in transition.children)
        if transition.consumed:
            self.consumed.extend((transition.task_key, number, key) for number, key in transition.consumed)
        if transition.alerts:
            self.alerts.extend((alert, transition.at) for alert in transition.alerts)
        if transition.messages:
            self.messages.extend((message, transition.at) for message in transition.messages)
        if transition.replies:
            self.replying.setdefault(transition.task_key, transition.at)
        if transition.mail is not None:
            self.sent.update(((one.task_key, one.step), one) for one in transition.mail.sent)
            self.closed.extend(transition.mail.closed)

    @property
    def plain(self) -> bool:
        """Whether straight steps and plain endings are all there is, and nothing follows from them."""
        if self.steps or self.consumed or self.children or self.alerts or self.messages or self.replying:
            return False
        # Who is left in another state may have been called meanwhile; a parent has to be woken.
        return all(ended_plainly(task) and task.parent_key is None for task in self.tasks.values())

    @property
    def settled(self) -> list[TaskRecord]:
        return [task for task in self.tasks.values() if task.state in SETTLED]

    def report(self, changes: Changes) -> None:
        """Add what these rows changed to what those who listen are told."""
        changes.settled += self.settled
        changes.touched += [task.parent_key for task in self.settled if task.parent_key is not None]
        freed = any(task.locked_by is None for task in self.tasks.values())
        changes.claimable = changes.claimable or freed or bool(self.children)
        changes.requests = changes.requests or bool(self.sent)


def ended_plainly(task: TaskRecord) -> bool:
    """Whether a task is processed, and its row has nothing but what every such task has."""
    return (
        task.state is _PROCESSED
        and task.output is not None
        and task.error is None
        and task.locked_by is None
        and task.complete_by is None
        and task.wake_at is None
        and not task.parked
    )


def owners(posted: Iterable[Posted]) -> set[Owner]:
    # Usually it is one, and always the same object: its hash is not worked out for every transition.
    return set({id(transition.owner): transition.owner for transition, _ in posted}.values())


def task_keys(posted: Iterable[Posted]) -> set[int]:
    return {transition.task_key for transition, _ in posted}


def settle_all(judged: Iterable[tuple[Posted, BackstayError | None]]) -> None:
    """Tell each writer what became of its transition, now that the rest is durable."""
    for (transition, settle), refusal in judged:
        if refusal is not None and isinstance(refusal, LeaseLost):
            emit(WRITE_REFUSED, task_key=transition.task_key, reason=refusal)
        try:
            settle(refusal)
        except Exception:  # noqa: BLE001  One writer's trouble must not leave its neighbours waiting.
            log.exception("what follows a commit failed")
