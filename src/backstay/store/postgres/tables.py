"""What is done to the tables through one connection, by the verbs and by the group commit alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg
import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.audit import Act
from backstay.domain.lease import Owner
from backstay.domain.request import BrokenOff, Reference, RequestStanding
from backstay.domain.step import StepRecord, in_order_of_beginning
from backstay.domain.task import NewTask, Signal, TaskRecord
from backstay.errors import LeaseLost, UnknownTask
from backstay.sql.queries import Numbered
from backstay.store.base import Changes, StepBegan, StepCompleted
from backstay.store.commit import Rows
from backstay.store.requests import Sent
from backstay.store.rows import (
    SIGNAL_VALUES,
    STEP_VALUES,
    TASK_VALUES,
    Facts,
    Outgoing,
    Payloads,
    Row,
    Shape,
    as_json,
    claimed_values,
    ended_row,
    signal_of,
)

Queries = Mapping[str, Numbered]
Locks = dict[int, tuple[str | None, int]]

#: The instant by which the database judges who is late: its own (``None``), or a test's.
Judged = Callable[[datetime], datetime | None]

SHAPE: Final = Shape(stored=lambda instant: instant, instant=lambda stored: stored)


class Tables:
    """One connection with its named queries and its claim checks."""

    def __init__(self, connection: asyncpg.Connection, queries: Queries, *, inline_bytes_max: int) -> None:
        self.connection = connection
        self._queries = queries
        self._inline_bytes_max = inline_bytes_max
        #: The id and number by which the open transaction is to be marked, if it is not yet.
        self.unmarked: tuple[str, int] | None = None

    async def mark(self) -> None:
        """Leave the number of this transaction, by which it is known whether it was committed."""
        if self.unmarked is not None:
            writer, number = self.unmarked
            await self.run("mark", id=writer, number=number)
            self.unmarked = None

    async def run(self, query: str, **values: Any) -> list[Row]:
        sql, parameters = self._queries[query]
        return await self._fetch(sql, [values[name] for name in parameters])

    async def run_rows(self, query: str, rows: Iterable[Row]) -> list[Row]:
        """Run a query that takes whole columns: one round trip, however many rows."""
        columns = list(zip(*rows, strict=True))
        if not columns:
            return []
        return await self._fetch(self._queries[query].sql, columns)

    async def _fetch(self, sql: str, values: Sequence[Any]) -> list[Row]:
        try:
            rows: list[Row] = await self.connection.fetch(sql, *values)
        except asyncpg.PostgresError as error:
            # Here the server quotes the row that it refuses, and what is said of an error may be logged.
            error.detail = None
            raise
        return rows

    # Tasks

    async def insert_tasks(self, tasks: Iterable[tuple[NewTask, datetime]]) -> dict[str, int]:
        """The keys of the new tasks by their ids; an id that was taken is missing."""
        first: dict[str, tuple[NewTask, datetime]] = {}
        for new, now in tasks:
            first.setdefault(new.id, (new, now))
        outgoing = self._outgoing()
        # In the order of their ids, so that no two transactions wait for each other.
        rows = [SHAPE.new_task_row(*first[task_id], outgoing) for task_id in sorted(first)]
        keys: dict[str, int] = {row[0]: row[1] for row in await self.run_rows("insert_task", rows)}
        planned: list[StepRecord] = []
        for task_id, key in keys.items():
            new = first[task_id][0]
            outgoing.entered(key, new)
            planned += [msgspec.structs.replace(step, task_key=key) for step in new.plan]
        await self._put_payloads(outgoing)
        await self.put_steps(planned)
        return keys

    async def task(self, task_id: str) -> TaskRecord:
        found = await self.tasks_by_id([task_id])
        if not found:
            raise UnknownTask(task_id)
        return found[0]

    async def tasks_by_id(self, ids: Sequence[str]) -> list[TaskRecord]:
        return await self.task_records(await self.run("tasks_by_id", ids=ids))

    async def task_records(self, rows: list[Row]) -> list[TaskRecord]:
        payloads = await self._payloads(rows, TASK_VALUES)
        return [SHAPE.task_record(row, payloads) for row in rows]

    async def put_tasks(self, tasks: Iterable[TaskRecord]) -> None:
        outgoing = self._outgoing()
        await self.run_rows("put_task", [SHAPE.task_row(task, outgoing) for task in tasks])
        await self._put_payloads(outgoing)

    async def run_on(self, query: str, keys: Sequence[int], now: datetime) -> None:
        """Run a query that changes the tasks ``keys``, if there are any."""
        if keys:
            await self.run(query, keys=keys, now=now)

    # Steps and signals

    async def put_steps(self, steps: Iterable[StepRecord]) -> None:
        outgoing = self._outgoing()
        await self.run_rows("put_step", [SHAPE.step_row(step, outgoing) for step in steps])
        await self._put_payloads(outgoing)

    async def begin_steps(self, steps: Sequence[StepBegan]) -> None:
        """Enter steps that run for the first time."""
        outgoing = self._outgoing()
        await self.run_rows("begin_steps", map(msgspec.structs.astuple, outgoing.lean(steps, "input")))
        await self._put_payloads(outgoing)

    async def complete_steps(self, steps: Sequence[StepCompleted]) -> None:
        """Complete steps that are running."""
        outgoing = self._outgoing()
        await self.run_rows("complete_steps", map(msgspec.structs.astuple, outgoing.lean(steps, "output")))
        await self._put_payloads(outgoing)

    async def write_plainly(self, rows: Rows, owner: Owner, locks: Mapping[int, int]) -> bool:
        """Write plain ``rows`` at once; ``False``, and nothing is, if a lock was lost or a value is large."""
        outgoing = self._outgoing()
        began = as_json(outgoing.lean(rows.began, "input")) if rows.began else "[]"
        completed = as_json(outgoing.lean(rows.completed, "output")) if rows.completed else "[]"
        processed = as_json([ended_row(task, outgoing) for task in rows.tasks.values()])
        if outgoing.payloads:
            return False
        assert self.unmarked is not None, "a batch is the first that its transaction writes"
        writer, number = self.unmarked
        [[passed]] = await self.run(
            "write_batch",
            writer=writer,
            number=number,
            owner=owner.id,
            epoch=owner.epoch,
            keys=[*locks],
            locks=as_json(locks),
            began=began,
            completed=completed,
            processed=processed,
        )
        self.unmarked = None
        return bool(passed)

    async def steps(self, keys: Sequence[int]) -> dict[int, list[StepRecord]]:
        rows = await self.run("steps_of", keys=keys)
        payloads = await self._payloads(rows, STEP_VALUES)
        found: dict[int, list[StepRecord]] = defaultdict(list)
        for row in rows:
            found[row[0]].append(SHAPE.step_record(row, payloads))
        return found

    async def journal(self, key: int) -> list[StepRecord]:
        return in_order_of_beginning((await self.steps([key]))[key])

    async def insert_signal(
        self, task_key: int, name: str, payload: bytes, *, dedup: str | None, now: datetime
    ) -> None:
        outgoing = self._outgoing()
        stored = outgoing.value(task_key, payload)
        await self.run("insert_signal", task_key=task_key, name=name, dedup=dedup, payload=stored, now=now)
        await self._put_payloads(outgoing)

    async def signals(self, keys: Sequence[int]) -> dict[int, list[Signal]]:
        """What was told to tasks and not consumed yet, oldest first."""
        rows = await self.run("fresh_signals", keys=keys)
        payloads = await self._payloads(rows, SIGNAL_VALUES)
        found: dict[int, list[Signal]] = defaultdict(list)
        for row in rows:
            found[row[0]].append(signal_of(row, payloads))
        return found

    # Requests to agents in other processes

    async def requests(self, query: str, **values: Any) -> list[RequestStanding]:
        return [SHAPE.request_standing(row) for row in await self.run(query, **values)]

    async def requests_of(self, keys: Sequence[int]) -> dict[int, list[RequestStanding]]:
        found: dict[int, list[RequestStanding]] = defaultdict(list)
        if keys:
            for one in await self.requests("requests_of", keys=keys):
                found[one.reference.task_key].append(one)
        return found

    async def post(self, sent: Iterable[Sent], closed: Sequence[Reference], changes: Changes) -> None:
        """Send requests, and close those that are needed no longer."""
        in_order = sorted(sent, key=lambda one: (one.task_key, one.step))
        await self.run_rows("send_requests", map(msgspec.structs.astuple, in_order))
        await self.close_requests(closed, changes)

    async def close_requests(self, references: Sequence[Reference], changes: Changes) -> None:
        rows = await self.run_rows("close_requests", map(msgspec.structs.astuple, references))
        changes.withdrawn = changes.withdrawn or any(at_work for [at_work] in rows)

    async def lock_requests(self, references: Sequence[Reference]) -> list[RequestStanding]:
        rows = await self.run_rows("lock_requests", map(msgspec.structs.astuple, references))
        return [SHAPE.request_standing(row) for row in rows]

    async def break_off(self, id: str, how: BrokenOff, changes: Changes) -> list[Row]:
        """The host ``id`` has ended: of each request that it left, the task, its workflow and the agent."""
        rows = await self.run("break_off_requests", id=id, how=how)
        changes.replied += [row[0] for row in rows]
        return rows

    # Instances

    async def end_instance(self, owner: Owner, *, now: datetime | None, crashes: int) -> list[Row]:
        """End an instance and free its tasks: of each its workflow, and the state that it is left in.

        Nothing when its epoch is no longer current.
        """
        if not await self.run("end_instance", id=owner.id, epoch=owner.epoch):
            return []
        return await self.run("free_tasks", id=owner.id, crashes=crashes, now=now)

    # What is kept for operators

    async def put_alerts(self, alerts: Iterable[tuple[NewAlert, datetime]]) -> None:
        await self.run_rows("insert_alert", [SHAPE.alert_row(alert, at) for alert, at in alerts])

    async def record(self, act: Act, at: datetime, *, before: Facts, after: Facts) -> None:
        """A line in the audit trail."""
        await self.run("insert_entry", **SHAPE.entry_values(act, at, before=before, after=after))

    async def take_up(self, act: Act, at: datetime) -> None:
        """The open alerts that tell of what is acted on."""
        await self.run("take_up", target=act.target, step=act.step, by=act.who, now=at)

    # Fences

    async def epochs(self, ids: Sequence[str]) -> dict[str, int]:
        """The current epochs of the instances that live; they stay what they are until the commit."""
        return {row[0]: row[1] for row in await self.run("instance_epochs", ids=ids)}

    async def locks(self, keys: Sequence[int]) -> Locks:
        """Whose the tasks are; they stay what they are until the commit."""
        return {row[0]: (row[1], row[2]) for row in await self.run("lock_numbers", keys=keys)}

    async def locks_at_hand(self, keys: Sequence[int]) -> tuple[Locks, set[int]]:
        """The same without waiting; and those tasks that another transaction holds on to."""
        locks = {row[0]: (row[1], row[2]) for row in await self.run("locks_at_hand", keys=keys)}
        missing = [key for key in keys if key not in locks]
        if not missing:
            return locks, set()
        return locks, {row[0] for row in await self.run("known_keys", keys=missing)}

    async def check_epoch(self, owner: Owner) -> None:
        if (await self.epochs([owner.id])).get(owner.id) != owner.epoch:
            raise LeaseLost("this instance", owner.id)

    # Underneath

    def _outgoing(self) -> Outgoing:
        return Outgoing(self._inline_bytes_max)

    async def _put_payloads(self, outgoing: Outgoing) -> None:
        if outgoing.payloads:
            await self.run_rows("put_payload", outgoing.payloads)

    async def _payloads(self, rows: Iterable[Row], places: tuple[int, ...]) -> Payloads:
        wanted = claimed_values(rows, places)
        found = await self.run_rows("payloads_of", wanted)
        return {(task_key, digest): body for task_key, digest, body in found}
