"""What the submitter of a task is told: which status follows from which change, and the message that says so.

received ──► started ──► completed ──► undone (somebody had it undone afterwards)
               ▲ │
   resubmitted │ ├──► failed: stopped in error, cancelled, or an undo that failed
               └─┴──► undone

A status is a matter of the record: it is told in the commit of the change that it tells of, or not at all.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from backstay.domain.message import NewMessage
from backstay.domain.states import TaskState
from backstay.domain.step import Failure
from backstay.domain.task import NewTask, TaskRecord, check_id, derived_id
from backstay.errors import InvalidId, InvalidInput

QUEUE: Final = "queue"
TOPIC: Final = "topic"


class Status(StrEnum):
    """What a task has come to, in the eyes of its submitter."""

    RECEIVED = "received"  # it is in the store
    STARTED = "started"  # a run of it has begun to write
    COMPLETED = "completed"
    FAILED = "failed"  # it stopped, and will not go on by itself
    UNDONE = "undone"  # what it did is undone


#: What is told when a task comes into one of these states.
ENDINGS: Final = {
    TaskState.PROCESSED: Status.COMPLETED,
    TaskState.ERROR: Status.FAILED,
    TaskState.CANCELLED: Status.FAILED,
    TaskState.UNDO_FAILED: Status.FAILED,
    TaskState.UNDONE: Status.UNDONE,
}

_CANCELLED: Final = Failure("Cancelled", "an operator cancelled this task")
_UNKNOWN: Final = Failure("Unknown", "no error was recorded")


class Destination(NamedTuple):
    """Where the messages of a task go."""

    name: str
    topic: bool


class Correspondent(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose submitter wants to be told, with the state it is in and what was told last."""

    key: int
    id: str
    workflow: str
    reply_to: str
    state: TaskState
    status: Status
    sequence: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be told: the row that remembers it, and the message."""

    key: int
    status: Status
    sequence: int
    at: datetime
    message: NewMessage


class _Body(msgspec.Struct, kw_only=True, omit_defaults=True):
    task_id: str
    workflow: str
    status: Status
    sequence: int
    at: datetime
    output: msgspec.Raw | None = None
    error: Failure | None = None


_encode: Final = msgspec.json.Encoder().encode


# Rules


def written_by_run(known: Correspondent, after: TaskRecord | None, *, at: datetime) -> list[Notice]:
    """What is told of a write by the run that holds ``known``; ``after`` is the row that it leaves, if any.

    The first write of a run that goes forward says that the task has started, unless that was said and
    nothing came of it yet: whoever goes on after a crash says nothing.
    """
    notices: list[Notice] = []
    if known.state is TaskState.PROCESSING and known.status is not Status.STARTED:
        notices.append(_notice(known, Status.STARTED, 1, at, None))
    if after is not None and after.state in ENDINGS:
        place = len(notices) + 1
        notices.append(_notice(known, ENDINGS[after.state], place, after.updated_at, after))
    return notices


def changed_by_operator(known: Correspondent, after: TaskRecord) -> list[Notice]:
    """What is told of a change that somebody made to a task from outside."""
    if after.state is known.state or after.state not in ENDINGS:
        return []
    return [_notice(known, ENDINGS[after.state], 1, after.updated_at, after)]


def first_notice(key: int, new: NewTask, at: datetime) -> Notice:
    """What is told of a task that enters."""
    assert new.reply_to is not None
    known = Correspondent(
        key=key,
        id=new.id,
        workflow=new.workflow,
        reply_to=new.reply_to,
        state=TaskState.PENDING,
        status=Status.RECEIVED,
        sequence=0,
    )
    return _notice(known, Status.RECEIVED, 1, at, None)


def failure_message(task: TaskRecord, *, queue: str, body: bytes) -> NewMessage:
    """What a queue is told of a task that has failed for good under the lock that it is held by."""
    return NewMessage(
        to=queue,
        # A task that was resubmitted fails under another lock: that is another failure.
        id=derived_id(task.id, f"failure:{task.lock_number}"),
        body=body,
        properties={"task_id": task.id, "workflow": task.workflow, "correlation_id": task.id},
        droppable=True,
    )


# Destinations


def checked_reply_to(reply_to: object) -> str:
    """Return ``reply_to`` if it names a queue or a topic, as far as can be seen without looking."""
    kind, colon, name = reply_to.partition(":") if isinstance(reply_to, str) else ("", "", "")
    if not colon or kind not in (QUEUE, TOPIC):
        raise InvalidInput(
            f'reply_to is {reply_to!r:.60}; it must be "queue:NAME" or "topic:NAME", the name of one that is'
            " declared"
        )
    try:
        check_id(name, name=f"reply_to, the name of a {kind},")
    except InvalidId as error:
        raise InvalidInput(str(error)) from None
    return f"{kind}:{name}"


def destination(reply_to: str) -> Destination:
    """Where a ``reply_to`` that was checked leads."""
    kind, _, name = reply_to.partition(":")
    return Destination(name, topic=kind == TOPIC)


def nowhere(reply_to: str) -> InvalidInput:
    """What there is to say of a ``reply_to`` that leads to nothing that is there."""
    name, topic = destination(reply_to)
    kind = TOPIC if topic else QUEUE
    return InvalidInput(
        f"reply_to is {reply_to!r}, and there is no {kind} {name!r};"
        f" declare it first, with app.{kind}({name!r}), which makes it when the application starts"
    )


# Messages


def _notice(
    known: Correspondent, status: Status, place: int, at: datetime, after: TaskRecord | None
) -> Notice:
    sequence = known.sequence + place
    body = _Body(
        task_id=known.id,
        workflow=known.workflow,
        status=status,
        sequence=sequence,
        at=at,
        output=_output(status, after),
        error=_error(status, after),
    )
    to, topic = destination(known.reply_to)
    message = NewMessage(
        to=to,
        topic=topic,
        id=derived_id(known.id, f"{status}:{sequence}"),
        body=_encode(body),
        properties={
            "task_id": known.id,
            "workflow": known.workflow,
            "status": status.value,
            "correlation_id": known.id,
        },
        # A listener that is dead must not hold up the task, nor fill the store.
        droppable=True,
    )
    return Notice(key=known.key, status=status, sequence=sequence, at=at, message=message)


def _output(status: Status, after: TaskRecord | None) -> msgspec.Raw | None:
    if status is not Status.COMPLETED or after is None or after.output is None:
        return None
    return msgspec.Raw(after.output)


def _error(status: Status, after: TaskRecord | None) -> Failure | None:
    """Why it failed, and for what it was undone."""
    if after is None or status in (Status.STARTED, Status.COMPLETED):
        return None
    if after.error is None and status is Status.FAILED:
        return _CANCELLED if after.state is TaskState.CANCELLED else _UNKNOWN
    return after.error
