"""One task on its way back: its steps are undone, newest first, one after the other.

Every move is recorded before it is made, so that an undo goes on after a crash where it stood. One
that keeps failing does not hold up the others; one that is a person's work is announced and waited
for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.clock import Alarm
from backstay.definitions.agents import Step
from backstay.definitions.workflows import Workflow
from backstay.domain.alert import AlertKind, of_task
from backstay.domain.durations import describe
from backstay.domain.instants import micros
from backstay.domain.recovery import CRASHES
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, interrupted
from backstay.domain.task import Signal, TaskRecord
from backstay.domain.undo import is_manual, may_start_at, undo_plan
from backstay.errors import BackstayError
from backstay.messaging.wire import Answer, Completed, Deferred, Execution, Failed, Lost, Request, Ticket
from backstay.observe import LATE_REPLY, emit
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services
from backstay.tracing import Span

replace = msgspec.structs.replace

_FORWARD: Final = frozenset({StepState.PENDING, StepState.RUNNING})
_CHILD_IS_BACK: Final = frozenset({TaskState.UNDONE, TaskState.CANCELLED})
_CHILD_IS_STUCK: Final = frozenset({TaskState.UNDO_FAILED, TaskState.PROCESSED})


class UndoRun:
    """Drives the undo of one task until it ends, parks, or is taken away."""

    def __init__(
        self, services: Services, workflow: Workflow[..., Any], ledger: Ledger, *, error: Failure | None
    ) -> None:
        self._services = services
        self._workflow = workflow
        self._ledger = ledger
        self._error = error
        self._closed = False
        self._ticket: Ticket | None = None
        self._execution: Execution | None = None
        self._alarm: Alarm | None = None
        # Of the attempt that is under way, if anybody wants to know.
        self._span: Span | None = None

    @property
    def task(self) -> TaskRecord:
        return self._ledger.task

    # From the scheduler

    def start(self) -> None:
        """Bring the forward steps to rest, then undo."""
        if self.task.state is not TaskState.UNDOING:
            error = self._error or self.task.error
            self._ledger.put_task(
                replace(self.task, state=TaskState.UNDOING, error=error, request=None, crash_count=0)
            )
        elif self.task.crash_count >= self._workflow.recovery.crashes:
            self._give_up_deadly()
        now = self._services.clock.now()
        for step in list(self._ledger.steps.values()):
            if step.state in _FORWARD:
                self._ledger.put(_brought_to_rest(step, self._at_work_until(step, now)))
        self._write(self._rested)

    def _give_up_deadly(self) -> None:
        """Too many processes died during this undo: whatever was under way is not tried again."""
        error = Failure(CRASHES, "too many processes died while they ran this undo", permanent=True)
        for step in undo_plan(self._ledger.steps.values()):
            if step.state is StepState.UNDOING and not is_manual(step) and step.kind is StepKind.STEP:
                self._give_up(step, error)
        self._ledger.put_task(replace(self.task, crash_count=0))

    def stands(self, task: TaskRecord, _signals: list[Signal]) -> None:
        """The store was asked how the task stands; perhaps it was taken away."""
        if (task.locked_by, task.lock_number) != (self._services.owner.id, self.task.lock_number):
            self._lost(f"task {task.id} was taken away")

    def stay(self) -> None:
        """Keep the task from overrunning its complete-by while all it does is stand in line for a slot."""
        if self._ticket is not None and not self._ticket.granted and not self._closed:
            self._ledger.prolong(self._services.time_for_run(self._workflow), self._services.clock.now())
            if self._ledger.changed:
                self._write(lambda: None)

    def abandon(self) -> None:
        """Let go without writing anything."""
        self._ledger.end_span("Abandoned")
        self._close()

    def _at_work_until(self, step: StepRecord, now: datetime) -> datetime:
        """When the last attempt of a step that went back into the line has certainly ended."""
        declared = self._services.registry.steps.get(step.operation)
        if step.ended_at is not None or declared is None:
            return now
        # In line it has no complete-by of its own; it cannot have had a later one than this.
        return now + self._services.time_for_step(declared)

    # The plan

    def _rested(self) -> None:
        if self._closed:
            return
        if any(step.state in _FORWARD for step in self._ledger.steps.values()):
            self.start()  # One arrow per write: a step of unknown outcome passes through running.
        else:
            self._next()

    def _next(self) -> None:
        """Undo the newest step that is left, or end."""
        plan = undo_plan(self._ledger.steps.values())
        for step in plan:
            if is_manual(step) and step.state is not StepState.UNDOING:
                self._announce(step)
        automatic = [step for step in plan if not is_manual(step)]
        if not automatic:
            self._finish()
            return
        newest = automatic[0]
        start_at = may_start_at(newest)
        if start_at is not None and start_at > self._services.clock.now():
            self._park(start_at)
        elif newest.kind is StepKind.CHILD:
            self._undo_child(newest)
        elif not self._is_elsewhere(newest):
            self._reserve(newest.key)

    def _is_elsewhere(self, record: StepRecord) -> bool:
        """Whether the attempt goes on in another process, or was answered there: then we wait for that."""
        found = self._ledger.found.get(record.key)
        now = self._services.clock.now()
        if found is None or record.agent is None or not found.reference.is_current(record):
            return False
        if found.answer() is None and not found.is_live(now):
            return False
        del self._ledger.found[record.key]  # Once: whatever comes after that is an attempt of our own.
        remaining = max(0.0, (found.complete_by - now).total_seconds())
        key, attempt = record.key, record.undo_attempt
        self._alarm = self._services.alarms.after(remaining, lambda: self._expired(key))
        self._execution = self._services.mail.follow(
            found, record.agent, remaining, lambda reply: self._replied(key, attempt, reply)
        )
        return True

    def _announce(self, step: StepRecord) -> None:
        self._ledger.put(replace(step, state=StepState.UNDOING, complete_by=None))
        self._ledger.call_for(
            of_task(
                AlertKind.UNDO_MANUAL,
                self.task.id,
                message=f"the undo of step {step.key} is a person's work",
                step=step.key,
            )
        )

    # One step

    def _reserve(self, key: str) -> None:
        self._ticket = self._execution = None
        step = self._step_of(key)
        if step is None:
            self._begin(key)  # Nobody here can undo it; the record will say so.
            return
        self._ticket = ticket = self._services.agents.reserve(step.agent.name)
        ticket.when_changed(lambda: self._in_line(key, ticket))
        self._in_line(key, ticket)

    def _in_line(self, key: str, ticket: Ticket) -> None:
        if ticket.granted:
            self._begin(key)
        elif ticket.open_in_seconds() > 0:
            self._park(self._services.clock.now() + timedelta(seconds=ticket.open_in_seconds()))
        elif self._ledger.changed:
            self._write(lambda: None)

    def _begin(self, key: str) -> None:
        """The record that must be durable before the undo starts."""
        record = self._ledger.steps[key]
        now = self._services.clock.now()
        complete_by = now + self._complete_by(key)
        self._ledger.put(
            replace(
                record,
                state=StepState.UNDOING,
                undo_attempt=record.undo_attempt + 1,
                complete_by=complete_by,
                ended_at=record.ended_at or now,
            )
        )
        # The task's own complete-by follows: an undo of many steps is not one that got stuck.
        own = now + self._services.time_for_run(self._workflow)
        self._ledger.put_task(replace(self.task, complete_by=max(complete_by, own)))
        step = self._step_of(key)
        if step is not None:
            self._begin_span(step, self._ledger.steps[key])
        if step is not None and self._services.agents.through_store:
            time = (complete_by - now).total_seconds()
            self._ledger.send(self._request(self._ledger.steps[key], step, time))
        self._write(lambda: self._send(key))

    def _begin_span(self, step: Step[..., Any], record: StepRecord) -> None:
        if self._services.tracing is not None:
            self._span = self._services.tracing.begin(
                f"undo {step.name}",
                "CLIENT",
                parent=self._ledger.traceparent,
                task_id=self.task.id,
                step=record.key,
                agent=step.agent.name,
                attempt=record.undo_attempt,
            )

    def _send(self, key: str) -> None:
        if self._closed:
            return
        record = self._ledger.steps[key]
        step = self._step_of(key)
        if step is None:
            error = Failure(
                "Unregistered", f"no undo of {record.operation!r} is registered here", permanent=True
            )
            self._failed(record, error)
            return
        assert record.complete_by is not None
        remaining = max(0.0, (record.complete_by - self._services.clock.now()).total_seconds())
        # One that had to wait for the disk past its complete-by is not started any more.
        self._alarm = self._services.alarms.after(remaining, lambda: self._expired(key))
        attempt = record.undo_attempt
        if remaining > 0 and self._ticket is not None:
            request = self._request(record, step, remaining)
            self._execution = self._services.agents.execute(
                self._ticket, request, lambda reply: self._replied(key, attempt, reply)
            )

    def _request(self, record: StepRecord, step: Step[..., Any], remaining_seconds: float) -> Request:
        assert record.input is not None
        assert record.complete_by is not None
        return Request(
            task_id=self.task.id,
            step=record.key,
            agent=step.agent.name,
            operation=record.operation,
            attempt=record.undo_attempt,
            input=record.input,
            complete_by=micros(record.complete_by),
            remaining_seconds=remaining_seconds,
            undo=True,
            outcome=record.outcome,
            result=record.output,
            traceparent=self._ledger.traceparent if self._span is None else self._span.traceparent,
            task_key=self.task.key,
        )

    def _replied(self, key: str, attempt: int, reply: Answer) -> None:
        record = self._ledger.steps[key]
        if self._closed or record.undo_attempt != attempt or record.state is not StepState.UNDOING:
            emit(LATE_REPLY, task_id=self.task.id, step=key)
            return
        match reply:
            case Completed():
                self._silence()
                self._undone(record)
            case Failed(error=error, retry_after=pause):
                self._silence(error.type)
                self._failed(record, error, pause=pause)
            case Deferred(error=error):
                self._silence(error.type)
                self._next()
            case Lost(crashed=crashed):
                self._silence("Lost")
                self._host_lost(crashed=crashed)

    def _host_lost(self, *, crashed: bool) -> None:
        """The process that worked on it has ended; that is no failure of the undo, but may be its doing."""
        if crashed:
            self._ledger.crashed()
            if self.task.crash_count >= self._workflow.recovery.crashes:
                self._give_up_deadly()
        self._next()

    def _expired(self, key: str) -> None:
        self._silence("Expired")
        if self._execution is not None:
            attempt = self._ledger.steps[key].undo_attempt
            self._execution.overdue(lambda reply, began: self._overdue(key, attempt, reply, began=began))
            return
        if self._ticket is not None:
            self._ticket.give_back()
        self._failed(self._ledger.steps[key], self._no_answer(key))

    def _overdue(self, key: str, attempt: int, reply: Answer | None, *, began: bool) -> None:
        """It was told to stop; perhaps it had replied after all, or nobody had begun it."""
        record = self._ledger.steps[key]
        if reply is not None:
            self._replied(key, attempt, reply)
        elif self._closed or record.undo_attempt != attempt or record.state is not StepState.UNDOING:
            return
        elif began:
            self._failed(record, self._no_answer(key))
        else:
            self._next()

    def _no_answer(self, key: str) -> Failure:
        return Failure("Expired", f"no answer within {describe(self._complete_by(key))}", step=key)

    def _undone(self, record: StepRecord) -> None:
        self._ledger.came_further()
        self._ledger.put(replace(record, state=StepState.UNDONE, complete_by=None, error=None))
        self._next()

    def _failed(self, record: StepRecord, error: Failure, *, pause: timedelta | None = None) -> None:
        failures = record.undo_failures + 1
        given_up = error.permanent or failures >= self._workflow.recovery.undo_attempts
        failed = replace(record, undo_failures=failures)
        if given_up:
            self._give_up(failed, error)
        else:
            self._ledger.put(replace(failed, state=StepState.UNDOING, error=error))
        if pause and not given_up:
            self._park(self._services.clock.now() + pause)
        else:
            self._next()

    def _give_up(self, step: StepRecord, error: Failure) -> None:
        """Call a person now: the other undos go on, and one of them may wait for somebody for days."""
        self._ledger.put(replace(step, state=StepState.UNDO_FAILED, error=error))
        self._ledger.call_for(
            of_task(AlertKind.UNDO_FAILED, self.task.id, message=error.message, step=step.key)
        )

    # A child

    def _undo_child(self, record: StepRecord) -> None:
        self._ledger.put(
            replace(record, state=StepState.UNDOING, ended_at=record.ended_at or self._services.clock.now())
        )
        self._write(
            lambda: self._services.desk.move_child(
                record.operation, undo=True, then=lambda child: self._child_stands(record.key, child)
            )
        )

    def _child_stands(self, key: str, child: TaskRecord) -> None:
        if self._closed:
            return
        record = self._ledger.steps[key]
        if child.state in _CHILD_IS_BACK:
            self._undone(record)
        elif child.state in _CHILD_IS_STUCK:
            error = Failure("ChildNotUndone", f"child {child.id} is {child.state}", step=key, permanent=True)
            self._failed(record, error)
        else:
            self._park(None)  # The child's end will call.

    # The end

    def _finish(self) -> None:
        steps = self._ledger.steps.values()
        if any(step.state is StepState.UNDOING for step in steps):
            self._park(None)  # A person has work to do, and will say so.
            return
        stuck = [step for step in steps if step.state is StepState.UNDO_FAILED]
        state = TaskState.UNDO_FAILED if stuck else TaskState.UNDONE
        self._ledger.put_task(
            replace(self.task, state=state, locked_by=None, complete_by=None, wake_at=None, parked=False)
        )
        self._write(lambda: None)
        self._close()

    def _park(self, until: datetime | None) -> None:
        self._ledger.put_task(
            replace(self.task, locked_by=None, complete_by=None, wake_at=until, parked=True)
        )
        self._write(lambda: None)
        self._close()

    # Underneath

    def _write(self, written: Callable[[], None]) -> None:
        def settle(refusal: BackstayError | None) -> None:
            if refusal is not None:
                self._lost(str(refusal))
            else:
                written()

        self._ledger.write(self._services, settle)

    def _lost(self, why: str) -> None:
        self._ledger.lost(why)
        self.abandon()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._silence("Cancelled")
        if self._execution is not None:
            self._execution.leave()
        elif self._ticket is not None:
            self._ticket.give_back()
        self._services.desk.closed(self.task.key)

    def _silence(self, error: str | None = None) -> None:
        """The attempt is over; nothing rings for it any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        if self._span is not None:
            self._span.end(error=error)
            self._span = None

    def _step_of(self, key: str) -> Step[..., Any] | None:
        step = self._services.registry.steps.get(self._ledger.steps[key].operation)
        return step if step is not None and step.undo_of is not None else None

    def _complete_by(self, key: str) -> timedelta:
        return self._services.time_for_undo(self._step_of(key))


def _brought_to_rest(step: StepRecord, at_work_until: datetime) -> StepRecord:
    """One arrow further for a step that was still on its way forward."""
    if step.state is StepState.RUNNING:
        stopped = interrupted(step)
        # Only a step, or a child, can have had an effect.
        return replace(stopped, unsure=step.unsure or step.kind in (StepKind.STEP, StepKind.CHILD))
    if step.unsure:
        return replace(step, state=StepState.RUNNING, attempt=max(1, step.attempt), complete_by=at_work_until)
    return replace(step, state=StepState.SKIPPED)
