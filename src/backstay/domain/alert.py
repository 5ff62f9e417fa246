"""What a person is called for: something stopped that will not go on by itself."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from backstay.domain.control import Subject
from backstay.domain.instants import micros
from backstay.domain.target import control_target, group_target, job_target, queue_target, task_target


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
    BREAKER_OPEN = "breaker_open"  # an agent's service fails so often that it is left alone
    STREAM_LAG = "stream_lag"  # a group is far behind in its stream
    OCCURRENCES_MISSED = "occurrences_missed"  # a job did not run when it should have
    JOB_UNREADABLE = "job_unreadable"  # a job cannot be run by this release
    JOB_UNFIT = "job_unfit"  # an occurrence of a job cannot be entered
    OTHER_LOG = "other_log"  # a group would read another log than before
    OFFSET_AHEAD = "offset_ahead"  # a log has lost what a group has read
    QUARANTINE_FULL = "quarantine_full"  # a group has no room to set more events aside
    QUEUE_MISSING = "queue_missing"  # a pipeline sends to a queue that is not there
    TEST = "test"  # nothing is wrong: somebody tries whether sinks are told; never kept


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
    # How often the same was found while nobody had taken it up, and when last.
    count: int = 1
    last_at: datetime

    @property
    def key(self) -> str:
        """The same however often it is told; of another store another one."""
        return f"alert-{self.id}-{micros(self.at)}"


class Undelivered(msgspec.Struct, frozen=True):
    """An alert that a sink has yet to be told of, and how often that was tried."""

    alert: Alert
    attempt: int


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of telling a sink: it is tried again at ``next_at``; without that it has been told."""

    alert_id: int
    sink: str
    attempt: int
    next_at: datetime | None = None
    error: str | None = None


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


# Of a group of a stream.


def of_group(kind: AlertKind, stream: str, group: str, *, message: str) -> NewAlert:
    return NewAlert(kind=kind, message=message, target=group_target(stream, group))


def of_lag(stream: str, group: str, *, lag: int, limit: int) -> NewAlert:
    message = (
        f"group {group} is {lag:,} events behind in stream {stream}, more than {limit:,} (alert_lag_events);"
        f" `backstay streams lag {stream}` tells where"
    )
    return of_group(AlertKind.STREAM_LAG, stream, group, message=message)


# Of an agent, a job.


def of_open_breaker(agent: str, *, instances: int) -> NewAlert:
    return NewAlert(
        kind=AlertKind.BREAKER_OPEN,
        message=f"the breaker of agent {agent} is open in {instances} of the live processes:"
        " its service fails; `backstay agents ls` tells how it stands",
        target=control_target(Subject.AGENT, agent),
    )


def of_job(kind: AlertKind, collection: str, name: str, *, message: str) -> NewAlert:
    return NewAlert(kind=kind, message=message, target=job_target(collection, name))
