"""Writes a batch: as one statement where that can be, else one thing after the other."""

from __future__ import annotations

from backstay.domain.states import TaskState
from backstay.errors import BackstayError, Conflict
from backstay.sql.sqlite.connection import REFUSALS
from backstay.store.base import Changes, Posted, Submitted, Transition
from backstay.store.commit import Fences, Rows, judged_together, owners, task_keys
from backstay.store.sqlite.claims import Claim
from backstay.store.sqlite.document import Document, Entering
from backstay.store.sqlite.statuses import correspondents, tell_of_rows
from backstay.store.sqlite.tables import Tables


def write_plainly(
    tables: Tables, posted: list[Posted], entering: Entering, claim: Claim | None, changes: Changes
) -> bool:
    """Write transitions, enter tasks and claim some with one statement.

    ``False``, and nothing is written, if there is more to it: somebody to wake, a large value, an id that
    is taken, a lock that was lost.
    """
    document = tables.document()
    rows = Rows(transition for transition, _ in posted)
    if not rows.plain or not document.can_enter(entering) or not _act_together(document, posted):
        return False
    try:
        document.begin(rows.began)
        document.complete(rows.completed)
        document.put(rows.tasks.values())
        document.post([*rows.sent.values()], rows.closed)
        document.enter(entering)
        if document.payloads:
            return False
        if claim is not None:
            document.claim(claim.owner, claim.runs, limit=claim.limit, now=claim.now())
        tables.write(document)
    except REFUSALS:
        return False
    rows.report(changes)
    return True


def _act_together(document: Document, posted: list[Posted]) -> bool:
    if not posted:
        return True
    under = judged_together([transition for transition, _ in posted])
    if under is not None:
        document.act_under(*under)
    return under is not None


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


def claim_tasks(tables: Tables, claim: Claim) -> None:
    """Claim by itself, after all else was written."""
    document = tables.document()
    document.claim(claim.owner, claim.runs, limit=claim.limit, now=claim.now())
    tables.write(document)


def enter_all(tables: Tables, entering: Entering) -> list[Submitted]:
    """Enter new tasks together. Raises IntegrityError if not all are new: nothing may stay then."""
    document = tables.document()
    if not document.can_enter(entering):
        raise Conflict("some of them need more than a row")
    document.enter(entering)
    tables.write(document)
    return tables.entered(entering)


def _write(tables: Tables, transitions: list[Transition], changes: Changes) -> BackstayError | None:
    rows = Rows(transitions)
    tables.connection.execute("SAVEPOINT transitions")
    try:
        known = correspondents(tables, [*rows.replying])
        _put_rows(tables, rows)
        tell_of_rows(tables, changes, known, rows)
    except REFUSALS as error:
        tables.connection.execute("ROLLBACK TO transitions")
        tables.connection.execute("RELEASE transitions")
        return Conflict(f"the store refused a transition: {error}")
    tables.connection.execute("RELEASE transitions")
    rows.report(changes)
    return None


def _put_rows(tables: Tables, rows: Rows) -> None:
    document = tables.document()
    document.begin(rows.began)
    document.complete(rows.completed)
    document.post([*rows.sent.values()], rows.closed)
    tables.write(document)
    if rows.steps:
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
