"""A batch of transitions in one transaction: lock the fences, refuse what lost its lock, write the rest.

Nobody is waited for: what touches a task that another transaction holds on to is left for the next batch.
All rows are written at once; should one of them break a rule of the schema, the batch is written again
in ever smaller parts, until that one stands alone: the others lose nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from backstay.domain.states import SETTLED, TaskState
from backstay.errors import BackstayError, Conflict
from backstay.store.base import Changes, Posted, Transition
from backstay.store.commit import Fences, Rows, judged_together, owners
from backstay.store.postgres.connection import REFUSALS
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.tables import Tables


class Batch:
    """What became of each transition, once ``write`` has been committed."""

    def __init__(self, posted: list[Posted], statuses: Statuses) -> None:
        self._all = posted
        self._statuses = statuses
        self.in_parts = False
        # Those that were judged, with why they were refused; and those that must be tried again.
        self.judged: list[tuple[Posted, BackstayError | None]] = []
        self.left: list[Posted] = []

    async def write(self, tables: Tables, changes: Changes) -> None:
        """Runs inside the batch's transaction, once per attempt at it."""
        if not self.in_parts and await self._write_plainly(tables, changes):
            return
        epochs = await tables.epochs(sorted(owner.id for owner in owners(self._all)))
        locks, held = await tables.locks_at_hand(sorted(_keys(transition for transition, _ in self._all)))
        self._set_aside(held)
        fences = Fences(epochs, locks)
        self.judged = [(one, fences.refusal(one[0])) for one, _ in self.judged]
        accepted = [transition for (transition, _), refusal in self.judged if refusal is None]
        if not self.in_parts:
            await self._write(tables, accepted, changes)
            return
        refusals = await self._write_in_parts(tables, accepted, changes)
        self.judged = [(one, refusal or refusals.get(id(one[0]))) for one, refusal in self.judged]

    async def _write_plainly(self, tables: Tables, changes: Changes) -> bool:
        """Most batches need no care: everything is current, and nothing follows. Whether this was one."""
        transitions = [transition for transition, _ in self._all]
        rows = Rows(transitions)
        together = judged_together(transitions) if rows.plain else None
        if together is None or not await tables.write_plainly(rows, *together):
            return False
        if rows.sent or rows.closed:
            await tables.post(rows.sent.values(), rows.closed, changes)
        self.judged, self.left = [(one, None) for one in self._all], []
        rows.report(changes)
        return True

    def _set_aside(self, held: set[int]) -> None:
        """Leave what touches a held task for later, and with it whatever follows on the same task."""
        self.judged, self.left = [], []
        waiting: set[int] = set()
        for one in self._all:
            if one[0].task_key in waiting or held.intersection(_keys([one[0]])):
                waiting.add(one[0].task_key)
                self.left.append(one)
            else:
                self.judged.append((one, None))

    async def _write(self, tables: Tables, transitions: list[Transition], changes: Changes) -> None:
        rows = Rows(transitions)
        known = await self._statuses.correspondents(tables, [*rows.replying])
        if rows.began:
            await tables.begin_steps(rows.began)
        if rows.completed:
            await tables.complete_steps(rows.completed)
        await tables.put_steps(rows.steps.values())
        await tables.run_rows(
            "consume_signal", [(key, task_key, number) for task_key, number, key in rows.consumed]
        )
        await tables.insert_tasks(rows.children)
        await tables.put_alerts(rows.alerts)
        if rows.sent or rows.closed:
            await tables.post(rows.sent.values(), rows.closed, changes)
        if rows.tasks:
            await _put_tasks(tables, rows)
        await self._statuses.tell_of_rows(tables, changes, known, rows)
        rows.report(changes)

    async def _write_in_parts(
        self, tables: Tables, transitions: list[Transition], changes: Changes
    ) -> dict[int, BackstayError]:
        """Write those that break no rule of the schema; the refusals of the others, by identity."""
        await tables.connection.execute("SAVEPOINT part")
        try:
            await self._write(tables, transitions, changes)
        except REFUSALS as error:
            await tables.connection.execute("ROLLBACK TO part")
            if len(transitions) == 1:
                return {id(transitions[0]): Conflict(f"the store refused a transition: {error}")}
        else:
            await tables.connection.execute("RELEASE part")
            return {}
        half = len(transitions) // 2
        first = await self._write_in_parts(tables, transitions[:half], changes)
        return first | await self._write_in_parts(tables, transitions[half:], changes)


def _keys(transitions: Iterable[Transition]) -> set[int]:
    """The tasks that must be locked: those that are written, and parents that may have to be woken."""
    keys: set[int] = set()
    for transition in transitions:
        keys.add(transition.task_key)
        task = transition.task
        if task is not None and task.parent_key is not None and task.state in SETTLED:
            keys.add(task.parent_key)
    return keys


async def _put_tasks(tables: Tables, rows: Rows) -> None:
    await tables.put_tasks(rows.tasks.values())
    now = max(task.updated_at for task in rows.tasks.values())
    parents = [task.parent_key for task in rows.settled if task.parent_key is not None]
    await tables.run_on("wake_tasks", parents, now)
    # Somebody may have called between a run's last look at its task and the row that it leaves.
    await tables.run_on("unpark_called", [key for key, task in rows.tasks.items() if task.parked], now)
    stopped = [key for key, task in rows.tasks.items() if task.state is TaskState.ERROR]
    await tables.run_on("obey_requests", stopped, now)
