"""Submit, look, and step in: what a program does with a store, whoever runs the roles."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from backstay.clock import Clock
from backstay.definitions.codec import encode
from backstay.definitions.registry import Registry
from backstay.definitions.workflows import Workflow
from backstay.domain.access import Token
from backstay.domain.durations import describe
from backstay.domain.ids import KEYS_KEPT
from backstay.domain.states import TaskState
from backstay.domain.task import NewTask, TaskRecord, check_id
from backstay.errors import (
    Conflict,
    InvalidInput,
    InvalidRequest,
    TaskFailed,
    UnknownWorkflow,
)
from backstay.jobroom import Jobroom
from backstay.mailroom import Mailroom
from backstay.messaging.exchange import Exchange
from backstay.messaging.handles import QueueHandle, TopicHandle
from backstay.messaging.logs import log_of
from backstay.messaging.stream import Log
from backstay.messaging.stream_handle import StreamHandle
from backstay.messaging.streams import Streams
from backstay.operating import Operator
from backstay.outcomes import Outcomes
from backstay.settings import Settings
from backstay.store.base import Store, Submitted
from backstay.store.records import Remembered
from backstay.streamroom import Streamroom
from backstay.submit import CompleteBy, Door
from backstay.views import Task


class Handle:
    """A submitted task."""

    def __init__(self, client: Client, task_id: str, *, unsettled_at: int | None = None) -> None:
        self._client = client
        self._unsettled_at = unsettled_at
        self.id = task_id

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109  The public name.
        """What the workflow returned. Raises TaskFailed when the task ended or stopped otherwise.

        Raises TimeoutError after ``timeout`` seconds; the task goes on.
        """
        if timeout is None:
            task = await self._client.settled(self.id, unsettled_at=self._unsettled_at)
        else:
            async with asyncio.timeout(timeout):
                task = await self._client.settled(self.id, unsettled_at=self._unsettled_at)
        return self._client.result_of(task)

    async def state(self) -> str:
        return (await self._client.task(self.id)).state

    async def cancel(self, *, undo: bool = True) -> Task:
        """Stop the task; with ``undo`` what it did is undone."""
        return await self._client.cancel(self.id, undo=undo)


class Client(Operator):
    """An operator who submits as well."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        settings: Settings,
        clock: Clock,
        who: str | None = None,
        log: Log | None = None,
    ) -> None:
        super().__init__(store, registry, settings=settings, clock=clock, who=who)
        self._door = Door(store, registry, settings=settings, clock=clock)
        self._outcomes = Outcomes(store)
        self.exchange = Exchange(store.queues, registry, settings=settings, clock=clock)
        log = log_of(settings) if log is None else log
        self.streams = Streams(log, registry, settings=settings, clock=clock, groups=store.groups)

    async def open(self, *, must_exist: bool = False) -> None:
        """Connect to what is beside the store."""
        await self.streams.log.open(must_exist=must_exist)

    async def close(self) -> None:
        self._outcomes.close()
        self.exchange.close()
        self.streams.close()
        await self.streams.log.close()

    # Queues, streams and jobs

    @property
    def mailroom(self) -> Mailroom:
        """Whoever looks after queues: what is in them, and what was set aside."""
        return Mailroom(self.exchange, settings=self._settings, clock=self._clock, act=self._act)

    @property
    def streamroom(self) -> Streamroom:
        """Whoever looks after streams: what is in them, how far groups have got, what was set aside."""
        return Streamroom(
            self.streams, self._store.groups, settings=self._settings, clock=self._clock, act=self._act
        )

    @property
    def jobroom(self) -> Jobroom:
        """Whoever looks after jobs: collections, what is in them, and what became of it."""
        return Jobroom(self._store.jobs, settings=self._settings, clock=self._clock, act=self._act)

    def queue(self, name: str) -> QueueHandle:
        """A queue that the application, or somebody else, declares."""
        return QueueHandle(check_id(name, name="name of the queue"), lambda: self.exchange)

    def topic(self, name: str) -> TopicHandle:
        """A topic that the application, or somebody else, declares."""
        return TopicHandle(check_id(name, name="name of the topic"), lambda: self.exchange)

    def stream(self, name: str) -> StreamHandle:
        """A stream that the application, or somebody else, declares."""
        return StreamHandle(check_id(name, name="name of the stream"), lambda: self.streams)

    # For whoever serves others

    async def backlog(self, *, at_most: int) -> int:
        """How many tasks wait to be claimed, counted no further than ``at_most``."""
        return await self._store.backlog(at_most=at_most)

    async def token_records(self) -> list[Token]:
        """Every token that was ever created, with its digest."""
        return await self._store.records.tokens()

    # Submit

    async def submit(
        self,
        workflow: Workflow[..., Any] | str,
        /,
        *input: Any,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
        connection: object | None = None,
    ) -> Handle:
        """Record a task and return once it is durable.

        Submitting an existing id with the same workflow and input returns the existing task; with
        other content it raises IdConflict.

        With ``connection``, an asynchronous one to the store's database (asyncpg, psycopg, SQLAlchemy),
        the task is part of the transaction that the caller has open there: it is there, durable and
        run, once the caller commits.

        ``reply_to``, ``"queue:NAME"`` or ``"topic:NAME"``, names where a message tells of each thing that
        becomes of the task: received, started, completed, failed, undone.
        """
        task = self._door.new_task(
            workflow, input, id=id, complete_by=complete_by, reply_to=reply_to, attributes=attributes
        )
        await self.exchange.make_destination(task.reply_to)
        if connection is not None:
            await self._door.submit_within(connection, task)
            return Handle(self, task.id)
        before = self._outcomes.foreign_changes
        submitted = await self._door.submit(task)
        return Handle(self, task.id, unsettled_at=before if submitted.created else None)

    def submit_in(
        self,
        connection: object,
        workflow: Workflow[..., Any] | str,
        /,
        *input: Any,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Handle:
        """As ``submit``, in the transaction that the caller has open on a synchronous connection.

        ``connection`` leads to the store's database (psycopg, SQLAlchemy) or to its file (sqlite3,
        SQLAlchemy). May be called in any thread; waits for locks as long as that connection does.
        """
        task = self._door.new_task(
            workflow, input, id=id, complete_by=complete_by, reply_to=reply_to, attributes=attributes
        )
        self._door.submit_in(connection, task)
        return Handle(self, task.id)

    async def enter(
        self,
        workflow: str,
        input: Any,
        *,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
        key: str | None = None,
        parent: str | None = None,
    ) -> Submitted:
        """Submit from outside: ``input`` is decoded JSON, and nothing in it may go unread.

        A workflow whose code is elsewhere is accepted if some live scheduler has it. With ``key``, the
        same again within a day is the same task, with an id or without. ``parent`` is the trace context
        that came with it. Raises UnknownWorkflow, InvalidInput, IdConflict.
        """
        options: dict[str, Any] = {
            "id": id,
            "complete_by": complete_by,
            "reply_to": reply_to,
            "attributes": attributes,
        }
        try:
            task = self._door.new_task(workflow, (input,), strict=True, parent=parent, **options)
        except UnknownWorkflow:
            version = await self._version_elsewhere(workflow)
            task = self._door.foreign_task(workflow, version, input, parent=parent, **options)
        await self.exchange.make_destination(task.reply_to)
        if key is None:
            return await self._door.submit(task)
        content = encode({"workflow": workflow, "input": input, **options}, "the submission")
        return await self._enter_once(task, key, hashlib.sha256(content).hexdigest())

    async def _enter_once(self, task: NewTask, key: str, digest: str) -> Submitted:
        """Submit ``task`` under the id that ``key`` stands for. What is refused does not use up the key."""
        meant = Remembered(digest=digest, task_id=task.id)
        # The key is kept before the task is: who crashes in between tries again, under the same id.
        known = await self._bound(key, meant)
        try:
            return await self._door.submit(msgspec.structs.replace(task, id=known.task_id))
        except (InvalidRequest, Conflict):
            # Not when the store is away: then the task may be there all the same, and the key finds it.
            # Nor a key that stood for another id before: under that one, somebody may have been accepted.
            if known == meant:
                await self._store.records.forget(key, meant)
            raise

    async def _bound(self, key: str, meant: Remembered) -> Remembered:
        """What ``key`` stands for. Raises InvalidInput if that is other content."""
        known = await self._store.records.remember(key, meant, keep=KEYS_KEPT, now=self._clock.now())
        if known.digest != meant.digest:
            raise InvalidInput(
                f"idempotency key {key[:40]!r} was used for other content within the last"
                f" {describe(KEYS_KEPT)}; use a new key for a new submission"
            )
        return known

    async def _version_elsewhere(self, workflow: str) -> int:
        found = next((one for one in await self.workflows() if one.name == workflow and one.versions), None)
        if found is None:
            raise UnknownWorkflow(
                f"there is no workflow {workflow!r} here or in any live process;"
                " `backstay workflows ls` lists those that there are"
            )
        return max(found.versions)

    def handle(self, task_id: str) -> Handle:
        """A handle on a task that somebody submitted."""
        return Handle(self, check_id(task_id))

    async def settled(self, task_id: str, *, unsettled_at: int | None = None) -> TaskRecord:
        """The task once it ended, or stopped for a person to act. Raises UnknownTask."""
        return await self._outcomes.of(task_id, unsettled_at=unsettled_at)

    def result_of(self, task: TaskRecord) -> Any:
        """The decoded result of a processed task. Raises TaskFailed for any other."""
        if task.state is not TaskState.PROCESSED:
            step = task.error.step if task.error else None
            raise TaskFailed(task.state, step, msgspec.to_builtins(task.error) if task.error else None)
        output = task.output or b"null"
        try:
            return self._registry.workflow(task.workflow, task.version).returns.decode(output)
        except UnknownWorkflow:
            return msgspec.json.decode(output)
