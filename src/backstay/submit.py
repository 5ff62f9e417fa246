"""The one door through which a task enters the store: validate, deduplicate, record."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from backstay.clock import Clock
from backstay.definitions.codec import check_size, encode
from backstay.definitions.registry import Registry
from backstay.definitions.workflows import Workflow
from backstay.domain.durations import Instant, instant_of
from backstay.domain.ids import new_id
from backstay.domain.request import TRACEPARENT
from backstay.domain.status import checked_reply_to
from backstay.domain.step import StepRecord
from backstay.domain.task import ATTRIBUTE_LENGTH_MAX, ATTRIBUTES_MAX, OURS, NewTask, check_id
from backstay.domain.text import is_text
from backstay.errors import BackstayError, InvalidInput, UnknownWorkflow
from backstay.settings import Settings
from backstay.store.base import Store, Submitted
from backstay.tracing import Tracing, configured

replace = msgspec.structs.replace

CompleteBy = Instant


class Door:
    """Checks everything before anything is written."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        # Seeded by the operating system, once: asking it for every id costs more than all else here.
        self._random_bits = Random().getrandbits  # noqa: S311  Ids are no secrets.
        self._tracing = configured()

    async def submit(self, task: NewTask) -> Submitted:
        """Record ``task``; an id that is known gives the existing task, or raises IdConflict."""
        with self._traced(task) as traced:
            [answer] = await self._store.submit([traced], now=self._clock.now())
            if isinstance(answer, BackstayError):
                raise answer
            return answer

    async def submit_within(self, connection: object, task: NewTask) -> Submitted:
        """The same in the transaction that the caller has open on its asynchronous ``connection``."""
        with self._traced(task) as traced:
            return await self._store.submit_within(connection, traced, now=self._clock.now())

    def submit_in(self, connection: object, task: NewTask) -> Submitted:
        """The same on a synchronous connection."""
        with self._traced(task) as traced:
            return self._store.submit_in(connection, traced, now=self._clock.now())

    def _traced(self, task: NewTask) -> AbstractContextManager[NewTask]:
        """Around the handing in of ``task``, which carries the context of that from here on."""
        return nullcontext(task) if self._tracing is None else _submitting(task, self._tracing)

    def new_task(
        self,
        workflow: Workflow[..., Any] | str,
        args: tuple[Any, ...],
        *,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
        strict: bool = False,
        parent: object = None,
    ) -> NewTask:
        """The task that these arguments describe. Raises a kind of InvalidRequest, and writes nothing.

        ``strict``: a field that the workflow's type does not have is refused instead of dropped.
        ``parent``: the trace context that came with the wish for the task, if one did.
        """
        definition = self._definition(workflow)
        if strict:
            definition.signature.check_fields(args[0])
        return self._made(
            definition.name,
            definition.version,
            definition.signature.encode_input(args),
            id=id,
            complete_by=complete_by,
            reply_to=reply_to,
            attributes=attributes,
            plan=definition.planned_steps(),
            parent=parent,
        )

    def foreign_task(
        self,
        workflow: str,
        version: int,
        input: Any,
        *,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
        parent: object = None,
    ) -> NewTask:
        """The same for a workflow whose code is elsewhere: its input is taken as it is."""
        return self._made(
            workflow,
            version,
            encode(input, f"input of workflow {workflow}"),
            id=id,
            complete_by=complete_by,
            reply_to=reply_to,
            attributes=attributes,
            parent=parent,
        )

    def _made(
        self,
        workflow: str,
        version: int,
        data: bytes,
        *,
        id: str | None,
        complete_by: CompleteBy | None,
        reply_to: str | None,
        attributes: Mapping[str, str] | None,
        plan: tuple[StepRecord, ...] = (),
        parent: object = None,
    ) -> NewTask:
        _check_not_ours(workflow)
        check_size(data, f"input of workflow {workflow}", self._settings.payload_bytes_max)
        known = {} if attributes is None else _checked_attributes(attributes)
        if self._tracing is not None:
            known = self._tracing.carried(known, parent)
        return NewTask(
            id=new_id(self._clock.now(), self._random_bits) if id is None else check_id(id),
            workflow=workflow,
            version=version,
            input=data,
            hard_end=None if complete_by is None else self._hard_end(complete_by),
            reply_to=None if reply_to is None else checked_reply_to(reply_to),
            attributes=known,
            plan=plan,
        )

    def _definition(self, workflow: Workflow[..., Any] | str) -> Workflow[..., Any]:
        if isinstance(workflow, str):
            return self._registry.workflow(workflow)
        given: object = workflow  # Callers without a type checker hand in anything.
        if inspect.iscoroutine(given):
            given.close()
            called = given.__name__
            raise InvalidInput(
                f"{called}(…) was called; give the workflow and its arguments apart: submit({called}, …)"
            )
        if not isinstance(given, Workflow):
            raise InvalidInput(f"{given!r} is not a workflow; decorate it with @app.workflow")
        return self._registry.workflow(given.name, given.version)

    def _hard_end(self, complete_by: CompleteBy) -> datetime:
        now = self._clock.now()
        instant = instant_of(complete_by, now=now, name="complete_by")
        if instant <= now:
            raise InvalidInput(
                f"complete_by {instant.isoformat()} lies in the past; now is {now.isoformat()}"
            )
        return instant


@contextmanager
def _submitting(task: NewTask, tracing: Tracing) -> Generator[NewTask]:
    name, above = f"submit {task.workflow}", task.attributes.get(TRACEPARENT)
    with tracing.around(name, "PRODUCER", parent=above, task_id=task.id) as span:
        below = {} if span.traceparent is None else {TRACEPARENT: span.traceparent}
        yield replace(task, attributes={**task.attributes, **below})


def _check_not_ours(workflow: str) -> None:
    """Who may submit a task may not therefore have what is built in do as it is told; jobs start that."""
    if workflow.startswith(OURS):
        raise UnknownWorkflow(f"workflow {workflow!r} is built in and cannot be submitted; jobs start it")


def _checked_attributes(attributes: object) -> dict[str, str]:
    if not isinstance(attributes, Mapping):
        raise InvalidInput(f"attributes is {attributes!r:.60}; it must be an object of texts")
    if len(attributes) > ATTRIBUTES_MAX:
        raise InvalidInput(f"attributes has {len(attributes)} entries; {ATTRIBUTES_MAX} are allowed")
    for name, value in attributes.items():
        if not is_text(name) or not is_text(value):
            raise InvalidInput(f"attribute {name!r}: names and values must be text")
        if not 1 <= len(name) <= ATTRIBUTE_LENGTH_MAX or len(value) > ATTRIBUTE_LENGTH_MAX:
            raise InvalidInput(
                f"attribute {name[:40]!r} is too long; {ATTRIBUTE_LENGTH_MAX} characters are allowed"
            )
    return dict(attributes)
