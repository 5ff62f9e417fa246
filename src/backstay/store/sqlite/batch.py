"""Writes a batch of transitions: read the fences, refuse what lost its lock, write the rest at once."""

from __future__ import annotations

from datetime import datetime

from backstay.domain.states import TaskState
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, Conflict
from backstay.store.base import Changes, Submitted, Transition
from backstay.store.commit import Fences, Posted, Rows, owners, task_keys
from backstay.store.sqlite.connection import REFUSALS
from backstay.store.sqlite.tables import Tables


def write_transitions(tables: Tables, posted: list[Posted], changes: Changes) -> list[BackstayError | None]:
    """For each transition ``None``, or why it was refused. Runs inside the batch's transaction.

    The fences are read once for the whole batch; the write lock keeps them current until the commit.
    """
    fences = Fences(
        tables.epochs([owner.id for owner in owners(posted)]), tables.locks(sorted(task_keys(posted)))
    )
    refusals = [fences.refusal(transition) for transition, _ in posted]
    pairs = list(zip((transition for transition, _ in posted), refusals, strict=True))
    accepted = [transition for transition, refusal in pairs if refusal is None]
    if _write(tables, accepted, changes) is None:
        return refusals
    # One of them breaks a rule of the schema. The others must not suffer: each by itself.
    return [refusal or _write(tables, [transition], changes) for transition, refusal in pairs]


def enter_all(tables: Tables, tasks: list[tuple[NewTask, datetime]]) -> list[Submitted]:
    """Enter new tasks in a few statements. Raises Conflict if not all are new: nothing may stay then."""
    entered = tables.enter_all(tasks)
    if entered is None:
        raise Conflict("not all ids are new")
    return entered


def _write(tables: Tables, transitions: list[Transition], changes: Changes) -> BackstayError | None:
    rows = Rows(transitions)
    tables.connection.execute("SAVEPOINT transitions")
    try:
        _put_rows(tables, rows)
    except REFUSALS as error:
        tables.connection.execute("ROLLBACK TO transitions")
        tables.connection.execute("RELEASE transitions")
        return Conflict(f"the store refused a transition: {error}")
    tables.connection.execute("RELEASE transitions")
    rows.report(changes)
    return None


def _put_rows(tables: Tables, rows: Rows) -> None:
    tables.begin_steps(rows.began.values())
    tables.complete_steps(rows.completed.values())
    tables.put_steps(rows.steps.values())
    if rows.consumed:
        tables.run_many(
            "consume_signal", [(key, task_key, number) for task_key, number, key in rows.consumed]
        )
    for child, at in rows.children:
        tables.insert_task(child, at)
    if rows.alerts:
        tables.put_alerts(rows.alerts)
    if not rows.tasks:
        return
    tables.put_tasks(rows.tasks.values())
    for task in rows.settled:
        if task.parent_key is not None:
            tables.wake([task.parent_key], task.updated_at)
    _hear_what_came_meanwhile(tables, rows)


def _hear_what_came_meanwhile(tables: Tables, rows: Rows) -> None:
    """Somebody may have called between a run's last look at its task and the row that it leaves."""
    now = max(task.updated_at for task in rows.tasks.values())
    tables.unpark_called([key for key, task in rows.tasks.items() if task.parked], now)
    tables.obey_requests([key for key, task in rows.tasks.items() if task.state is TaskState.ERROR], now)
