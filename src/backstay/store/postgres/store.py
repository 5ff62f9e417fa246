"""The verbs of the state store on PostgreSQL."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

import asyncpg
import msgspec

from backstay.domain.lease import Owner
from backstay.domain.operate import check_hears
from backstay.domain.states import SETTLED
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord, first_record
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
from backstay.store.decisions import amended, check_room_for_signal, known_task, listing, taken_away
from backstay.store.postgres.batch import Batch
from backstay.store.postgres.committer import Committer
from backstay.store.postgres.connection import LOST, REFUSALS, Server
from backstay.store.postgres.lane import FOREVER, PATIENCE_SECONDS, Boundary, Lane, Lanes, Operation
from backstay.store.postgres.news import News
from backstay.store.postgres.schema import is_store, migrate
from backstay.store.postgres.tables import SHAPE, Tables
from backstay.store.postgres.url import address_of
from backstay.store.rows import Row, as_json
from backstay.store.sqlfile import load_queries, numbered

CONNECTIONS: Final = 4
INLINE_BYTES_MAX: Final = 16 * 1024

# So long a store that is being closed tries to write what was handed in.
CLOSE_SECONDS: Final = 5.0

# One submission may wait so long for another transaction that is submitting the same id.
_ALONE_SECONDS: Final = 1.0

Answer = TypeVar("Answer")
Answers = list[Submitted | BackstayError]


@dataclass(slots=True)
class _Submission:
    tasks: Sequence[NewTask]
    now: datetime
    future: asyncio.Future[Answers]


class _Apart(Exception):
    """One of several submissions is in trouble: each must be tried by itself."""


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
        self._queries = {
            name: numbered(sql)
            for name, sql in load_queries("backstay.store.postgres", schema=address.schema).items()
        }
        self._server = Server(address, self._queries, accept_data_loss=accept_data_loss)
        self._session = uuid.uuid4().hex
        self._channel = f"backstay_{address.schema}"
        self._transitions_lane = self._lane("transitions")
        self._submissions_lane = self._lane("submissions")
        # The heartbeat has a lane of its own: whatever holds up the others must not cost the lease.
        self._heartbeat_lane = self._lane("heartbeat")
        self._lanes = Lanes([self._lane(f"lane-{number}") for number in range(connections)])
        self._news = News(self._server, session=self._session, channel=self._channel, send=self._notify)
        self._transitions: Committer[Posted] | None = None
        self._submissions: Committer[_Submission] | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def ahead(self) -> timedelta:
        return self._server.ahead

    async def open(self, *, must_exist: bool = False) -> None:
        try:
            await self._prepare(must_exist=must_exist)
        except (*LOST, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise self._server.translated(error) from error
        self._transitions = Committer(
            self._commit_transitions, give_up=_refuse_all, name="backstay-transitions"
        )
        self._submissions = Committer(
            self._commit_submissions, give_up=_answer_all, name="backstay-submissions"
        )
        self._listening = asyncio.create_task(self._news.run(), name="backstay-news")

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
        if self._transitions is None or self._submissions is None or self._listening is None:
            return
        self._listening.cancel()
        await asyncio.wait([self._listening])
        await self._submissions.close(within=CLOSE_SECONDS)
        await self._transitions.close(within=CLOSE_SECONDS)
        await self._forget_lanes()
        for lane in self._all_lanes():
            await lane.close()
        self._transitions = None

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

        await self._write(operation, lane=self._heartbeat_lane)

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        async def operation(tables: Tables, changes: Changes) -> int:
            return await self._end(tables, changes, owner, now=now, crashes=0)

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
        if self._submissions is None:
            raise self._not_open()
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._submissions.add(_Submission(tasks, now, future))
        return await future

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
        if self._transitions is None:
            raise self._not_open()
        self._transitions.add((transition, settle))

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
            task_keys = [row[0] for row in overdue]
            await tables.run("expire_step", task_key=task_keys, key=[row[1] for row in overdue], now=judged)
            keys = sorted(set(task_keys))
            await tables.run("take_away", keys=keys, now=judged)
            taken_away(keys, changes)
            return len(overdue)

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

    async def _commit_transitions(self, posted: list[Posted]) -> list[Posted]:
        """Write transitions; those come back that another transaction stands in the way of."""
        batch = Batch(posted)
        try:
            _, changes = await self._transitions_lane.transact(batch.write, patience=FOREVER)
        except Conflict:
            # One of them breaks a rule of the schema. The others must not suffer.
            batch.one_by_one = True
            _, changes = await self._transitions_lane.transact(batch.write, patience=FOREVER)
        settle_all(batch.judged)
        self._news.tell(changes)
        return batch.left

    async def _commit_submissions(self, submissions: list[_Submission]) -> list[_Submission]:
        try:
            await self._submit(submissions, patience=PATIENCE_SECONDS)
        except _Apart:
            for one in submissions:
                await self._submit_alone(one)
        except BackstayError as error:
            _answer_all(submissions, error)
        return []

    async def _submit_alone(self, submission: _Submission) -> None:
        try:
            await self._submit([submission], patience=_ALONE_SECONDS)
        except BackstayError as error:
            _answer_all([submission], error)

    async def _submit(self, submissions: list[_Submission], *, patience: float) -> None:
        async def operation(tables: Tables, changes: Changes) -> list[Answers]:
            try:
                answers = await _enter(tables, submissions)
            except (asyncpg.LockNotAvailableError, *REFUSALS) as error:
                if len(submissions) > 1:
                    raise _Apart from error
                raise
            changes.claimable = True
            return answers

        answers, changes = await self._submissions_lane.transact(operation, patience=patience)
        for submission, answer in zip(submissions, answers, strict=True):
            if not submission.future.done():
                submission.future.set_result(answer)
        self._news.tell(changes)

    # Underneath

    def _judged(self, now: datetime) -> datetime | None:
        """The instant by which the database judges who is late: its own (``None``), or a test's."""
        return None if self._server_clock else now

    async def _write(
        self, operation: Operation[Answer], *, lane: Lane | None = None, patience: float = PATIENCE_SECONDS
    ) -> Answer:
        if self._transitions is None:
            raise self._not_open()
        if lane is None:
            async with self._lanes.one() as free:
                answer, changes = await free.transact(operation, patience=patience)
        else:
            answer, changes = await lane.transact(operation, patience=patience)
        self._news.tell(changes)
        return answer

    async def _read(self, look: Callable[[Tables], Awaitable[Answer]]) -> Answer:
        if self._transitions is None:
            raise self._not_open()
        async with self._lanes.one() as lane:
            return await lane.look(look)

    async def _notify(self, notice: str) -> None:
        await self._read(lambda tables: tables.run("notify", channel=self._channel, notices=[notice]))

    async def _forget_lanes(self) -> None:
        """What our lanes last wrote is of no interest once we are gone."""
        ids = [lane.id for lane in self._all_lanes()]
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._read(lambda tables: tables.run("forget_writers", ids=ids))
        except (TimeoutError, BackstayError):
            return  # The store is away. Somebody else removes them in a week.

    def _all_lanes(self) -> list[Lane]:
        return [self._transitions_lane, self._submissions_lane, self._heartbeat_lane, *self._lanes.all]

    def _lane(self, name: str) -> Lane:
        return Lane(
            f"{self._session}/{name}",
            self._server,
            self._queries,
            channel=self._channel,
            inline_bytes_max=self._inline_bytes_max,
            boundary=self._boundary,
        )

    def _not_open(self) -> Closed:
        return Closed(f"{self._address.label} is not open")


async def _enter(tables: Tables, submissions: list[_Submission]) -> list[Answers]:
    """Enter new tasks and answer for those whose ids are taken."""
    wanted = [(task, submission.now) for submission in submissions for task in submission.tasks]
    keys = await tables.insert_tasks(wanted)
    created: dict[str, NewTask] = {}
    for task, _ in wanted:
        if task.id in keys:
            created.setdefault(task.id, task)
    others = sorted({task.id for task, _ in wanted if created.get(task.id) is not task})
    known = {task.id: task for task in await tables.tasks_by_id(others)} if others else {}

    def answer(task: NewTask, now: datetime) -> Submitted | BackstayError:
        if created.get(task.id) is task:
            return Submitted(first_record(keys[task.id], task, now), created=True)
        return known_task(task, known[task.id])

    return [[answer(task, one.now) for task in one.tasks] for one in submissions]


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


def _answer_all(submissions: list[_Submission], error: BackstayError) -> None:
    for submission in submissions:
        if not submission.future.done():
            submission.future.set_exception(error)
