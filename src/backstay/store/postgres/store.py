"""The verbs of the state store on PostgreSQL."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import asyncpg
import msgspec

from backstay.domain.lease import Owner
from backstay.domain.operate import check_hears
from backstay.domain.states import SETTLED
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, Closed, Conflict, LeaseLost, StoreUnavailable
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
from backstay.store.commit import Posted, settle_all
from backstay.store.decisions import amended, check_room_for_signal, listing, taken_away
from backstay.store.postgres.batch import Batch
from backstay.store.postgres.callers import Callers
from backstay.store.postgres.committer import Committer
from backstay.store.postgres.connection import LOST, Server
from backstay.store.postgres.lane import (
    FOREVER,
    GOODBYE_SECONDS,
    PATIENCE_SECONDS,
    Boundary,
    Lane,
    Lanes,
    Operation,
)
from backstay.store.postgres.news import News
from backstay.store.postgres.schema import is_store, migrate
from backstay.store.postgres.submissions import TOGETHER, Answers, Submission, SubmissionBatch, answer_all
from backstay.store.postgres.tables import SHAPE, Tables
from backstay.store.postgres.url import address_of
from backstay.store.rows import Row, as_json
from backstay.store.sqlfile import load_queries, numbered

CONNECTIONS: Final = 4
INLINE_BYTES_MAX: Final = 16 * 1024

# So long a store that is being closed tries to write what was handed in.
CLOSE_SECONDS: Final = 5.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Open:
    """What there is only while the store is open."""

    transitions: Committer[Posted]
    submissions: Committer[Submission]
    # The heartbeat has a lane of its own: whatever holds up the others must not cost the lease.
    heartbeat: Lane
    lanes: Lanes
    listening: asyncio.Task[None]
    every_lane: list[Lane]
    callers: Callers


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
        boundary: Boundary | None = None,
    ) -> None:
        address = address_of(url)
        self._address = address
        self._inline_bytes_max = inline_bytes_max
        self._server_clock = server_clock
        self._boundary = boundary
        self._named_queries = load_queries("backstay.store.postgres", schema=address.schema)
        self._queries = {name: numbered(sql) for name, sql in self._named_queries.items()}
        self._server = Server(address, self._queries, accept_data_loss=accept_data_loss)
        self._session = uuid.uuid4().hex
        self._channel = f"backstay_{address.schema}"
        self._connections = connections
        self._news = News(self._server, session=self._session, channel=self._channel, send=self._notify)
        self._open: _Open | None = None

    @property
    def ahead(self) -> timedelta:
        return self._server.ahead

    async def open(self, *, must_exist: bool = False) -> None:
        try:
            await self._prepare(must_exist=must_exist)
        except (*LOST, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise self._server.translated(error) from error
        self._open = self._opening()

    def _opening(self) -> _Open:
        transitions, heartbeat = self._lane("transitions"), self._lane("heartbeat")
        submissions = self._lane("submissions", first=TOGETHER)
        others = [self._lane(f"lane-{number}") for number in range(self._connections)]
        return _Open(
            transitions=Committer(
                partial(self._commit_transitions, transitions),
                give_up=_refuse_all,
                name="backstay-transitions",
            ),
            submissions=Committer(
                partial(self._commit_submissions, submissions),
                give_up=answer_all,
                name="backstay-submissions",
            ),
            heartbeat=heartbeat,
            lanes=Lanes(others),
            listening=asyncio.create_task(self._news.run(), name="backstay-news"),
            every_lane=[transitions, submissions, heartbeat, *others],
            callers=Callers(
                self._server,
                self._named_queries,
                channel=self._channel,
                inline_bytes_max=self._inline_bytes_max,
            ),
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
            await migrate(tables, self._address)
        finally:
            connection.terminate()

    async def close(self) -> None:
        if self._open is None:
            return
        self._open.listening.cancel()
        await asyncio.wait([self._open.listening])
        await asyncio.gather(
            self._open.submissions.close(within=CLOSE_SECONDS),
            self._open.transitions.close(within=CLOSE_SECONDS),
        )
        await self._forget_lanes()
        await asyncio.gather(*(lane.close() for lane in self._open.every_lane))
        self._open = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        return self._news.listen(listener)

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
                now=self._judged(now),
            )
            return Owner(instance.id, 1)

        return await self._write(operation)

    async def beat(self, owner: Owner, *, now: datetime) -> None:
        async def operation(tables: Tables, _changes: Changes) -> None:
            asked_at = time.monotonic()
            answer = await tables.run("beat", id=owner.id, epoch=owner.epoch, now=self._judged(now))
            if not answer:
                raise LeaseLost("this instance", owner.id)
            self._server.heard(answer[0][0], took=time.monotonic() - asked_at)

        await self._write(operation, lane=self._opened.heartbeat)

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            return await self._end(tables, changes, owner, now=now, crashes=0)

        # What it has handed in counts still: its epoch ends with this.
        await self._opened.transitions.quiet(within=PATIENCE_SECONDS)
        return await self._write(operation)

    async def bury(self, *, lease: timedelta, now: datetime, spare: Owner | None = None) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            rows = await tables.run(
                "suspects",
                lease=lease,
                spare=None if spare is None else spare.id,
                now=self._judged(now),
            )
            dead = [SHAPE.instance_record(row) for row in rows]
            freed = 0
            for one in dead:
                freed += await self._end(tables, changes, Owner(one.id, one.epoch), now=now, crashes=1)
            return freed

        return await self._write(operation)

    async def _end(
        self, tables: Tables, changes: Changes, owner: Owner, *, now: datetime, crashes: int
    ) -> int:
        """End an instance and free its tasks; nothing when its epoch is no longer current."""
        if not await tables.run("end_instance", id=owner.id, epoch=owner.epoch):
            return 0
        freed = await tables.run("free_tasks", id=owner.id, crashes=crashes, now=self._judged(now))
        changes.claimable = changes.claimable or bool(freed)
        return len(freed)

    async def instances(self) -> list[InstanceRecord]:
        async def look(tables: Tables) -> list[InstanceRecord]:
            return [SHAPE.instance_record(row) for row in await tables.run("list_instances")]

        return await self._read(look)

    # The way in

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> Answers:
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._opened.submissions.add(Submission(tasks, now, future))
        return await future

    async def submit_within(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        return await self._opened.callers.submit_within(connection, task, now=now)

    def submit_in(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        return self._opened.callers.submit_in(connection, task, now=now)

    # The scheduler

    async def claim(
        self, owner: Owner, runs: Sequence[Runnable], *, limit: int, now: datetime
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
        return await self._write(operation, patience=FOREVER)

    def apply(self, transition: Transition, settle: Settle) -> None:
        self._opened.transitions.add((transition, settle))

    async def standing(self, keys: Sequence[int]) -> list[Standing]:
        async def look(tables: Tables) -> list[Standing]:
            signals = await tables.signals(keys)
            tasks = await tables.task_records(await tables.run("tasks_by_key", keys=keys))
            return [Standing(task, signals[task.key]) for task in tasks]

        return await self._read(look)

    # The supervisor

    async def wake(self, *, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            woken = await tables.run("wake_due", now=self._judged(now), limit=limit)
            changes.claimable = changes.claimable or bool(woken)
            return len(woken)

        return await self._write(operation)

    async def expire_runs(self, *, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            rows = await tables.run("expire_runs", now=self._judged(now), limit=limit)
            taken_away([row[0] for row in rows], changes)
            return len(rows)

        return await self._write(operation)

    async def expire_steps(self, *, grace: timedelta, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            judged = self._judged(now)
            overdue = await tables.run("steps_overdue", grace=grace, now=judged, limit=limit)
            if not overdue:
                return 0
            # Now that their tasks are locked: what has just been answered or begun anew is not overdue.
            expired = await tables.run(
                "expire_step",
                task_key=[row[0] for row in overdue],
                key=[row[1] for row in overdue],
                grace=grace,
                now=judged,
            )
            keys = sorted({row[0] for row in expired})
            await tables.run("take_away", keys=keys, now=judged)
            taken_away(keys, changes)
            return len(expired)

        return await self._write(operation)

    # The operator

    async def amend(self, task_id: str, change: Amend, *, now: datetime) -> TaskRecord:
        async def operation(tables: Tables, changes: Changes) -> TaskRecord:
            before = await _locked(tables, task_id)
            amendment = change(before, await tables.journal(before.key))
            after = msgspec.structs.replace(amendment.task, updated_at=now)
            if amendment.forget_journal:
                await tables.run("forget_steps", task_key=before.key)
                await tables.run("release_signals", task_key=before.key)
            await tables.put_steps(amendment.steps)
            await tables.put_tasks([after])
            await tables.run("put_request", request=after.request, key=after.key)
            if after.state in SETTLED and after.parent_key is not None:
                await tables.run_on("wake_tasks", [after.parent_key], now)
            amended(after, changes)
            return after

        return await self._write(operation)

    async def signal(
        self, task_id: str, name: str, payload: bytes, *, dedup: str | None, now: datetime
    ) -> TaskRecord:
        async def operation(tables: Tables, changes: Changes) -> TaskRecord:
            known = await _locked(tables, task_id)
            check_hears(known)
            [[count]] = await tables.run("count_signals", task_key=known.key)
            check_room_for_signal(task_id, count)
            await tables.insert_signal(known.key, name, payload, dedup=dedup, now=now)
            await tables.run_on("unpark_called", [known.key], now)
            after = await tables.task(task_id)
            amended(after, changes)
            return after

        return await self._write(operation)

    # Reading

    async def task(self, task_id: str) -> TaskRecord:
        return await self._read(lambda tables: tables.task(task_id))

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        async def look(tables: Tables) -> dict[str, TaskRecord | None]:
            states = {row[0]: row[1] for row in await tables.run("task_states", ids=task_ids)}
            settled = [task_id for task_id, state in states.items() if state in SETTLED]
            found = await tables.tasks_by_id(settled) if settled else []
            return {**dict.fromkeys(states), **{task.id: task for task in found}}

        return await self._read(look)

    async def steps(self, task_id: str) -> list[StepRecord]:
        async def look(tables: Tables) -> list[StepRecord]:
            return await tables.journal((await tables.task(task_id)).key)

        return await self._read(look)

    async def tasks(self, wanted: TaskFilter) -> list[TaskRecord]:
        query, values = listing(wanted)

        async def look(tables: Tables) -> list[TaskRecord]:
            return await tables.task_records(await tables.run(query, **values))

        return await self._read(look)

    # Group commit

    async def _commit_transitions(self, lane: Lane, posted: list[Posted]) -> list[Posted]:
        """Write transitions; those come back that another transaction stands in the way of."""
        batch = Batch(posted)
        try:
            _, changes = await lane.transact(batch.write, patience=FOREVER)
        except Conflict:
            # One of them breaks a rule of the schema. The others must not suffer.
            batch.in_parts = True
            _, changes = await lane.transact(batch.write, patience=FOREVER)
        settle_all(batch.judged)
        self._news.tell(changes)
        return batch.left

    async def _commit_submissions(self, lane: Lane, submissions: list[Submission]) -> list[Submission]:
        """Enter tasks; those come back whose ids another transaction holds on to."""
        batch = SubmissionBatch(submissions, self._server)
        try:
            _, changes = await lane.transact(batch.write)
        except BackstayError as error:
            answer_all(submissions, error)
            return []
        left = batch.settle()
        self._news.tell(changes)
        return left

    # Underneath

    def _judged(self, now: datetime) -> datetime | None:
        """The instant by which the database judges who is late: its own (``None``), or a test's."""
        return None if self._server_clock else now

    async def _write(
        self, operation: Operation[Answer], *, lane: Lane | None = None, patience: float = PATIENCE_SECONDS
    ) -> Answer:
        async with self._opened.lanes.one() if lane is None else nullcontext(lane) as free:
            answer, changes = await free.transact(operation, patience=patience)
        self._news.tell(changes)
        return answer

    async def _read(self, look: Callable[[Tables], Awaitable[Answer]]) -> Answer:
        async with self._opened.lanes.one() as lane:
            return await lane.look(look)

    async def _notify(self, notice: str) -> None:
        await self._read(lambda tables: tables.run("notify", channel=self._channel, notices=[notice]))

    async def _forget_lanes(self) -> None:
        """What our lanes last wrote is of no interest once we are gone."""
        ids = [lane.id for lane in self._opened.every_lane]
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._read(lambda tables: tables.run("forget_writers", ids=ids))
        except (TimeoutError, BackstayError):
            return  # The store is away. Somebody else removes them in a week.

    def _lane(self, name: str, *, first: str = "") -> Lane:
        return Lane(
            # Never the same twice: what an earlier lane wrote must not settle what this one does.
            f"{self._session}/{name}-{uuid.uuid4().hex[:8]}",
            self._server,
            self._queries,
            channel=self._channel,
            inline_bytes_max=self._inline_bytes_max,
            boundary=self._boundary,
            first=first,
        )

    @property
    def _opened(self) -> _Open:
        if self._open is None:
            raise Closed(f"{self._address.label} is not open")
        return self._open


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
    return [Claimed(task, steps[task.key], signals[task.key]) for task in tasks]


def _refuse_all(posted: list[Posted], error: BackstayError) -> None:
    settle_all([(one, error) for one in posted])
