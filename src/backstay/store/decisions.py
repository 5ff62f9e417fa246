"""What the verbs of every backend decide alike, on what they have read."""

from __future__ import annotations

from typing import Any, Final

from backstay.domain.states import SETTLED, TaskState
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, IdConflict, InvalidRequest
from backstay.store.base import Changes, Submitted, TaskFilter

SIGNALS_MAX: Final = 10_000

#: The states that the index task_unusual holds.
RARE: Final = frozenset(TaskState) - {TaskState.PENDING, TaskState.PROCESSING, TaskState.PROCESSED}

_KEY_MAX: Final = 2**63 - 1


def known_task(new: NewTask, known: TaskRecord) -> Submitted | BackstayError:
    """The answer to a submission whose id is taken."""
    # The version is not the caller's: the same submission may come again after a deploy.
    if (known.workflow, known.input) != (new.workflow, new.input):
        return IdConflict(new.id, workflow=known.workflow, state=known.state)
    return Submitted(known, created=False)


def check_room_for_signal(task_id: str, signals: int) -> None:
    if signals >= SIGNALS_MAX:
        raise InvalidRequest(f"task {task_id} was sent {SIGNALS_MAX:,} signals, which is the limit")


def listing(wanted: TaskFilter) -> tuple[str, dict[str, Any]]:
    """The query that lists ``wanted`` by an index, and its parameters; instants are still instants."""
    values = {
        "before": _KEY_MAX if wanted.before is None else wanted.before,
        "workflow": wanted.workflow,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "attribute": None if wanted.attribute is None else wanted.attribute[0],
        "value": None if wanted.attribute is None else wanted.attribute[1],
        "limit": wanted.limit,
    }
    match wanted.states:
        case (TaskState.PENDING,):
            return "list_pending_tasks", values
        case (TaskState.PROCESSING,):
            return "list_processing_tasks", values
        case (state,) if state in RARE:
            return "list_rare_tasks", {**values, "state": state}
        case states:
            return "list_tasks", {**values, "states": states or None}


def taken_away(keys: list[int], changes: Changes) -> None:
    changes.touched += keys
    changes.claimable = changes.claimable or bool(keys)


def amended(task: TaskRecord, changes: Changes) -> None:
    changes.touched.append(task.key)
    changes.claimable = True
    if task.state in SETTLED:
        changes.settled.append(task)
        if task.parent_key is not None:
            changes.touched.append(task.parent_key)
