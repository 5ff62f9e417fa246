"""The verbs of the state store on PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import msgspec

from backstay.clock import SystemClock
from backstay.domain.audit import Act, facts
from backstay.domain.lease import Owner
from backstay.domain.message import Lock
from backstay.domain.operate import check_hears
from backstay.domain.request import BrokenOff
from backstay.domain.states import SETTLED
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import Closed, LeaseLost, StoreUnavailable
from backstay.sql.queries import load_queries, numbered
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
from backstay.store.postgres.accepting import Accepting
from backstay.store.postgres.alerting import PostgresAlerting
from backstay.store.postgres.callers import Callers
from backstay.store.postgres.connection import LOST, Server
from backstay.store.postgres.contact import Contact
from backstay.store.postgres.groups import PostgresGroups
from backstay.store.postgres.inspection import PostgresInspection
from backstay.store.postgres.jobs import PostgresJobs
from backstay.store.postgres.lane import FOREVER, Boundary
from backstay.store.postgres.queues import PostgresQueues
from backstay.store.postgres.records import PostgresRecords
from backstay.store.postgres.requests import PostgresRequests
from backstay.store.postgres.retention import PostgresRetention
from backstay.store.postgres.schema import is_store, migrate
from backstay.store.postgres.session import Session
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.submissions import Answers
from backstay.store.postgres.supervision import PostgresSupervision
from backstay.store.postgres.tables import SHAPE, Tables
from backstay.store.postgres.url import address_of
from backstay.store.rows import Row, as_json
from backstay.vault import Vault

CONNECTIONS: Final = 4
INLINE_BYTES_MAX: Final = 16 * 1024


class PostgresStore:
    """The state store in a PostgreSQL database, shared by any number of processes."""

    def __init__(
        self,
        url: str,
        *,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        connections: int = CONNECTIONS,
        accept_data_loss: bool = False,
        server_clock: bool = True,
        vault: Vault | None = None,
        boundary: Boundary | None = None,
    ) -> None:
        address = address_of(url)
        self._address = address
        self._inline_bytes_max = inline_bytes_max
        self._server_clock = server_clock
        self._vault = vault or Vault()
        self._boundary = boundary
        named_queries = load_queries("backstay.store.postgres", schema=address.schema)
        self._queries = {name: numbered(sql) for name, sql in named_queries.items()}
        self._server = Server(address, self._queries, accept_data_loss=accept_data_loss)
        self._contact = Contact(SystemClock())
        self._channel = f"backstay_{address.schema}"
        self._connections = connections
        self._records = PostgresRecords(lambda: self._session, schema=address.schema, judged=self._judged)
        self._queues = PostgresQueues(
            lambda: self._session, self.listen, schema=address.schema, judged=self._judged
        )
        self._statuses = Statuses(self._queues.messages)
        self._callers = Callers(
            self._server,
            named_queries,
            channel=self._channel,
            inline_bytes_max=inline_bytes_max,
            statuses=self._statuses,
        )
        self._accepting = Accepting(lambda: self._session, self._callers, self._queues.messages)
        self._requests = PostgresRequests(lambda: self._session, judged=self._judged)
        self._supervision = PostgresSupervision(
            lambda: self._session,
            self._records,
            server=self._server,
            contact=self._contact,
            judged=self._judged,
        )
        self._alerting = PostgresAlerting(lambda: self._session, self._supervision)
        self._groups = PostgresGroups(
            lambda: self._session,
            self._supervision,
            schema=address.schema,
            messages=self._queues.messages,
            statuses=self._statuses,
            judged=self._judged,
        )
        self._jobs = PostgresJobs(
            lambda: self._session, self._vault, schema=address.schema, statuses=self._statuses
        )
        self._retention = PostgresRetention(lambda: self._session, judged=self._judged)
        self._inspection = PostgresInspection(lambda: self._session)
        self._open: Session | None = None

    claims_wait: Final = False

    @property
    def ahead(self) -> timedelta:
        return self._server.ahead

    @property
    def supervision(self) -> PostgresSupervision:
        return self._supervision

    @property
    def records(self) -> PostgresRecords:
        return self._records

    @property
    def alerting(self) -> PostgresAlerting:
        return self._alerting

    @property
    def queues(self) -> PostgresQueues:
        return self._queues

    @property
    def requests(self) -> PostgresRequests:
        return self._requests

    @property
    def groups(self) -> PostgresGroups:
        return self._groups

    @property
    def jobs(self) -> PostgresJobs:
        return self._jobs

    @property
    def retention(self) -> PostgresRetention:
        return self._retention

    @property
    def inspection(self) -> PostgresInspection:
        return self._inspection

    async def open(self, *, must_exist: bool = False) -> None:
        try:
            await self._prepare(must_exist=must_exist)
        except (*LOST, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise self._server.translated(error) from error
        self._open = Session(
            self._server,
            self._queries,
            channel=self._channel,
            connections=self._connections,
            inline_bytes_max=self._inline_bytes_max,
            boundary=self._boundary,
            statuses=self._statuses,
        )

    async def _prepare(self, *, must_exist: bool) -> None:
        connection = await self._server.connect()
        tables = Tables(connection, self._queries, inline_bytes_max=self._inline_bytes_max)
        try:
            if must_exist and not await is_store(tables, self._address):
                raise StoreUnavailable(
                    f"there is no store in {self._address.label}, schema {self._address.schema};"
                    " name another with --store or BACKSTAY_STORE,"
                    " or start the application that fills this one"
                )
            await migrate(tables, self._address, vault=self._vault)
        finally:
            connection.terminate()

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        return self._session.listen(listener)

    # Instances

    async def register(self, instance: NewInstance, *, now: datetime) -> Owner:
        runs = as_json([(run.workflow, run.version) for run in instance.runs])

        async def operation(tables: Tables, _changes: Changes) -> Owner:
            await tables.run(
                "insert_instance",
                id=instance.id,
                host=instance.host,
                pid=instance.pid,
                runs=runs,
                roles=as_json(instance.roles),
                now=self._judged(now),
            )
            await tables.run(
                "forget_instances", kept=INSTANCES_KEPT, now=self._judged(now), limit=FORGOTTEN_PER_ROW
            )
            await tables.run(
                "forget_requests", kept=INSTANCES_KEPT, now=self._judged(now), limit=REQUESTS_FORGOTTEN_MAX
            )
            return Owner(instance.id, 1)

        registered = await self._session.write(operation)
        self._contact.answered()
        return registered

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        told = None if report is None else as_json(report)

        async def operation(tables: Tables, _changes: Changes) -> None:
            asked_at = time.monotonic()
            answer = await tables.run(
                "beat", id=owner.id, epoch=owner.epoch, report=told, now=self._judged(now)
            )
            if not answer:
                raise LeaseLost("this instance", owner.id)
            self._server.heard(answer[0][0], took=time.monotonic() - asked_at)

        await self._session.beat(operation)
        self._contact.answered()

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            freed = await tables.end_instance(owner, now=self._judged(now), crashes=0)
            await tables.break_off(owner.id, BrokenOff.STOPPED, changes)
            changes.claimable = changes.claimable or bool(freed)
            return len(freed)

        # What it has handed in counts still: its epoch ends with this.
        await self._session.quiet()
        return await self._session.write(operation)

    async def instances(self) -> list[InstanceRecord]:
        async def look(tables: Tables) -> list[InstanceRecord]:
            return [SHAPE.instance_record(row) for row in await tables.run("list_instances")]

        return await self._session.read(look)

    # The way in

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> Answers:
        return await self._session.submit(tasks, now=now)

    async def submit_within(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        self._check_open()
        return await self._callers.submit_within(connection, task, now=now)

    def submit_in(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        self._check_open()
        return self._callers.submit_in(connection, task, now=now)

    async def accept(self, lock: Lock, function: Accept, *, now: datetime) -> Submitted:
        return await self._accepting.accept(lock, function, now=now)

    # The scheduler

    async def claim(
        self,
        owner: Owner,
        runs: Sequence[Runnable],
        *,
        limit: int,
        now: datetime,
        patience: timedelta = timedelta(0),  # noqa: ARG002  Who waits here would keep a connection.
    ) -> list[Claimed]:
        async def operation(tables: Tables, _changes: Changes) -> list[Claimed]:
            await tables.check_epoch(owner)
            rows = await tables.run(
                "claim_tasks",
                owner=owner.id,
                workflows=[run.workflow for run in runs],
                versions=[run.version for run in runs],
                allowances=[run.complete_by for run in runs],
                limit=limit,
                now=self._judged(now),
            )
            # RETURNING promises no order.
            return await _with_history(tables, sorted(rows, key=lambda row: row[0]))

        # What was claimed must not stay in doubt: nobody would run it before its complete-by.
        return await self._session.write(operation, patience=FOREVER)

    def apply(self, transition: Transition, settle: Settle) -> None:
        self._session.post(transition, settle)

    async def standing(self, keys: Sequence[int]) -> list[Standing]:
        async def look(tables: Tables) -> list[Standing]:
            signals = await tables.signals(keys)
            tasks = await tables.task_records(await tables.run("tasks_by_key", keys=keys))
            return [Standing(task, signals[task.key]) for task in tasks]

        return await self._session.read(look)

    # The operator

    async def amend(
        self, task_id: str, change: Amend, *, now: datetime, act: Act | None = None
    ) -> TaskRecord:
        async def operation(tables: Tables, changes: Changes) -> TaskRecord:
            before = await _locked(tables, task_id)
            told = await self._statuses.correspondents(tables, [before.key] if before.reply_to else [])
            amendment = change(before, await tables.journal(before.key))
            after = msgspec.structs.replace(amendment.task, updated_at=now)
            if amendment.forget_journal:
                await tables.run("forget_steps", task_key=before.key)
                await tables.run("forget_requests_of", task_key=before.key)
                await tables.run("release_signals", task_key=before.key)
            await tables.put_steps(amendment.steps)
            await tables.put_tasks([after])
            await tables.run("put_request", request=after.request, key=after.key)
            if after.state in SETTLED and after.parent_key is not None:
                await tables.run_on("wake_tasks", [after.parent_key], now)
            if act is not None:
                await tables.record(act, now, before=facts(before), after=facts(after))
                await tables.take_up(act, now)
            await self._statuses.tell_of_amendment(tables, changes, told, after)
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
        async def operation(tables: Tables, changes: Changes) -> TaskRecord:
            known = await _locked(tables, task_id)
            check_hears(known)
            [[count]] = await tables.run("count_signals", task_key=known.key)
            check_room_for_signal(task_id, count)
            await tables.insert_signal(known.key, name, payload, dedup=dedup, now=now)
            await tables.run_on("unpark_called", [known.key], now)
            after = await tables.task(task_id)
            if act is not None:
                await tables.record(act, now, before=facts(known), after=facts(after))
            amended(after, changes)
            return after

        return await self._session.write(operation)

    # Reading

    async def task(self, task_id: str) -> TaskRecord:
        return await self._session.read(lambda tables: tables.task(task_id))

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        async def look(tables: Tables) -> dict[str, TaskRecord | None]:
            states = {row[0]: row[1] for row in await tables.run("task_states", ids=task_ids)}
            settled = [task_id for task_id, state in states.items() if state in SETTLED]
            found = await tables.tasks_by_id(settled) if settled else []
            return {**dict.fromkeys(states), **{task.id: task for task in found}}

        return await self._session.read(look)

    async def steps(self, task_id: str) -> list[StepRecord]:
        async def look(tables: Tables) -> list[StepRecord]:
            return await tables.journal((await tables.task(task_id)).key)

        return await self._session.read(look)

    async def tasks(self, wanted: TaskFilter) -> list[TaskRecord]:
        query, values = listing(wanted)

        async def look(tables: Tables) -> list[TaskRecord]:
            return await tables.task_records(await tables.run(query, **values))

        return await self._session.read(look)

    async def backlog(self, *, at_most: int, workflow: str | None = None) -> int:
        query = "count_claimable" if workflow is None else "count_claimable_of"

        async def look(tables: Tables) -> int:
            [[count]] = await tables.run(query, at_most=at_most, workflow=workflow)
            return int(count)

        return await self._session.read(look)

    # Underneath

    def _judged(self, now: datetime) -> datetime | None:
        return None if self._server_clock else now

    @property
    def _session(self) -> Session:
        self._check_open()
        assert self._open is not None
        return self._open

    def _check_open(self) -> None:
        if self._open is None:
            raise Closed(f"{self._address.label} is not open")


async def _locked(tables: Tables, task_id: str) -> TaskRecord:
    """The task, locked until the commit, and its parent before it: always in the order of the keys."""
    known = await tables.task(task_id)
    await tables.locks(sorted(key for key in (known.key, known.parent_key) if key is not None))
    return await tables.task(task_id)


async def _with_history(tables: Tables, rows: list[Row]) -> list[Claimed]:
    if not rows:
        return []
    tasks = await tables.task_records(rows)
    keys = [task.key for task in tasks]
    steps = await tables.steps(keys)
    signals = await tables.signals(keys)
    requests = await tables.requests_of([*steps])
    return [Claimed(task, steps[task.key], signals[task.key], requests[task.key]) for task in tasks]
