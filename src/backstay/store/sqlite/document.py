"""A batch as the one row that ``write_batch`` takes: each kind of change as one text of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from backstay.domain.instants import micros
from backstay.domain.lease import Owner
from backstay.domain.request import Reference
from backstay.domain.task import NewTask, TaskRecord
from backstay.store.base import Runnable, StepBegan, StepCompleted
from backstay.store.commit import ended_plainly
from backstay.store.requests import Sent
from backstay.store.rows import Outgoing, Row, as_json, ended_row
from backstay.store.sqlite.rows import SHAPE

#: New tasks, each with the instant at which it is entered.
Entering = Sequence[tuple[NewTask, datetime]]

_FIELDS: Final = (
    *("owner", "epoch", "locks", "held"),
    *("began", "completed", "processed", "tasks", "entered"),
    *("claimer", "claimer_epoch", "runs", "room", "claimed_at"),
    *("sent", "closed"),
)


class Document:
    """Filled with what changes, then written. ``payloads``: what is too large for it."""

    def __init__(self, inline_bytes_max: int) -> None:
        self._outgoing = Outgoing(inline_bytes_max)
        self.values: dict[str, Any] = dict.fromkeys(_FIELDS)

    @property
    def payloads(self) -> list[tuple[int, str, bytes]]:
        return self._outgoing.payloads

    def act_under(self, owner: Owner, locks: Mapping[int, int]) -> None:
        """Nothing is written unless ``owner`` lives and holds each of these tasks under the lock named."""
        self.values.update(owner=owner.id, epoch=owner.epoch, locks=as_json(locks), held=len(locks))

    def begin(self, steps: Sequence[StepBegan]) -> None:
        if steps:
            self.values["began"] = as_json(self._outgoing.lean(steps, "input"))

    def complete(self, steps: Sequence[StepCompleted]) -> None:
        if steps:
            self.values["completed"] = as_json(self._outgoing.lean(steps, "output"))

    def put(self, tasks: Iterable[TaskRecord]) -> None:
        processed: list[Row] = []
        others: list[Row] = []
        for task in tasks:
            if ended_plainly(task):
                processed.append(ended_row(task, self._outgoing))
            else:
                others.append(as_text(SHAPE.task_row(task, self._outgoing)))
        if processed:
            self.values["processed"] = as_json(processed)
        if others:
            self.values["tasks"] = as_json(others)

    def post(self, sent: Sequence[Sent], closed: Sequence[Reference]) -> None:
        """Send requests to agents in other processes, and close those that are needed no longer."""
        if sent:
            self.values["sent"] = as_json(sent)
        if closed:
            self.values["closed"] = as_json(closed)

    def can_enter(self, entering: Entering) -> bool:
        """Whether rows are all they need: a plan, a large input and who is to be told want the task's key."""
        return not any(new.plan or new.reply_to or self._outgoing.is_large(new.input) for new, _ in entering)

    def enter(self, entering: Entering) -> None:
        if entering:
            rows = [as_text(SHAPE.new_task_row(new, now, self._outgoing)) for new, now in entering]
            self.values["entered"] = as_json(rows)

    def claim(self, owner: Owner, runs: Sequence[Runnable], *, limit: int, now: datetime) -> None:
        """Lock up to ``limit`` tasks for ``owner``: of those that are there once all else is written."""
        wanted = [(run.workflow, run.version, micros(now + run.complete_by)) for run in runs]
        self.values.update(
            claimer=owner.id,
            claimer_epoch=owner.epoch,
            runs=as_json(wanted),
            room=limit,
            claimed_at=micros(now),
        )


def as_text(row: Row) -> Row:
    """A row for JSON: what is kept as bytes, JSON itself or a claim check, travels as text."""
    return [one.decode() if type(one) is bytes else one for one in row]
