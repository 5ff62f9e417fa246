"""What both databases do alike to tell submitters."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import msgspec

from backstay.domain.states import TaskState
from backstay.domain.status import Correspondent, Notice, Status
from backstay.observe import STATUS_LOST, emit
from backstay.store.posting import Dated
from backstay.store.rows import Row


def as_correspondents(rows: Iterable[Row]) -> dict[int, Correspondent]:
    """From the columns of ``correspondents``, by the keys of the tasks."""
    return {
        row[0]: Correspondent(
            key=row[0],
            id=row[1],
            workflow=row[2],
            reply_to=row[3],
            state=TaskState(row[4]),
            status=Status(row[5]),
            sequence=row[6],
        )
        for row in rows
    }


def told_of(news: Sequence[Notice], messages: Sequence[Dated]) -> list[Dated]:
    """All that is sent: what tells submitters, and what else goes with the same commit."""
    return [*((one.message, one.at) for one in news), *messages]


def in_session(dated: Dated) -> Dated:
    """The same message for queues that take messages of sessions only: a session for each task."""
    message, at = dated
    return msgspec.structs.replace(message, session=str(message.properties["task_id"])), at


def not_told(dated: Dated, error: Exception) -> None:
    """Nobody will hear of this; the task goes on all the same."""
    message, _ = dated
    emit(STATUS_LOST, level=logging.WARNING, id=message.id, to=message.to, error=error)
