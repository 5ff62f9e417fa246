"""Submit, look, and step in: what a program or an operator does with a store, whoever runs the roles."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from backstay.clock import Clock
from backstay.definitions.calls import check_signal_name
from backstay.definitions.codec import check_size, encode
from backstay.definitions.registry import Registry
from backstay.definitions.workflows import Workflow
from backstay.domain import operate
from backstay.domain.lease import is_stale
from backstay.domain.states import TaskState
from backstay.domain.step import StepKind
from backstay.domain.task import TaskRecord, check_id
from backstay.domain.why import Reason, explain
from backstay.errors import TaskFailed, UnknownWorkflow
from backstay.outcomes import Outcomes
from backstay.settings import Settings
from backstay.store.base import Store, TaskFilter
from backstay.submit import CompleteBy, Door
from backstay.views import Step, Task, listed_view, step_view, task_view


class Handle:
    """A submitted task."""

    def __init__(self, client: Client, task_id: str) -> None:
        self._client = client
        self.id = task_id

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109  The public name.
        """What the workflow returned. Raises TaskFailed when the task ended or stopped otherwise.

        Raises TimeoutError after ``timeout`` seconds; the task goes on.
        """
        async with asyncio.timeout(timeout):
            task = await self._client.settled(self.id)
        return self._client.result_of(task)

    async def state(self) -> str:
        return (await self._client.task(self.id)).state

    async def cancel(self, *, undo: bool = True) -> Task:
        """Stop the task; with ``undo`` what it did is undone."""
        return await self._client.cancel(self.id, undo=undo)


class Client:
    """Works on an open store."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._door = Door(store, registry, settings=settings, clock=clock)
        self._outcomes = Outcomes(store)

    def close(self) -> None:
        self._outcomes.close()

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
        """
        task = self._door.new_task(
            workflow, input, id=id, complete_by=complete_by, reply_to=reply_to, attributes=attributes
        )
        if connection is None:
            await self._door.submit(task)
        else:
            await self._door.submit_within(connection, task)
        return Handle(self, task.id)

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

    def handle(self, task_id: str) -> Handle:
        """A handle on a task that somebody submitted."""
        return Handle(self, check_id(task_id))

    async def settled(self, task_id: str) -> TaskRecord:
        """The task once it ended, or stopped for a person to act. Raises UnknownTask."""
        return await self._outcomes.of(task_id)

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

    # Look

    async def task(self, task_id: str) -> Task:
        """Raises UnknownTask."""
        return task_view(await self._store.task(check_id(task_id)))

    async def steps(self, task_id: str) -> list[Step]:
        """The steps of a task, in the order in which they began. Raises UnknownTask."""
        journal = await self._store.steps(check_id(task_id))
        return [step_view(step) for step in journal if step.kind is StepKind.STEP]

    async def tasks(self, wanted: TaskFilter) -> tuple[list[Task], int | None]:
        """A page of tasks, newest first, and where the next page begins."""
        # One more than asked for tells whether there is a next page.
        found = await self._store.tasks(msgspec.structs.replace(wanted, limit=wanted.limit + 1))
        page = found[: wanted.limit]
        return [listed_view(task) for task in page], page[-1].key if len(found) > len(page) else None

    async def why(self, task_id: str) -> Reason:
        """What the task waits for, in one sentence, and the command that would move it."""
        task = await self._store.task(check_id(task_id))
        steps = await self._store.steps(task_id)
        now = self._clock.now()
        live = [
            one
            for one in await self._store.instances()
            if one.live and not is_stale(one.heartbeat_at, lease=self._settings.lease, now=now)
        ]
        runnable = any((task.workflow, task.version) in one.runs for one in live)
        return explain(task, steps, runnable=runnable, any_scheduler=bool(live), now=now)

    # Step in

    async def signal(self, task_id: str, name: str, payload: Any = None, *, key: str | None = None) -> Task:
        """Tell a task something. Signals wait in order until asked for; ``key`` makes one count once."""
        body = encode(payload, f"payload of signal {name}")
        check_size(body, f"payload of signal {name}", self._settings.payload_bytes_max)
        dedup = None if key is None else check_id(key, name="signal key")
        task = await self._store.signal(
            check_id(task_id), check_signal_name(name), body, dedup=dedup, now=self._clock.now()
        )
        return task_view(task)

    async def resubmit(self, task_id: str, from_: Literal["failed", "start"] = "failed") -> Task:
        """Let a stopped task go on at the step that failed, or begin anew."""
        return await self._amend(task_id, lambda task, steps: operate.resubmit(task, steps, from_=from_))

    async def undo(self, task_id: str) -> Task:
        """Undo what a task did. An undo that failed is tried again."""
        return await self._amend(task_id, operate.request_undo)

    async def cancel(self, task_id: str, *, undo: bool = True) -> Task:
        """Stop a task; with ``undo`` what it did is undone."""
        return await self._amend(task_id, lambda task, steps: operate.cancel(task, steps, undo=undo))

    async def complete_step(self, task_id: str, key: str, output: Any = None) -> Task:
        """Record by hand what an agent could not: a step's result, or that its undo has been done."""
        body = encode(output, f"output of step {key}")
        check_size(body, f"output of step {key}", self._settings.payload_bytes_max)
        now = self._clock.now()

        def change(task: TaskRecord, steps: list[Any]) -> operate.Amendment:
            self._check_fits(key, steps, body)
            return operate.complete_step(task, steps, key=key, output=body, now=now)

        return await self._amend(task_id, change)

    def _check_fits(self, key: str, steps: list[Any], body: bytes) -> None:
        """An output that the workflow could not read would only be noticed at its replay."""
        operation = next((step.operation for step in steps if step.key == key), None)
        step = self._registry.steps.get(operation) if operation is not None else None
        undoing = any(one.key == key and one.state.startswith("undo") for one in steps)
        if step is not None and not undoing:
            step.returns.decode(body)

    async def _amend(self, task_id: str, change: Any) -> Task:
        return task_view(await self._store.amend(check_id(task_id), change, now=self._clock.now()))
