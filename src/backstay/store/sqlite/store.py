"""The verbs of the state store on SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from backstay.domain.audit import Act, facts
from backstay.domain.instants import micros
from backstay.domain.lease import Owner
from backstay.domain.message import Lock
from backstay.domain.operate import check_hears
from backstay.domain.request import BrokenOff
from backstay.domain.states import SETTLED
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, Closed, LeaseLost, StoreUnavailable
from backstay.sql.queries import load_queries
from backstay.sql.sqlite.connection import connect, path_of, translated
from backstay.sql.sqlite.schema import is_store, migrate
from backstay.store.accepting import Accept
from backstay.store.base import (
    Amend,
    Changes,
    Claimed,
    InstanceRecord,
    Listener,
    NewInstance,
    Report,
    Runnable,
    Settle,
    Standing,
    Submitted,
    TaskFilter,
    Transition,
)
from backstay.store.decisions import (
    FORGOTTEN_PER_ROW,
    INSTANCES_KEPT,
    REQUESTS_FORGOTTEN_MAX,
    amended,
    check_room_for_signal,
    listing,
)
from backstay.store.fullness import Fullness
from backstay.store.rows import as_json
from backstay.store.sqlite.alerting import SqliteAlerting
from backstay.store.sqlite.callers import Callers
from backstay.store.sqlite.groups import SqliteGroups
from backstay.store.sqlite.inspection import SqliteInspection
from backstay.store.sqlite.jobs import SqliteJobs
from backstay.store.sqlite.liveness import Liveness
from backstay.store.sqlite.queues import SqliteQueues
from backstay.store.sqlite.records import SqliteRecords
from backstay.store.sqlite.requests import SqliteRequests
from backstay.store.sqlite.retention import SqliteRetention
from backstay.store.sqlite.rows import SHAPE
from backstay.store.sqlite.sealing import SEALING, seal_plain
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.statuses import correspondents, tell_of_amendment
from backstay.store.sqlite.supervision import SqliteSupervision
from backstay.store.sqlite.tables import Tables, prepare
from backstay.store.sqlite.writer import Boundary
from backstay.vault import KeyFile, Vault

INLINE_BYTES_MAX: Final = 16 * 1024

_PACKAGE: Final = "backstay.store.sqlite"


def key_path(path: Path) -> Path:
    """Where the keys of secrets are, unless somebody says otherwise: beside the file."""
    return path.with_name(f"{path.name}.key")


class SqliteStore:
    """The state store in one file. One writer thread commits; a few threads read beside it."""

    ahead: Final = timedelta(0)  # The file is on this machine.
    claims_wait: Final = True

    def __init__(
        self,
        url: str,
        *,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        vault: Vault | None = None,
        boundary: Boundary | None = None,
    ) -> None:
        self._path = path_of(url)
        self._vault = vault or Vault(file=KeyFile(key_path(self._path)))
        self._inline_bytes_max = inline_bytes_max
        self._boundary = boundary
        self._queries = load_queries(_PACKAGE)
        self._fullness = Fullness()
        self._liveness = Liveness(self._path)
        self._callers = Callers(self._path, self._tables)
        self._supervision = SqliteSupervision(lambda: self._session, self._liveness)
        self._alerting = SqliteAlerting(lambda: self._session, self._supervision)
        self._records = SqliteRecords(lambda: self._session)
        self._queues = SqliteQueues(lambda: self._session, self.listen)
        self._requests = SqliteRequests(lambda: self._session)
        self._groups = SqliteGroups(lambda: self._session, self._supervision.dead)
        self._jobs = SqliteJobs(lambda: self._session, self._vault)
        self._retention = SqliteRetention(lambda: self._session)
        self._inspection = SqliteInspection(lambda: self._session)
        self._open: Session | None = None

    @property
    def path(self) -> Path:
        return self._path

    @property
    def supervision(self) -> SqliteSupervision:
        return self._supervision

    @property
    def records(self) -> SqliteRecords:
        return self._records

    @property
    def queues(self) -> SqliteQueues:
        return self._queues

    @property
    def requests(self) -> SqliteRequests:
        return self._requests

    @property
    def groups(self) -> SqliteGroups:
        return self._groups

    @property
    def jobs(self) -> SqliteJobs:
        return self._jobs

    @property
    def retention(self) -> SqliteRetention:
        return self._retention

    @property
    def inspection(self) -> SqliteInspection:
        return self._inspection

    @property
    def alerting(self) -> SqliteAlerting:
        return self._alerting

    async def open(self, *, must_exist: bool = False) -> None:
        connection = await asyncio.to_thread(self._prepare, must_exist=must_exist)
        self._open = Session(connection, self._path, self._tables, boundary=self._boundary)

    def _prepare(self, *, must_exist: bool) -> sqlite3.Connection:
        try:
            if must_exist and not is_store(self._path):
                raise StoreUnavailable(
                    f"there is no store in {self._path}; name another with --store or BACKSTAY_STORE,"
                    " or start the application that fills this one"
                )
            connection = connect(self._path, readonly=False)
            try:
                self._migrate(connection)
                prepare(connection, self._queries)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        moved: list[int] = []
        sealing = {SEALING: lambda: moved.append(seal_plain(self._tables(connection), self._vault))}
        migrate(connection, _PACKAGE, beside=sealing)
        if any(moved):
            # What was kept in plain text is not to lie in the log either.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._liveness.let_go()
            self._open = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        return self._session.writer.listen(listener)

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
                roles=as_json(instance.roles),
                now=micros(now),
            )
            tables.run("forget_instances", before=micros(now - INSTANCES_KEPT), limit=FORGOTTEN_PER_ROW)
            tables.run("forget_requests", before=micros(now - INSTANCES_KEPT), limit=REQUESTS_FORGOTTEN_MAX)
            return Owner(instance.id, 1)

        return await self._session.write(operation)

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        told = None if report is None else as_json(report)

        def operation(tables: Tables, _changes: Changes) -> None:
            beat = tables.run("beat", id=owner.id, epoch=owner.epoch, report=told, now=micros(now))
            if beat.rowcount == 0:
                raise LeaseLost("this instance", owner.id)

        await self._session.write(operation)

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        def operation(tables: Tables, changes: Changes) -> int:
            freed = tables.end_instance(owner, now=now, crashes=0)
            tables.break_off(owner.id, BrokenOff.STOPPED, changes)
            changes.claimable = changes.claimable or bool(freed)
            return len(freed)

        freed = await self._session.write(operation)
        self._liveness.release(owner.id)
        return freed

    async def instances(self) -> list[InstanceRecord]:
        return await self._session.read(
            lambda tables: [SHAPE.instance_record(row) for row in tables.run("list_instances")]
        )

    # The way in

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> list[Submitted | BackstayError]:
        return await self._session.writer.enter(tasks, now=now)

    async def submit_within(
        self,
        connection: object,
        task: NewTask,  # noqa: ARG002  No asynchronous connection leads into a file.
        *,
        now: datetime,  # noqa: ARG002
    ) -> Submitted:
        raise self._callers.no_way_within(connection)

    def submit_in(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        if self._open is None:
            raise self._not_open()
        return self._callers.submit_in(connection, task, now=now)

    async def accept(self, lock: Lock, function: Accept, *, now: datetime) -> Submitted:
        return await self._session.accepting.accept(lock, function, now=now)

    # The scheduler

    async def claim(
        self,
        owner: Owner,
        runs: Sequence[Runnable],
        *,
        limit: int,
        now: datetime,
        patience: timedelta = timedelta(0),
    ) -> list[Claimed]:
        return await self._session.writer.claim(owner, runs, limit=limit, now=now, patience=patience)

    def apply(self, transition: Transition, settle: Settle) -> None:
        if self._open is None:
            raise self._not_open()
        self._open.writer.post(transition, settle)

    async def standing(self, keys: Sequence[int]) -> list[Standing]:
        def look(tables: Tables) -> list[Standing]:
            signals = tables.signals(keys)
            tasks = tables.task_records(tables.run("tasks_by_key", keys=as_json(keys)).fetchall())
            return [Standing(task, signals[task.key]) for task in tasks]

        return await self._session.read(look)

    # The operator

    async def amend(
        self, task_id: str, change: Amend, *, now: datetime, act: Act | None = None
    ) -> TaskRecord:
        def operation(tables: Tables, changes: Changes) -> TaskRecord:
            before = tables.task(task_id)
            told = correspondents(tables, [before.key] if before.reply_to else [])
            amendment = change(before, tables.journal(before.key))
            after = msgspec.structs.replace(amendment.task, updated_at=now)
            if amendment.forget_journal:
                tables.run("forget_steps", task_key=before.key)
                tables.run("forget_requests_of", task_key=before.key)
                tables.run("release_signals", task_key=before.key)
            tables.put_steps(amendment.steps)
            tables.put_tasks([after])
            tables.run("put_request", request=after.request, key=after.key)
            if after.state in SETTLED and after.parent_key is not None:
                tables.wake([after.parent_key], now)
            if act is not None:
                tables.record(act, now, before=facts(before), after=facts(after))
                tables.take_up(act, now)
            tell_of_amendment(tables, changes, told, after)
            amended(after, changes)
            return after

        return await self._session.write(operation)

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: bytes,
        *,
        dedup: str | None,
        now: datetime,
        act: Act | None = None,
    ) -> TaskRecord:
        def operation(tables: Tables, changes: Changes) -> TaskRecord:
            known = tables.task(task_id)
            check_hears(known)
            [count] = tables.run("count_signals", task_key=known.key).fetchone()
            check_room_for_signal(task_id, count)
            tables.insert_signal(known.key, name, payload, dedup=dedup, now=now)
            tables.unpark_called([known.key], now)
            after = tables.task(task_id)
            if act is not None:
                tables.record(act, now, before=facts(known), after=facts(after))
            amended(after, changes)
            return after

        return await self._session.write(operation)

    # Reading

    async def task(self, task_id: str) -> TaskRecord:
        return await self._session.read(lambda tables: tables.task(task_id))

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        def look(tables: Tables) -> dict[str, TaskRecord | None]:
            states = dict(tables.run("task_states", ids=as_json(task_ids)).fetchall())
            settled = tables.tasks_by_id([task_id for task_id, state in states.items() if state in SETTLED])
            return {**dict.fromkeys(states), **{task.id: task for task in settled}}

        return await self._session.read(look)

    async def steps(self, task_id: str) -> list[StepRecord]:
        return await self._session.read(lambda tables: tables.journal(tables.task(task_id).key))

    async def tasks(self, wanted: TaskFilter) -> list[TaskRecord]:
        query, values = listing(wanted)
        for name in ("created_after", "created_before"):
            values[name] = SHAPE.stored(values[name])
        if values.get("states"):
            values["states"] = as_json(values["states"])
        return await self._session.read(
            lambda tables: tables.task_records(tables.run(query, **values).fetchall())
        )

    async def backlog(self, *, at_most: int, workflow: str | None = None) -> int:
        query = "count_claimable" if workflow is None else "count_claimable_of"

        def look(tables: Tables) -> int:
            [count] = tables.run(query, at_most=at_most, workflow=workflow).fetchone()
            return int(count)

        return await self._session.read(look)

    # Underneath

    @property
    def _session(self) -> Session:
        if self._open is None:
            raise self._not_open()
        return self._open

    def _tables(self, connection: sqlite3.Connection) -> Tables:
        return Tables(
            connection,
            self._queries,
            inline_bytes_max=self._inline_bytes_max,
            fullness=self._fullness,
        )

    def _not_open(self) -> Closed:
        return Closed(f"{self._path.name} is not open")
