"""What a person is called for: something stopped that will not go on by itself."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from backstay.domain.control import Subject
from backstay.domain.target import queue_target, task_target


class AlertKind(StrEnum):
    TASK_ERROR = "task_error"  # a task stopped in error
    UNDO_FAILED = "undo_failed"  # an undo keeps failing
    UNDO_MANUAL = "undo_manual"  # an undo is a person's work
    WORKFLOW_PAUSED = "workflow_paused"  # too many recoveries of one workflow
    AGENT_PAUSED = "agent_paused"  # too many recoveries of one agent's steps
    SUBMISSION_CONFLICT = "submission_conflict"  # a message names a task that has other content
    QUARANTINE = "quarantine"  # a group sets events aside that it cannot process
    DEAD_LETTER = "dead_letter"  # messages of a queue were set aside
    QUEUE_FULL = "queue_full"  # a queue takes no more messages


#: Which alert tells of a pause that the supervisor made.
PAUSED: Final = {Subject.WORKFLOW: AlertKind.WORKFLOW_PAUSED, Subject.AGENT: AlertKind.AGENT_PAUSED}


class NewAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as it is raised, in the commit of what it tells of."""

    kind: AlertKind
    message: str
    # What it tells of, as in the audit trail.
    target: str
    task_id: str | None = None
    step: str | None = None


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as it is kept, until somebody has taken it up and after."""

    id: int
    kind: AlertKind
    target: str
    task_id: str | None
    step: str | None
    message: str
    at: datetime
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None


def of_task(kind: AlertKind, task_id: str, *, message: str, step: str | None = None) -> NewAlert:
    return NewAlert(kind=kind, message=message, target=task_target(task_id), task_id=task_id, step=step)


# Of a queue: called for once, until somebody has taken that up.


def of_dead_letter(queue: str, *, id: str, reason: str) -> NewAlert:
    return NewAlert(
        kind=AlertKind.DEAD_LETTER,
        message=f"messages of queue {queue} were set aside, first {id}: {reason};"
        f" `backstay queues dead {queue}` lists them",
        target=queue_target(queue),
    )


def of_full_queue(queue: str, *, limit: int) -> NewAlert:
    return NewAlert(
        kind=AlertKind.QUEUE_FULL,
        message=f"queue {queue} is full: it holds {limit:,} messages (max_messages) and takes no more",
        target=queue_target(queue),
    )
