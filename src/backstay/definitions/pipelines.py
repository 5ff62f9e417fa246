"""What ``stream.source(group)`` begins: how the events of a stream become something else.

    source ──► map ──► filter ──► … ──► start | send | via ──► checkpoint

A chain never changes: each call gives a new one. It is declared with its sink, and everything that can be
seen to be wrong by then is said there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

from backstay.definitions.queues import CONCURRENCY_MAX
from backstay.definitions.workflows import Workflow
from backstay.domain.durations import Duration, duration
from backstay.domain.message import checked_priority
from backstay.domain.retry import Retry
from backstay.domain.stream import READERS_MOST
from backstay.domain.task import check_id
from backstay.errors import InvalidDefinition

EVERY_USUAL: Final = 1_000
EVERY_MOST: Final = 1_000_000
AFTER_USUAL: Final = timedelta(seconds=5)
AFTER_MOST: Final = timedelta(hours=1)
CONCURRENCY_USUAL: Final = 1_000
STAGES_MAX: Final = 100
_SHORTEST: Final = timedelta(milliseconds=1)

Function = Callable[..., Any]


class StageKind(StrEnum):
    MAP = "map"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class Stage:
    """One function in the chain. What it raises sets the event aside."""

    kind: StageKind
    name: str
    function: Function
    is_async: bool


@dataclass(frozen=True, slots=True)
class StartSink:
    """Each event starts a task; ``id`` names it by what the last stage gave."""

    workflow: Workflow[..., Any] | str
    id: Function | None = None
    # By which the tasks can be listed.
    attributes: Function | None = None


@dataclass(frozen=True, slots=True)
class SendSink:
    """Each event becomes a message; functions are given what the last stage gave."""

    queue: str
    id: Function | None = None
    # True: the key of the event.
    session: Function | bool = False
    # None: the headers of the event.
    properties: Function | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ViaSink:
    """Each event goes through a function, at least once."""

    function: Function
    name: str
    concurrency: int
    # None: as the setting agent_complete_by says.
    complete_by: timedelta | None
    retry: Retry


Sink = StartSink | SendSink | ViaSink


@dataclass(frozen=True, slots=True)
class PipelineDefinition:
    """A chain with its sink: who reads a stream for a group, and what becomes of the events."""

    stream: str
    group: str
    stages: tuple[Stage, ...]
    sink: Sink
    # So many share each partition.
    readers: int = 1
    # So many finished events, or so long after the first of them, make a checkpoint.
    every: int = EVERY_USUAL
    after: timedelta = AFTER_USUAL

    @property
    def label(self) -> str:
        return f"{self.stream}/{self.group}"


class Named(Protocol):
    """A queue as ``app.queue`` gives it."""

    @property
    def name(self) -> str: ...


class Declare(Protocol):
    """Where a chain is declared."""

    def add_pipeline(
        self, pipeline: PipelineDefinition, *, instead_of: PipelineDefinition | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline:
    """A chain as far as it is written."""

    _to: Declare
    stream: str
    group: str
    readers: int = 1
    stages: tuple[Stage, ...] = ()
    declared: PipelineDefinition | None = None
    has_checkpoint: bool = False

    def __repr__(self) -> str:
        chain = "".join(f".{stage.kind}({stage.name})" for stage in self.stages)
        return f"Pipeline({self.stream!r}, group={self.group!r}){chain}"

    # Stages

    def map(self, function: Function) -> Pipeline:
        """Go on with what ``function`` makes of it: of the Event at first, then of what came before."""
        return self._with(StageKind.MAP, function)

    def filter(self, function: Function) -> Pipeline:
        """Go on with it where ``function`` says yes; else the event is finished."""
        return self._with(StageKind.FILTER, function)

    # Sinks

    def start(
        self,
        workflow: Workflow[..., Any] | str,
        *,
        id: Function | None = None,
        attributes: Function | None = None,
    ) -> Pipeline:
        """Start a task for each event, exactly once: tasks and checkpoint are one transaction.

        ``id`` names the task by what the last stage gave; without it an event has a task of its own.
        ``attributes`` gives those that the task can be listed by.
        """
        self._check_open(".start")
        if not isinstance(workflow, (Workflow, str)):
            raise InvalidDefinition(
                f"{self!r}: {workflow!r} is not a workflow; decorate it with @app.workflow"
            )
        self._check_plain(id=id, attributes=attributes)
        return self._ending_in(StartSink(workflow, id, attributes))

    def send(
        self,
        queue: Named | str,
        *,
        id: Function | None = None,
        session: Function | bool = False,
        properties: Function | None = None,
        priority: int = 0,
    ) -> Pipeline:
        """Send a message for each event, exactly once: messages and checkpoint are one transaction.

        Functions are given what the last stage gave. ``session=True`` makes a session of each key, so that
        its messages are received in order and one at a time. Without ``id`` a message is called after the
        place of its event; without ``properties`` it has the headers of the event. While the queue is full,
        the pipeline waits.
        """
        self._check_open(".send")
        name = queue if isinstance(queue, str) else getattr(queue, "name", None)
        if not isinstance(name, str):
            raise InvalidDefinition(f"{self!r}: {queue!r:.60} is not a queue; give app.queue(…), or its name")
        self._check_plain(
            id=id, properties=properties, session=None if isinstance(session, bool) else session
        )
        return self._ending_in(
            SendSink(
                check_id(name, name="name of the queue"), id, session, properties, checked_priority(priority)
            )
        )

    def via(
        self,
        function: Function,
        *,
        concurrency: int = CONCURRENCY_USUAL,
        complete_by: Duration | None = None,
        retry: Retry | None = None,
    ) -> Pipeline:
        """Await ``function`` for each event, at least once; one at a time of each key, and in order.

        What it raises is tried again until ``retry`` or ``complete_by`` are used up; then, and at once if
        it is Permanent, the event is set aside.
        """
        self._check_open(".via")
        if not _is_async(function):
            raise InvalidDefinition(f"{self!r}: .via({_name(function)}) must be given an async def")
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise InvalidDefinition(f"concurrency is {concurrency}; it must be 1 to {CONCURRENCY_MAX:,}")
        limit = None if complete_by is None else duration(complete_by, name="complete_by", least=_SHORTEST)
        return self._ending_in(ViaSink(function, _name(function), concurrency, limit, retry or Retry()))

    def checkpoint(self, *, every: int = EVERY_USUAL, after: Duration = AFTER_USUAL) -> Pipeline:
        """Write how far it has got once ``every`` events are finished, or ``after`` the first of them is."""
        if self.declared is None:
            raise InvalidDefinition(
                f"{self!r} has no sink: put .start(…), .send(…) or .via(…) before .checkpoint(…)"
            )
        if self.has_checkpoint:
            raise InvalidDefinition(f"{self!r} has a .checkpoint(…) already")
        if not 1 <= every <= EVERY_MOST:
            raise InvalidDefinition(f"every is {every}; it must be 1 to {EVERY_MOST:,}")
        pause = duration(after, name="after", least=_SHORTEST)
        if pause > AFTER_MOST:
            raise InvalidDefinition(f"after is {after}; at most an hour is allowed")
        declared = replace(self.declared, every=every, after=pause)
        self._to.add_pipeline(declared, instead_of=self.declared)
        return replace(self, declared=declared, has_checkpoint=True)

    # Underneath

    def _with(self, kind: StageKind, function: Function) -> Pipeline:
        self._check_open(f".{kind}")
        if not callable(function):
            raise InvalidDefinition(f"{self!r}: .{kind}({function!r:.60}) must be given a function")
        if len(self.stages) == STAGES_MAX:
            raise InvalidDefinition(f"{self!r:.200} has {STAGES_MAX} stages, which is the limit")
        stage = Stage(kind, _name(function), function, _is_async(function))
        return replace(self, stages=(*self.stages, stage))

    def _check_open(self, what: str) -> None:
        if self.declared is not None:
            raise InvalidDefinition(
                f"{self!r}: {what}(…) comes after its sink; put it before .start(…), .send(…) or .via(…),"
                " and use another group for a second sink"
            )

    def _check_plain(self, **functions: Function | None) -> None:
        for name, function in functions.items():
            if function is not None and not _is_plain(function):
                raise InvalidDefinition(
                    f"{self!r}: {name} must be a plain function of what the last stage gives"
                )

    def _ending_in(self, sink: Sink) -> Pipeline:
        declared = PipelineDefinition(self.stream, self.group, self.stages, sink, self.readers)
        self._to.add_pipeline(declared)
        return replace(self, declared=declared)


def begun(to: Declare, stream: str, group: str, *, readers: int = 1) -> Pipeline:
    check_id(stream, name="name of the stream")
    check_id(group, name="name of the group")
    if not 1 <= readers <= READERS_MOST:
        raise InvalidDefinition(f"readers is {readers}; it must be 1 to {READERS_MOST}")
    return Pipeline(to, stream, group, readers)


def _is_async(function: Function) -> bool:
    """Whether calling it gives something to await, as far as can be seen: also of a step, or a wrapper."""
    bare = inspect.unwrap(function)
    return any(map(inspect.iscoroutinefunction, (bare, getattr(type(bare), "__call__", None))))  # noqa: B004


def _is_plain(function: object) -> bool:
    return callable(function) and not _is_async(function)


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
