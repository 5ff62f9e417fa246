"""What a workflow's code reaches when it calls a step, sleeps, waits or starts a child.

Each call gets its key where it is made, its record, and something for the workflow to wait on; the
run then performs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from backstay.definitions.agents import Step
from backstay.definitions.codec import TypeCodec, check_size, encode
from backstay.definitions.workflows import Workflow
from backstay.domain.journal import Branch
from backstay.domain.request import TRACEPARENT
from backstay.domain.states import StepState
from backstay.domain.step import StepKind, StepRecord, UndoKind
from backstay.domain.task import NewTask, child_id
from backstay.errors import InvalidDefinition
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services
from backstay.scheduler.step_call import StepCall
from backstay.scheduler.waits import Wait

Value = TypeVar("Value")
Call = StepCall | Wait

_VALUES: Final[dict[type, TypeCodec]] = {
    kind: TypeCodec(kind, f"recorded {kind.__name__}") for kind in (datetime, float, uuid.UUID)
}


class Performer(Protocol):
    """The run, as its workflow's calls see it."""

    def perform(self, call: Call, child: NewTask | None = None) -> Coroutine[Any, Any, Any]: ...

    def keep_value(self, record: StepRecord) -> None: ...


class Calls:
    """The ``RunningWorkflow`` that the names of ``backstay`` talk to."""

    __slots__ = ("_ledger", "_payload_bytes_max", "_performer", "_services")

    def __init__(self, services: Services, ledger: Ledger, performer: Performer) -> None:
        self._services = services
        self._ledger = ledger
        self._performer = performer
        self._payload_bytes_max = services.settings.payload_bytes_max

    def call_step(
        self, branch: Branch, step: Step[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        if self._services.registry.steps.get(step.name) is not step:
            raise InvalidDefinition(
                f"step {step.name!r} belongs to another app; a workflow can call the steps of its own"
            )
        key = branch.key(step.name)
        data = step.signature.encode_call(args, kwargs)
        if len(data) > self._payload_bytes_max:
            self._sized(data, f"input of step {step.name}")
        return self._performer.perform(StepCall(key, step, data))

    def sleep(self, branch: Branch, time: timedelta) -> Coroutine[Any, Any, None]:
        record = self._wait_record(branch.key("sleep"), StepKind.SLEEP, "sleep", time)
        return self._performer.perform(Wait(record, name="sleep"))

    def wait_for(self, branch: Branch, name: str, timeout: timedelta | None) -> Coroutine[Any, Any, Any]:
        # Step names are Python names: a dash keeps the two apart.
        record = self._wait_record(branch.key(f"wait_for-{name}"), StepKind.SIGNAL, name, timeout)
        return self._performer.perform(Wait(record, name=name))

    def start_child(
        self, branch: Branch, workflow: Workflow[..., Any], args: tuple[Any, ...], task_id: str | None
    ) -> Coroutine[Any, Any, Any]:
        workflow = self._services.registry.workflow(workflow.name, workflow.version)
        parent = self._ledger.task
        key = branch.key(f"start-{workflow.name}")
        child = NewTask(
            id=task_id or child_id(parent.id, key),
            workflow=workflow.name,
            version=workflow.version,
            input=self._sized(workflow.signature.encode_input(args), f"input of workflow {workflow.name}"),
            hard_end=parent.hard_end,
            attributes=self._inherited(),
            parent_key=parent.key,
            parent_step=key,
            plan=workflow.planned_steps(),
        )
        record = StepRecord(
            task_key=parent.key,
            key=key,
            kind=StepKind.CHILD,
            operation=child.id,
            state=StepState.RUNNING,
            input=child.input,
            started_at=self._services.clock.now(),
            undo=UndoKind.AUTOMATIC,
        )
        wait = Wait(record, name=workflow.name, codec=workflow.returns, child_id=child.id)
        return self._performer.perform(wait, child)

    def _inherited(self) -> dict[str, str]:
        """What a child has of its parent: the trace, while there is one."""
        traceparent = None if self._services.tracing is None else self._ledger.traceparent
        return {} if traceparent is None else {TRACEPARENT: traceparent}

    def value(self, branch: Branch, name: str, kind: type[Value], make: Callable[[], Value]) -> Value:
        """Recorded at the first call, and written with whatever the workflow does next."""
        key = branch.key(name)
        codec = _VALUES[kind]
        known = self._ledger.steps.get(key)
        if known is not None and known.output is not None:
            return codec.decode(known.output)  # type: ignore[no-any-return]
        output = codec.encode(make())
        now = self._services.clock.now()
        record = StepRecord(
            task_key=self._ledger.task.key,
            key=key,
            kind=StepKind.VALUE,
            operation=name,
            state=StepState.COMPLETED,
            input=b"null",
            output=output,
            position=0,
            started_at=now,
            ended_at=now,
        )
        self._performer.keep_value(record)
        return codec.decode(output)  # type: ignore[no-any-return]

    def now(self) -> datetime:
        return self._services.clock.now()

    def random(self) -> float:
        return self._services.random.random()

    def _sized(self, data: bytes, what: str) -> bytes:
        return check_size(data, what, self._payload_bytes_max)

    def _wait_record(self, key: str, kind: StepKind, operation: str, time: timedelta | None) -> StepRecord:
        now = self._services.clock.now()
        seconds = None if time is None else time.total_seconds()
        return StepRecord(
            task_key=self._ledger.task.key,
            key=key,
            kind=kind,
            operation=operation,
            state=StepState.RUNNING,
            input=encode(seconds, "the time to wait"),
            started_at=now,
            complete_by=None if time is None else now + time,
        )
