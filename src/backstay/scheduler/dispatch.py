"""The steps of one run: a slot, a durable record, the request, the reply.

begin ──► slot granted ──► recorded running ──(committed)──► sent ──► reply, or complete-by passes
              ▲                                                              │
              └────────────── may be repeated ◄── failed, expired ◄──────────┤
                                                                             └──► settled
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from backstay.clock import Alarm
from backstay.domain.durations import describe
from backstay.domain.instants import instant, micros
from backstay.domain.recovery import CRASHES, Recovery, may_repeat
from backstay.domain.states import StepState
from backstay.domain.step import Failure, StepRecord
from backstay.messaging.wire import Answer, Completed, Deferred, Execution, Failed, Lost, Request, Ticket
from backstay.observe import LATE_REPLY, STEP_REPEATED, emit
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services
from backstay.scheduler.step_call import StepCall
from backstay.store.base import StepBegan
from backstay.tracing import Tracing

replace = msgspec.structs.replace

_NOTHING: Final = timedelta(0)
_CANCELLED: Final = Failure("Cancelled", "the workflow stopped waiting for this step")
_NEVER: Final = float("inf")

# Looking a member up in its enum costs as much as a call.
_PENDING: Final = StepState.PENDING
_RUNNING: Final = StepState.RUNNING
_COMPLETED: Final = StepState.COMPLETED
_FAILED: Final = StepState.FAILED


class Pause:
    """A place in no line at all: the service asked to be left alone for a while. A ``Ticket``."""

    granted = False

    def __init__(self, time: timedelta, services: Services, *, over: Callable[[], None]) -> None:
        self._clock = services.clock
        self._over_at = services.clock.monotonic() + time.total_seconds()
        self._alarm = services.alarms.after(time.total_seconds(), over)

    def open_in_seconds(self) -> float:
        return max(0.0, self._over_at - self._clock.monotonic())

    def when_changed(self, callback: Callable[[], None]) -> None:
        """It never is granted; what comes after the pause is a place in a line."""

    def give_back(self) -> None:
        self._alarm.cancel()


#: A call, and the record that it came to; None: it is completed, and the call itself knows the rest.
Settled = Callable[[StepCall, StepRecord | None], None]


def _nothing(*_args: Any) -> None:
    """Called in place of a run that is over."""


class Dispatch:
    """Takes the steps of one run to their agents and brings back what became of them."""

    __slots__ = (
        "_alarm",
        "_alarm_at",
        "_flush",
        "_ledger",
        "_recovery",
        "_services",
        "_settled",
        "_when_quiet",
        "calls",
        "ending",
        "to_send",
    )

    def __init__(
        self,
        services: Services,
        ledger: Ledger,
        recovery: Recovery,
        *,
        settled: Settled,
        flush: Callable[[], None],
    ) -> None:
        self._services = services
        self._ledger = ledger
        self._recovery = recovery
        self._settled = settled
        self._flush = flush
        self.calls: dict[str, StepCall] = {}
        # Their running records go into the next transition.
        self.to_send: list[StepCall] = []
        # One for all steps of the run, at the first time at which one of them may be due.
        self._alarm: Alarm | None = None
        self._alarm_at = _NEVER
        # Bodies that were withdrawn and have not stopped yet.
        self.ending = 0
        self._when_quiet: Callable[[], None] | None = None

    # How it stands

    @property
    def waiting(self) -> bool:
        """Whether any step is under way or in line."""
        return bool(self.calls)

    @property
    def moving(self) -> bool:
        """Whether a body runs, or is about to."""
        for call in self.calls.values():  # noqa: SIM110  Asked at every turn: a generator would cost more.
            if call.ticket is None or call.ticket.granted:
                return True
        return False

    @property
    def in_line(self) -> bool:
        """Whether all that happens is standing in line."""
        return bool(self.calls) and not self.moving

    def parked_for_seconds(self) -> float:
        """How long nothing can move because of open breakers; 0 when something can."""
        if not self.in_line:
            return 0.0
        return min(call.ticket.open_in_seconds() for call in self.calls.values() if call.ticket is not None)

    # The way out

    def begin_new(self, call: StepCall) -> None:
        """Take a step that nobody has called before to its agent."""
        ledger = self._ledger
        task_key = ledger.task.key
        step = call.step
        if not self._reserve(call).granted:
            ledger.put(call.first_record(task_key))
            return
        call.started_at = self._time(call)
        self.to_send.append(call)
        began = StepBegan(
            task_key=task_key,
            key=call.key,
            agent=step.agent.name,
            operation=step.name,
            complete_by=call.complete_by,
            input=call.input.decode(),
            started_at=call.started_at,
            undo=step.undo_kind,
            pivot=step.pivot,
        )
        ledger.begin(call, began)
        if self._services.agents.through_store:
            self._ask(call)

    def begin(self, call: StepCall) -> None:
        """Take a step that is recorded, and not finished, to its agent."""
        call.execution = None
        if self._reserve(call).granted:
            self._run_again(call)

    def _reserve(self, call: StepCall) -> Ticket:
        """Ask for a slot, or for a place in the line."""
        self.calls[call.key] = call
        call.ticket = ticket = self._services.agents.reserve(call.step.agent.name)
        if not ticket.granted:
            ticket.when_changed(partial(self._in_line, call))
        return ticket

    def resume(self, call: StepCall) -> None:
        """Go on with a step that an earlier run left pending or broke off."""
        record = self._ledger.steps[call.key]
        if record.state is _RUNNING and self._is_elsewhere(call, record):
            return
        interrupted = record.state is not _PENDING
        unsure = replace(record, unsure=record.unsure or interrupted)
        if interrupted and not may_repeat(unsure, self._recovery, idempotent=call.step.idempotent):
            reason = f"attempt {record.attempt} was interrupted, and the step must not be attempted again"
            error = record.error or Failure("Interrupted", reason, step=call.key)
            position = self._ledger.next_position()
            self._settled(call, replace(unsure, state=_FAILED, error=error, position=position))
            return
        if interrupted:
            # It may have to wait for a slot, and whatever waits in line is pending.
            self._ledger.put(replace(unsure, state=_PENDING, complete_by=None))
        self.begin(call)

    def _is_elsewhere(self, call: StepCall, record: StepRecord) -> bool:
        """Whether the attempt goes on in another process, or was answered there: then we wait for that."""
        found = self._ledger.found.get(call.key)
        if found is None or not found.reference.is_current(record):
            return False
        clock = self._services.clock
        answered = found.answer() is not None
        if not answered and not found.is_live(clock.now()):
            if found.claimed_by is not None:
                return False
            # Nobody took it up in time, so nothing was done.
            self._ledger.put(replace(record, state=_PENDING, complete_by=None))
            self.begin(call)
            return True
        self.calls[call.key] = call
        remaining = max(0.0, (found.complete_by - clock.now()).total_seconds())
        call.attempt = record.attempt
        call.complete_by = micros(found.complete_by)
        call.due = call.deadline = clock.monotonic() + remaining
        replied = partial(self._replied, call, call.attempt)
        call.execution = self._services.mail.follow(found, call.step.agent.name, remaining, replied)
        if call.due < self._alarm_at:
            self._look_at_clock(call.due)
        return True

    def unrepeatable(self, call: StepCall) -> bool:
        """Whether nobody knows what the step did, and it must not be done twice."""
        return self._ledger.steps[call.key].unsure and not call.step.idempotent

    def _in_line(self, call: StepCall) -> None:
        """Something changed for a call in line: it has a slot now, or the breaker opened and it may park."""
        if call.ticket is not None and call.ticket.granted:
            self._run_again(call)
        self._flush()

    def _run_again(self, call: StepCall) -> None:
        """Put down what must be durable before the body starts."""
        step = self._ledger.steps[call.key]
        now = self._time(call, attempt=step.attempt + 1)
        self.to_send.append(call)
        self._ledger.put(
            replace(
                step,
                state=_RUNNING,
                attempt=call.attempt,
                complete_by=instant(call.complete_by),
                started_at=step.started_at or instant(now),
                ended_at=None,
                error=None,
            )
        )
        if self._services.agents.through_store:
            self._ask(call)

    def _ask(self, call: StepCall) -> None:
        """Have the request written along with the record of the attempt."""
        task, step = self._ledger.task, call.step
        self._ledger.send(
            Request(
                task_id=task.id,
                step=call.key,
                agent=step.agent.name,
                operation=step.name,
                attempt=call.attempt,
                input=call.input,
                complete_by=call.complete_by,
                remaining_seconds=call.deadline - self._services.clock.monotonic(),
                traceparent=self._ledger.traceparent if call.span is None else call.span.traceparent,
                task_key=task.key,
            )
        )

    def _time(self, call: StepCall, *, attempt: int = 1) -> int:
        """Set when an attempt that is recorded now must be done, and let its time run from here on; now."""
        clock = self._services.clock
        now = clock.micros()
        time = self._services.micros_for[call.step]
        hard_end = self._ledger.task.hard_end
        if hard_end is not None:
            time = max(0, min(time, micros(hard_end) - now))
        call.attempt = attempt
        call.complete_by = now + time
        call.deadline = clock.monotonic() + time / 1_000_000
        if self._services.tracing is not None:
            self._begin_span(call, self._services.tracing)
        return now

    def _begin_span(self, call: StepCall, tracing: Tracing) -> None:
        step = call.step
        call.span = tracing.begin(
            f"step {step.name}",
            "CLIENT",
            parent=self._ledger.traceparent,
            task_id=self._ledger.task.id,
            step=call.key,
            agent=step.agent.name,
            attempt=call.attempt,
        )

    def send(self, calls: list[StepCall]) -> None:
        """The records are durable: start the bodies."""
        services = self._services
        task = self._ledger.task
        task_id, task_key, inherited = task.id, task.key, self._ledger.traceparent
        now = services.clock.monotonic()
        for call in calls:
            key = call.key
            if self.calls.get(key) is not call or call.ticket is None:
                continue
            call.due = due = call.deadline
            if due < self._alarm_at:
                self._look_at_clock(due)
            # One that had to wait for the disk past its complete-by is not started any more.
            if due <= now:
                continue
            step = call.step
            request = Request(
                task_id=task_id,
                step=key,
                agent=step.agent.name,
                operation=step.name,
                attempt=call.attempt,
                input=call.input,
                complete_by=call.complete_by,
                remaining_seconds=due - now,
                traceparent=inherited if call.span is None else call.span.traceparent,
                task_key=task_key,
            )
            replied = partial(self._replied, call, call.attempt)
            call.execution = services.agents.execute(call.ticket, request, replied)

    # The way back

    def _replied(self, call: StepCall, attempt: int, reply: Answer) -> None:
        if self.calls.get(call.key) is not call or call.attempt != attempt:
            emit(LATE_REPLY, task_id=self._ledger.task.id, step=call.key)
            return
        call.due = call.execution = None
        if type(reply) is not Completed:
            self._fell_short(call, self._ledger.steps[call.key], reply)
            return
        del self.calls[call.key]
        if call.span is not None:
            call.end_span()
        if self._ledger.task.crash_count:
            self._ledger.came_further()
        call.output = reply.output
        call.ended_at = self._services.clock.micros()
        call.position = self._ledger.position = self._ledger.position + 1
        self._settled(call, None)

    def _fell_short(self, call: StepCall, record: StepRecord, reply: Answer) -> None:
        match reply:
            case Failed(error=error, unsure=unsure, retry_after=pause):
                self._failed(call, replace(record, unsure=record.unsure or unsure), error, pause=pause)
            case Deferred(error=error, unsure=unsure):
                self._again(call, replace(record, unsure=record.unsure or unsure, error=error))
            case Lost(crashed=crashed):
                self._lost(call, replace(record, unsure=True), crashed=crashed)

    def _lost(self, call: StepCall, record: StepRecord, *, crashed: bool) -> None:
        """The process that worked on it has ended; that is no failure of the step, but may be its doing."""
        if crashed:
            self._ledger.crashed()
        reason = f"the process that worked on attempt {record.attempt} has ended"
        if crashed and self._ledger.task.crash_count >= self._recovery.crashes:
            error = Failure(CRASHES, f"{reason}, and so did too many before it", call.key, permanent=True)
            self._given_up(call, replace(record, error=error))
        elif may_repeat(record, self._recovery, idempotent=call.step.idempotent):
            emit(STEP_REPEATED, task_id=self._ledger.task.id, step=call.key, error=reason)
            self._again(call, record)
        else:
            error = Failure("Interrupted", f"{reason}, and the step must not be attempted again", call.key)
            self._given_up(call, replace(record, error=error))

    def _look_at_clock(self, at: float) -> None:
        """Ask at that time, and no later, whether something is due."""
        self._forget_clock()
        self._alarm_at = at
        self._alarm = self._services.alarms.after(
            at - self._services.clock.monotonic(), self._clock_looked_at
        )

    def _clock_looked_at(self) -> None:
        self._forget_clock()
        now = self._services.clock.monotonic()
        for call in [call for call in self.calls.values() if call.due is not None and call.due <= now]:
            self._expired(call)
        due = min((call.due for call in self.calls.values() if call.due is not None), default=_NEVER)
        if due < self._alarm_at:
            self._look_at_clock(due)

    def _forget_clock(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._alarm_at = _NEVER

    def stop(self) -> None:
        """The run is over; nobody is asked for anything any more."""
        left = list(self.calls.values())
        self.calls.clear()
        for call in left:
            call.end_span(_CANCELLED)
            if call.execution is not None:
                call.execution.leave()
            elif call.ticket is not None:
                call.ticket.give_back()
        self._forget_clock()
        # What leads back to the run: something that holds itself is freed late, and by a search.
        self._settled = self._flush = _nothing
        self._when_quiet = None

    def _expired(self, call: StepCall) -> None:
        """The complete-by passed and the agent said nothing."""
        call.due = None
        record = self._ledger.steps[call.key]
        if record.complete_by == self._ledger.task.hard_end:
            return  # It ends with its task, which is stopped at this very instant.
        if call.execution is not None:
            call.execution.overdue(partial(self._overdue, call, call.attempt))
            return
        if call.ticket is not None:
            call.ticket.give_back()
        self._failed(call, record, self._no_answer(call))

    def _overdue(self, call: StepCall, attempt: int, reply: Answer | None, began: bool) -> None:  # noqa: FBT001
        """It was told to stop; perhaps it had replied after all, or nobody had begun it."""
        if self.calls.get(call.key) is not call or call.attempt != attempt or call.execution is None:
            return
        record = self._ledger.steps[call.key]
        if reply is not None:
            self._replied(call, attempt, reply)
        elif began:
            self._failed(call, replace(record, unsure=True), self._no_answer(call))
        else:
            self._again(call, record)

    def _no_answer(self, call: StepCall) -> Failure:
        time = describe(self._services.time_for_step(call.step))
        return Failure("Expired", f"no answer within {time}", step=call.key)

    def _failed(
        self, call: StepCall, record: StepRecord, error: Failure, *, pause: timedelta | None = None
    ) -> None:
        # An attempt that the supervisor has ended, because nobody judged it in time, is counted already.
        counted = record.ended_at is not None
        record = replace(record, failure_count=record.failure_count + (not counted), error=error)
        hard_end = self._ledger.task.hard_end
        in_time = hard_end is None or self._services.clock.now() + (pause or _NOTHING) < hard_end
        repeatable = may_repeat(record, self._recovery, idempotent=call.step.idempotent)
        if not error.permanent and in_time and repeatable:
            emit(STEP_REPEATED, task_id=self._ledger.task.id, step=call.key, error=error.message)
            self._again(call, record, pause=pause)
        else:
            self._given_up(call, record)

    def _again(self, call: StepCall, record: StepRecord, *, pause: timedelta | None = None) -> None:
        call.end_span(record.error)
        ended = self._services.clock.now()
        self._ledger.put(replace(record, state=_PENDING, complete_by=None, ended_at=ended))
        if pause:
            call.execution = None
            call.ticket = Pause(pause, self._services, over=lambda: self._pause_over(call))
        else:
            self.begin(call)
        self._flush()

    def _pause_over(self, call: StepCall) -> None:
        self.begin(call)
        self._flush()

    def _given_up(self, call: StepCall, record: StepRecord) -> None:
        call.end_span(record.error)
        del self.calls[call.key]
        ended_at = self._services.clock.now()
        position = self._ledger.next_position()
        self._settled(call, replace(record, state=_FAILED, ended_at=ended_at, position=position))

    # The workflow no longer wants it

    def withdraw(self, call: StepCall) -> None:
        """Stop a step that nobody waits for any more; what it did so far may have taken effect."""
        if self.calls.pop(call.key, None) is None:
            return
        call.due = None
        call.end_span(_CANCELLED)
        if call.execution is None:
            self._leave_the_line(call)
        else:
            self._break_off(call, call.execution)

    def _leave_the_line(self, call: StepCall) -> None:
        if call.ticket is not None:
            call.ticket.give_back()
        record = self._ledger.steps[call.key]
        if record.state is _RUNNING:
            # It had its slot and was not sent, so nothing failed. The store may know it as pending still.
            self._ledger.put(replace(record, state=_PENDING, complete_by=None))

    def _break_off(self, call: StepCall, execution: Execution) -> None:
        error = replace(_CANCELLED, step=call.key)
        record = self._ledger.steps[call.key]
        self._ledger.put(replace(record, state=_FAILED, error=error, unsure=True))
        self.ending += 1
        execution.cancel(lambda: self._ended(call))

    def withdraw_all(self) -> None:
        if self.calls:
            for call in list(self.calls.values()):
                self.withdraw(call)

    def _ended(self, call: StepCall) -> None:
        """A withdrawn body is known to have stopped."""
        self._ledger.put(replace(self._ledger.steps[call.key], ended_at=self._services.clock.now()))
        self.ending -= 1
        if self.ending == 0 and self._when_quiet is not None:
            self._when_quiet()

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call back once every withdrawn body has stopped."""
        self._when_quiet = callback
        if self.ending == 0:
            callback()
