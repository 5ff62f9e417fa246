"""What a run knows of its task, and what it has not written yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.instants import instant
from backstay.domain.lease import Owner
from backstay.domain.message import NewMessage
from backstay.domain.operate import next_position
from backstay.domain.request import TRACEPARENT, Reference, Request, RequestStanding, request_document
from backstay.domain.states import STEP_ARROWS, StepState, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError
from backstay.observe import LEASE_LOST, alert, emit
from backstay.scheduler.services import Services
from backstay.store.base import Settle, StepBegan, StepCompleted, StepMove, Transition
from backstay.store.requests import Mail, Sent
from backstay.tracing import Span

replace = msgspec.structs.replace

#: In which a task waits for what it asked of agents.
_ASKING: Final = frozenset({TaskState.PROCESSING, TaskState.UNDOING})


class LiveStep(Protocol):
    """A step on the straight way, in the hands of whoever runs it: it runs for the first time, or is done."""

    key: str
    output: bytes
    ended_at: int
    position: int

    def record(self, task_key: int, *, completed: bool) -> StepRecord:
        """The entry of the journal that says the same."""


class Ledger:
    """The records of one task, as they will stand once everything handed to the store is written.

    A step that goes straight from its first run to its end has no record here until somebody asks for one.
    """

    __slots__ = (
        "_alerts",
        "_began",
        "_changed",
        "_children",
        "_completed",
        "_consumed",
        "_is_lost",
        "_messages",
        "_passed",
        "_records",
        "_sent",
        "_straight",
        "_task_changed",
        "found",
        "open",
        "position",
        "size",
        "span",
        "task",
    )

    def __init__(
        self, task: TaskRecord, steps: Iterable[StepRecord], requests: Iterable[RequestStanding] = ()
    ) -> None:
        self.task = task
        self._records = {step.key: step for step in steps}
        #: The number of the last result that the workflow was, or will be, given.
        self.position = next_position([*self._records.values()]) - 1 if self._records else 0
        #: The number of steps.
        self.size = len(self._records)
        # Whether each is completed.
        self._straight: dict[LiveStep, bool] = {}
        self._passed: list[StepRecord] = []
        # What was put down since the last time something was handed over, and as what the store knows it.
        self._changed: dict[str, StepState | None] = {}
        self._began: dict[str, StepBegan] = {}
        self._completed: dict[str, StepCompleted] = {}
        self._task_changed = False
        self._children: list[NewTask] = []
        self._consumed: list[tuple[int, str]] = []
        self._alerts: list[NewAlert] = []
        self._messages: list[NewMessage] = []
        #: What an earlier holder asked of agents in other processes, as it stood when the task was claimed.
        self.found = {one.reference.step: one for one in requests}
        #: What agents in other processes are asked, until their steps have come further.
        self.open = {step: one.reference for step, one in self.found.items()}
        self._sent: list[Sent] = []
        self._is_lost = False
        #: Of the run that is under way, if anybody wants to know.
        self.span: Span | None = None

    @property
    def traceparent(self) -> str | None:
        """Under what the steps of this run are, as it travels."""
        return self.task.attributes.get(TRACEPARENT) if self.span is None else self.span.traceparent

    def end_span(self, error: str | None = None) -> None:
        """The run goes no further, although nothing says that its task is let go."""
        span, self.span = self.span, None
        if span is not None:
            span.end(error=error, state=self.task.state)

    def lost(self, why: str) -> None:
        """The task is another's now: said once, however many writes were on their way and are refused."""
        if not self._is_lost:
            self._is_lost = True
            emit(LEASE_LOST, task_id=self.task.id, reason=why)

    @property
    def steps(self) -> dict[str, StepRecord]:
        """The records of all steps."""
        if self._straight:
            key = self.task.key
            for step, completed in self._straight.items():
                self._records[step.key] = step.record(key, completed=completed)
            self._straight.clear()
        return self._records

    def begun(self) -> Iterable[str]:
        """The keys of the steps that began, on the straight way, since something was last handed over."""
        return self._began

    def pending(self) -> list[StepRecord]:
        """The steps that were queued, or planned, and have not begun."""
        return [step for step in self._records.values() if step.state is StepState.PENDING]

    def put(self, step: StepRecord) -> StepRecord:
        """Record a step in its new form."""
        key = step.key
        before = self.steps.get(key)
        if self._began.pop(key, None) is not None:
            self._changed[key] = None  # The store has not heard of it.
        elif self._completed.pop(key, None) is not None:
            self._changed[key] = StepState.RUNNING
        if key not in self._changed:
            self._changed[key] = None if before is None else before.state
        elif before is not None and not self._one_arrow(step):
            # Within one turn it came further than one arrow: the form in between is written as well.
            self._passed.append(before)
            self._changed[key] = before.state
        if before is None:
            self.size += 1
        self._records[key] = step
        return step

    def begin(self, step: LiveStep, move: StepBegan) -> None:
        """Record a step that runs for the first time; nothing of it was put down before."""
        self._straight[step] = False
        self._began[move.key] = move
        self.size += 1

    def complete(self, step: LiveStep) -> None:
        """Record that a step which the store has as running is completed, and nothing else of it changed."""
        key = step.key
        task_key = self.task.key
        if step in self._straight:
            self._straight[step] = True
        else:
            self._records[key] = replace(
                self._records[key],
                state=StepState.COMPLETED,
                output=step.output,
                ended_at=instant(step.ended_at),
                position=step.position,
            )
        self._completed[key] = StepCompleted(
            task_key=task_key,
            key=key,
            output=step.output.decode(),
            ended_at=step.ended_at,
            position=step.position,
        )

    def put_task(self, task: TaskRecord) -> None:
        self.task = task
        self._task_changed = True

    def prolong(self, time: timedelta, now: datetime) -> None:
        """Give the task its whole time again once less than half of it is left."""
        if self.task.complete_by is not None and self.task.complete_by - now < time / 2:
            self.put_task(replace(self.task, complete_by=now + time))

    def came_further(self) -> None:
        """A step was done, or undone: whatever processes died of before, this task got past it."""
        if self.task.crash_count > 0:
            self.put_task(replace(self.task, crash_count=0))

    def crashed(self) -> None:
        """One more process died while it worked for this task."""
        self.put_task(replace(self.task, crash_count=self.task.crash_count + 1))

    def start_child(self, child: NewTask) -> None:
        self._children.append(child)

    def consume(self, signal_number: int, key: str) -> None:
        self._consumed.append((signal_number, key))

    def call_for(self, alert: NewAlert) -> None:
        """Call a person, with the records that say why."""
        self._alerts.append(alert)

    def tell(self, message: NewMessage) -> None:
        """Send a message, with the records that it tells of."""
        self._messages.append(message)

    def send(self, request: Request) -> None:
        """Ask an agent in another process, with the record of the attempt."""
        self.open[request.step] = request.reference
        self._sent.append(
            Sent(
                task_key=request.task_key,
                step=request.step,
                undo=request.undo,
                agent=request.agent,
                attempt=request.attempt,
                complete_by=request.complete_by,
                body=request_document(request).decode(),
            )
        )

    def next_position(self) -> int:
        """The number of the next result that the workflow is given."""
        self.position += 1
        return self.position

    def forget(self, keys: Collection[str]) -> None:
        """As if these steps had never been put down; none of them is written yet."""
        steps = self.steps
        for key in keys:
            steps.pop(key, None)
            self._began.pop(key, None)
            self._changed.pop(key, None)
            self.open.pop(key, None)
        self._sent = [one for one in self._sent if one.step not in keys]
        self._passed = [step for step in self._passed if step.key not in keys]
        self._children = [child for child in self._children if child.parent_step not in keys]
        self._consumed = [(number, key) for number, key in self._consumed if key not in keys]
        self.size = len(steps)

    def rewind(self, steps: Mapping[str, StepRecord]) -> None:
        """Back to these records: what was put down since, and not written, is dropped."""
        self._records = dict(steps)
        self._straight = {}
        self.size = len(steps)
        self._passed = []
        self._began = {}
        self._completed = {}
        self._changed = {}
        self._children = []
        self._consumed = []
        self._alerts = []
        self._messages = []
        self.open = {step: one.reference for step, one in self.found.items()}
        self._sent = []

    @property
    def changed(self) -> bool:
        return bool(self._began or self._completed or self._changed or self._task_changed)

    def write(self, services: Services, settle: Settle) -> None:
        """Hand what changed since the last time to the store; ``settle`` hears how that went."""
        task = self.task
        rare = self._children or self._consumed or self._alerts or self._messages or self.open
        if not (self._changed or self._task_changed or rare):
            moves: list[StepMove] = [*self._completed.values(), *self._began.values()]
            self._completed.clear()
            self._began.clear()
            services.apply(
                Transition(
                    owner=services.owner,
                    task_key=task.key,
                    lock_number=task.lock_number,
                    at=task.updated_at,
                    steps=moves,
                    replies=task.reply_to is not None,
                ),
                settle,
            )
            return
        at = services.clock.now()
        for passed in self._passed:
            services.apply(self._passing(services.owner, at, passed), _ignore)
        if self._task_changed:
            self.task = task = replace(task, updated_at=at)
        transition = Transition(
            owner=services.owner,
            task_key=task.key,
            lock_number=task.lock_number,
            at=at,
            steps=self._moves(),
            task=self.task if self._task_changed else None,
            # Not our own empty lists: what is put into them later belongs to a later transition.
            children=self._children or (),
            consumed=self._consumed or (),
            alerts=self._alerts or (),
            messages=self._messages or (),
            replies=task.reply_to is not None,
            mail=self._mail() if self.open else None,
        )
        if self._alerts:
            settle = _telling(self._alerts, settle)
        if self.span is not None and task.locked_by is None:
            settle = _ending(self.span, task, settle)
            self.span = None
        self._handed_over()
        services.apply(transition, settle)

    def _moves(self) -> list[StepMove]:
        moves: list[StepMove] = [*self._completed.values(), *self._began.values()]
        if self._changed:
            moves += map(self.steps.__getitem__, self._changed)
        return moves

    def _mail(self) -> Mail | None:
        """What is sent, and what is needed no longer: its step has come further, or its task has ended."""
        steps, asked = self.steps, self.open
        keys = [*self._completed, *self._changed] if self.task.state in _ASKING else [*asked]
        over = [key for key in keys if key in asked and not self._still_asked(steps[key], asked[key])]
        sent, self._sent = self._sent, []
        closed = [asked.pop(key) for key in over]
        return Mail(sent, closed) if sent or closed else None

    def _still_asked(self, step: StepRecord, reference: Reference) -> bool:
        return self.task.state in _ASKING and reference.is_current(step)

    def _passing(self, owner: Owner, at: datetime, step: StepRecord) -> Transition:
        task = self.task
        return Transition(
            owner=owner,
            task_key=task.key,
            lock_number=task.lock_number,
            at=at,
            steps=[step],
            replies=task.reply_to is not None,
        )

    def _handed_over(self) -> None:
        self._began.clear()
        self._completed.clear()
        self._changed.clear()
        self._task_changed = False
        # Most turns have none of these.
        if self._passed:
            self._passed = []
        if self._children:
            self._children = []
        if self._consumed:
            self._consumed = []
        if self._alerts:
            self._alerts = []
        if self._messages:
            self._messages = []

    def _one_arrow(self, step: StepRecord) -> bool:
        """Whether the store can take ``step`` from the form it knows to this one."""
        known = self._changed[step.key]
        return known is None or known is step.state or step.state in STEP_ARROWS[known]


def _telling(alerts: list[NewAlert], settle: Settle) -> Settle:
    """``settle``, after the alerts that are durable now have been logged."""

    def tell(refusal: BackstayError | None) -> None:
        if refusal is None:
            for one in alerts:
                alert(one.kind, task_id=one.task_id, step=one.step, message=one.message)
        settle(refusal)

    return tell


def _ending(span: Span, task: TaskRecord, settle: Settle) -> Settle:
    """``settle``, after the span of a run has ended, since it is durable how its task stands now."""

    def end(refusal: BackstayError | None) -> None:
        error = task.error.type if task.error is not None else None
        span.end(error=error if refusal is None else type(refusal).__name__, state=task.state)
        settle(refusal)

    return end


def _ignore(_refusal: BackstayError | None) -> None:
    """What follows in the same breath is refused for the same reason, and says so."""
