"""The verbs of the state store on SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from backstay.domain.lease import Owner, is_stale
from backstay.domain.operate import check_hears
from backstay.domain.states import SETTLED
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, Closed, LeaseLost, StoreUnavailable
from backstay.store.base import (
    Amend,
    Changes,
    Claimed,
    InstanceRecord,
    Listener,
    NewInstance,
    Runnable,
    Settle,
    Standing,
    Submitted,
    TaskFilter,
    Transition,
)
from backstay.store.decisions import amended, check_room_for_signal, listing, taken_away
from backstay.store.rows import as_json
from backstay.store.sqlfile import load_queries
from backstay.store.sqlite.callers import Callers
from backstay.store.sqlite.connection import connect, path_of, translated
from backstay.store.sqlite.liveness import Liveness
from backstay.store.sqlite.rows import SHAPE, micros
from backstay.store.sqlite.schema import is_store, migrate
from backstay.store.sqlite.tables import Tables
from backstay.store.sqlite.writer import Boundary, Writer

READERS: Final = 2
INLINE_BYTES_MAX: Final = 16 * 1024

Answer = TypeVar("Answer")


class SqliteStore:
    """The state store in one file. One writer thread commits; a few threads read beside it."""

    def __init__(
        self, url: str, *, inline_bytes_max: int = INLINE_BYTES_MAX, boundary: Boundary | None = None
    ) -> None:
        self._path = path_of(url)
        self._inline_bytes_max = inline_bytes_max
        self._boundary = boundary
        self._queries = load_queries("backstay.store.sqlite")
        self._liveness = Liveness(self._path)
        self._callers = Callers(self._path, self._tables)
        self._reading = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._writer: Writer | None = None
        self._readers: ThreadPoolExecutor | None = None

    @property
    def path(self) -> Path:
        return self._path

    @property
    def ahead(self) -> timedelta:
        return timedelta(0)  # The file is on this machine.

    async def open(self, *, must_exist: bool = False) -> None:
        connection = await asyncio.to_thread(self._prepare, must_exist=must_exist)
        self._writer = Writer(self._tables(connection), self._path, boundary=self._boundary)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="backstay-reader")

    def _prepare(self, *, must_exist: bool) -> sqlite3.Connection:
        try:
            if must_exist and not is_store(self._path):
                raise StoreUnavailable(
                    f"there is no store in {self._path}; name another with --store or BACKSTAY_STORE,"
                    " or start the application that fills this one"
                )
            connection = connect(self._path, readonly=False)
            try:
                migrate(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return connection

    async def close(self) -> None:
        if self._writer is None or self._readers is None:
            return
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()
        self._liveness.let_go()
        self._writer = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        return self._open_writer.listen(listener)

    # Instances

    async def register(self, instance: NewInstance, *, now: datetime) -> Owner:
        # The lock first: an instance that is registered and not locked would look dead.
        self._liveness.hold(instance.id)
        runs = as_json([(run.workflow, run.version) for run in instance.runs])

        def operation(tables: Tables, _changes: Changes) -> Owner:
            tables.run(
                "insert_instance",
                id=instance.id,
                host=instance.host,
                pid=instance.pid,
                runs=runs,
                now=micros(now),
            )
            return Owner(instance.id, 1)

        return await self._write(operation)

    async def beat(self, owner: Owner, *, now: datetime) -> None:
        def operation(tables: Tables, _changes: Changes) -> None:
            if tables.run("beat", id=owner.id, epoch=owner.epoch, now=micros(now)).rowcount == 0:
                raise LeaseLost("this instance", owner.id)

        await self._write(operation)

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            return _end(tables, changes, owner, now=now, crashes=0)

        freed = await self._write(operation)
        self._liveness.release(owner.id)
        return freed

    async def bury(self, *, lease: timedelta, now: datetime, spare: Owner | None = None) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            live = [SHAPE.instance_record(row) for row in tables.run("suspects").fetchall()]
            others = [one for one in live if spare is None or one.id != spare.id]
            dead = [one for one in others if self._is_dead(one, lease=lease, now=now)]
            for one in dead:
                self._liveness.forget(one.id)
            return sum(_end(tables, changes, Owner(one.id, one.epoch), now=now, crashes=1) for one in dead)

        return await self._write(operation)

    def _is_dead(self, instance: InstanceRecord, *, lease: timedelta, now: datetime) -> bool:
        return is_stale(instance.heartbeat_at, lease=lease, now=now) or self._liveness.is_dead(instance.id)

    async def instances(self) -> list[InstanceRecord]:
        return await self._read(
            lambda tables: [SHAPE.instance_record(row) for row in tables.run("list_instances")]
        )

    # The way in

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> list[Submitted | BackstayError]:
        def operation(tables: Tables, changes: Changes) -> list[Submitted | BackstayError]:
            changes.claimable = True
            return [tables.enter(task, now) for task in tasks]

        return await self._write(operation)

    async def submit_within(
        self,
        connection: object,
        task: NewTask,  # noqa: ARG002  No asynchronous connection leads into a file.
        *,
        now: datetime,  # noqa: ARG002
    ) -> Submitted:
        raise self._callers.no_way_within(connection)

    def submit_in(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        if self._writer is None:
            raise self._not_open()
        return self._callers.submit_in(connection, task, now=now)

    # The scheduler

    async def claim(
        self, owner: Owner, runs: Sequence[Runnable], *, limit: int, now: datetime
    ) -> list[Claimed]:
        def operation(tables: Tables, _changes: Changes) -> list[Claimed]:
            tables.check_epoch(owner)
            tasks: list[TaskRecord] = []
            for run in runs:
                if len(tasks) < limit:
                    tasks += _claim_of(tables, owner, run, limit=limit - len(tasks), now=now)
            return _with_history(tables, tasks)

        return await self._write(operation)

    def apply(self, transition: Transition, settle: Settle) -> None:
        self._open_writer.post(transition, settle)

    async def standing(self, keys: Sequence[int]) -> list[Standing]:
        def look(tables: Tables) -> list[Standing]:
            signals = tables.signals(keys)
            tasks = tables.task_records(tables.run("tasks_by_key", keys=as_json(keys)).fetchall())
            return [Standing(task, signals[task.key]) for task in tasks]

        return await self._read(look)

    # The supervisor

    async def wake(self, *, now: datetime, limit: int) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            woken = tables.run("wake_due", now=micros(now), limit=limit).rowcount
            changes.claimable = changes.claimable or woken > 0
            return woken

        return await self._write(operation)

    async def expire_runs(self, *, now: datetime, limit: int) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            rows = tables.run("expire_runs", now=micros(now), limit=limit).fetchall()
            taken_away([key for (key,) in rows], changes)
            return len(rows)

        return await self._write(operation)

    async def expire_steps(self, *, grace: timedelta, now: datetime, limit: int) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            overdue = tables.run("steps_overdue", before=micros(now - grace), limit=limit).fetchall()
            for task_key, key in overdue:
                tables.run("expire_step", task_key=task_key, key=key, now=micros(now))
            keys = sorted({task_key for task_key, _ in overdue})
            for task_key in keys:
                tables.run("take_away", key=task_key, now=micros(now))
            taken_away(keys, changes)
            return len(overdue)

        return await self._write(operation)

    # The operator

    async def amend(self, task_id: str, change: Amend, *, now: datetime) -> TaskRecord:
        def operation(tables: Tables, changes: Changes) -> TaskRecord:
            before = tables.task(task_id)
            amendment = change(before, tables.journal(before.key))
            after = msgspec.structs.replace(amendment.task, updated_at=now)
            if amendment.forget_journal:
                tables.run("forget_steps", task_key=before.key)
                tables.run("release_signals", task_key=before.key)
            tables.put_steps(amendment.steps)
            tables.put_tasks([after])
            tables.run("put_request", request=after.request, key=after.key)
            if after.state in SETTLED and after.parent_key is not None:
                tables.wake([after.parent_key], now)
            amended(after, changes)
            return after

        return await self._write(operation)

    async def signal(
        self, task_id: str, name: str, payload: bytes, *, dedup: str | None, now: datetime
    ) -> TaskRecord:
        def operation(tables: Tables, changes: Changes) -> TaskRecord:
            known = tables.task(task_id)
            check_hears(known)
            [count] = tables.run("count_signals", task_key=known.key).fetchone()
            check_room_for_signal(task_id, count)
            tables.insert_signal(known.key, name, payload, dedup=dedup, now=now)
            tables.unpark_called([known.key], now)
            after = tables.task(task_id)
            amended(after, changes)
            return after

        return await self._write(operation)

    # Reading

    async def task(self, task_id: str) -> TaskRecord:
        return await self._read(lambda tables: tables.task(task_id))

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        def look(tables: Tables) -> dict[str, TaskRecord | None]:
            states = dict(tables.run("task_states", ids=as_json(task_ids)).fetchall())
            settled = tables.tasks_by_id([task_id for task_id, state in states.items() if state in SETTLED])
            return {**dict.fromkeys(states), **{task.id: task for task in settled}}

        return await self._read(look)

    async def steps(self, task_id: str) -> list[StepRecord]:
        return await self._read(lambda tables: tables.journal(tables.task(task_id).key))

    async def tasks(self, wanted: TaskFilter) -> list[TaskRecord]:
        query, values = listing(wanted)
        for name in ("created_after", "created_before"):
            values[name] = SHAPE.stored(values[name])
        if values.get("states"):
            values["states"] = as_json(values["states"])
        return await self._read(lambda tables: tables.task_records(tables.run(query, **values).fetchall()))

    # Underneath

    @property
    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise self._not_open()
        return self._writer

    async def _write(self, operation: Callable[[Tables, Changes], Answer]) -> Answer:
        answer: Answer = await self._open_writer.call(operation)
        return answer

    async def _read(self, look: Callable[[Tables], Answer]) -> Answer:
        if self._writer is None or self._readers is None:
            raise self._not_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, look)

    def _look(self, look: Callable[[Tables], Answer]) -> Answer:
        try:
            return look(self._reader())
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _reader(self) -> Tables:
        """The reading connection of the thread that asks."""
        tables: Tables | None = getattr(self._reading, "tables", None)
        if tables is None:
            connection = connect(self._path, readonly=True)
            self._connections.append(connection)
            tables = self._reading.tables = self._tables(connection)
        return tables

    def _tables(self, connection: sqlite3.Connection) -> Tables:
        return Tables(connection, self._queries, inline_bytes_max=self._inline_bytes_max)

    def _not_open(self) -> Closed:
        return Closed(f"{self._path.name} is not open")


def _end(tables: Tables, changes: Changes, owner: Owner, *, now: datetime, crashes: int) -> int:
    """End an instance and free its tasks; nothing when its epoch is no longer current."""
    if tables.run("end_instance", id=owner.id, epoch=owner.epoch).rowcount == 0:
        return 0
    freed = tables.run("free_tasks", id=owner.id, crashes=crashes, now=micros(now)).rowcount
    changes.claimable = changes.claimable or freed > 0
    return freed


def _claim_of(tables: Tables, owner: Owner, run: Runnable, *, limit: int, now: datetime) -> list[TaskRecord]:
    rows = tables.run(
        "claim_tasks",
        owner=owner.id,
        workflow=run.workflow,
        version=run.version,
        complete_by=micros(now + run.complete_by),
        limit=limit,
        now=micros(now),
    ).fetchall()
    # RETURNING promises no order.
    return sorted(tables.task_records(rows), key=lambda task: task.key)


def _with_history(tables: Tables, tasks: list[TaskRecord]) -> list[Claimed]:
    if not tasks:
        return []
    keys = [task.key for task in tasks]
    steps = tables.steps(keys)
    signals = tables.signals(keys)
    return [Claimed(task, steps[task.key], signals[task.key]) for task in tasks]
