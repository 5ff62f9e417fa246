"""One task on its way forward: replay, then live.

A run is not an asyncio task of the real loop. It is driven by callbacks: something happened (a
reply, a wake-up, a signal), so it takes a *turn*. A turn delivers one result to the workflow, lets
it go on until every branch is blocked, and repeats that while results are at hand; what changed is
then written as one transition. While replaying, the results come out of the journal, in the order
in which they came the first time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Final

import msgspec

from backstay.clock import Alarm
from backstay.definitions.codec import check_size
from backstay.definitions.workflows import Workflow
from backstay.domain.journal import Journal
from backstay.domain.recovery import Cause, GiveUp, Undo, before_run
from backstay.domain.states import StepState
from backstay.domain.step import Failure, StepKind, StepRecord
from backstay.domain.task import NewTask, Signal, TaskRecord
from backstay.errors import (
    BackstayError,
    InvalidInput,
    InvalidRequest,
    JournalMismatch,
    StepFailed,
    TaskFailed,
)
from backstay.observe import LEASE_LOST, TASK_ERROR, alert, emit
from backstay.scheduler.calls import Call, Calls
from backstay.scheduler.dispatch import Dispatch, StepCall
from backstay.scheduler.ending import (
    Ending,
    Processed,
    by_cause,
    by_exception,
    by_request,
    conclude,
    first_failure,
    park,
)
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services
from backstay.scheduler.waits import LeftChild, Wait, Waits
from backstay.scheduler.workflow_loop import WorkflowLoop, WorkflowSpins

replace = msgspec.structs.replace

# A wait that ends sooner than this is sat out in memory: parking and replaying would cost more.
PARK_FROM: Final = timedelta(seconds=1)

# How long a cancelled body may take to unwind before the task goes on without it.
UNWIND_SECONDS: Final = 1.0


class _Phase(Enum):
    REPLAY = auto()
    LIVE = auto()
    STOPPING = auto()  # the end is decided; bodies unwind, the last transition is on its way
    CLOSED = auto()


class Run:
    """Drives one claimed task until it ends, parks, or is taken away."""

    def __init__(
        self,
        services: Services,
        workflow: Workflow[..., Any],
        ledger: Ledger,
        signals: list[Signal],
        *,
        undo: Callable[[Ledger, Failure | None], None],
    ) -> None:
        self._services = services
        self._workflow = workflow
        self._ledger = ledger
        self._undo = undo
        self._journal = Journal(ledger.steps.values())
        self._loop = WorkflowLoop(Calls(services, ledger, self))
        self._dispatch = Dispatch(
            services, ledger, workflow.recovery, settled=self._arrived, flush=self._flush
        )
        self._waits = Waits(services, ledger, signals, settled=self._arrived)
        self._phase = _Phase.REPLAY
        self._went_live = False
        self._main: asyncio.Task[Any] | None = None
        self._broken: Exception | None = None
        # Calls that the journal has a result for, and calls that it has without one.
        self._recorded: dict[str, Call] = {}
        self._unfinished: list[Call] = []
        self._reviving: list[Call] = []
        self._inbox: deque[tuple[Call, StepRecord]] = deque()
        self._turn_due = False
        self._hard_end: Alarm | None = None

    @property
    def task(self) -> TaskRecord:
        return self._ledger.task

    # From the scheduler

    def start(self) -> None:
        """Begin the workflow, unless something forbids that; from here on the run moves by itself."""
        now = self._services.clock.now()
        if self.task.request is not None:
            self._stop(by_request(self.task.request, self._ledger))
            return
        cause = before_run(self.task, self._workflow.recovery, now)
        if cause is not None:
            self._stop(by_cause(cause, self._ledger, self._workflow.recovery, now))
            return
        if self.task.hard_end is not None:
            seconds = (self.task.hard_end - now).total_seconds()
            self._hard_end = self._services.alarms.after(seconds, self._hard_end_passed)
        self._main = self._loop.start(self._call_workflow())
        self._turn_soon()

    async def _call_workflow(self) -> Any:
        return await self._workflow.function(**self._workflow.signature.decode(self.task.input))

    def stands(self, task: TaskRecord, signals: list[Signal]) -> None:
        """The store was asked how the task stands: perhaps somebody wants something of it."""
        if self._phase in (_Phase.STOPPING, _Phase.CLOSED):
            return
        if (task.locked_by, task.lock_number) != (self._services.owner.id, self.task.lock_number):
            self._lost(f"task {task.id} was taken away")
        elif task.request is not None:
            self._stop(by_request(task.request, self._ledger))
        else:
            self._waits.signals_arrived(signals)

    def child_stands(self, wait: Wait, child: TaskRecord) -> None:
        """The store was asked how one of the children stands."""
        if self._phase is _Phase.LIVE:
            self._waits.child_stands(wait, child)
            self._flush()

    def children(self) -> list[Wait]:
        """The children that this run waits for."""
        return self._waits.children()

    def abandon(self) -> None:
        """Let go without writing anything: the task is another's now, or the process stops."""
        self._close()

    # From the workflow (scheduler.calls.Performer)

    async def perform(self, record: StepRecord, call: Call, child: NewTask | None = None) -> Any:
        """Do what the workflow called, or find it done in the journal; give back what came of it."""
        call.future = self._loop.create_future()
        self._begin(record, call, child)
        try:
            return await call.future
        except asyncio.CancelledError:
            self._withdrawn(call)
            raise

    def keep_value(self, record: StepRecord) -> None:
        if self._phase in (_Phase.STOPPING, _Phase.CLOSED) or self._broken is not None:
            return
        try:
            self._check_room()
        except InvalidRequest as error:
            self._broken = error
            return
        self._ledger.put(record)

    def _begin(self, record: StepRecord, call: Call, child: NewTask | None) -> None:
        if self._phase in (_Phase.STOPPING, _Phase.CLOSED) or self._broken is not None:
            return
        try:
            entry = self._journal.claim(record.key, operation=record.operation, input=record.input or b"")
            if entry is None:
                self._check_new(record)
        except (JournalMismatch, InvalidRequest) as error:
            # Not raised into the workflow: its own code might catch it and go on.
            self._broken = error
            return
        if entry is None:
            self._begin_new(record, call, child)
        elif entry.settled and entry.input is None:  # planned, and completed by hand before it was called
            self._arrived(
                call, replace(record, state=entry.state, output=entry.output, ended_at=entry.ended_at)
            )
        elif entry.settled:
            self._recorded[record.key] = call
        else:
            if entry.input is None:  # planned with the submission, and called now
                self._ledger.put(replace(record, attempt=entry.attempt))
            self._unfinished.append(call)
            self._turn_soon()

    def _check_new(self, record: StepRecord) -> None:
        if self._phase is _Phase.REPLAY and self._journal.next_delivery() is not None:
            raise JournalMismatch(record.key, "the workflow calls it now, but did not call it the first time")
        self._check_room()

    def _check_room(self) -> None:
        if len(self._ledger.steps) >= self._services.settings.journal_max:
            limit = self._services.settings.journal_max
            raise InvalidRequest(
                f"the task recorded {limit:,} steps, which is the limit (setting journal_max):"
                " divide the work among children"
            )

    def _begin_new(self, record: StepRecord, call: Call, child: NewTask | None) -> None:
        self._ledger.put(record)
        if child is not None:
            self._ledger.start_child(child)
        if isinstance(call, StepCall):
            self._dispatch.begin(call)
        else:
            self._waits.begin(call)

    def _withdrawn(self, call: Call) -> None:
        if self._phase in (_Phase.STOPPING, _Phase.CLOSED):
            return
        if isinstance(call, StepCall):
            self._dispatch.withdraw(call)
        else:
            self._waits.withdraw(call)

    # Turns

    def _arrived(self, call: Call, record: StepRecord) -> None:
        """Something that the workflow waits for has come true."""
        self._inbox.append((call, record))
        self._turn_soon()

    def _turn_soon(self) -> None:
        # Always from a plain callback: a workflow's tasks cannot run inside another asyncio task.
        if not self._turn_due:
            self._turn_due = True
            self._services.soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self._main is None or self._phase in (_Phase.STOPPING, _Phase.CLOSED):
            return
        try:
            self._loop.drain()
            while not (self._main.done() or self._broken) and self._deliver_next():
                self._loop.drain()
        except (WorkflowSpins, JournalMismatch) as error:
            self._broken = error
        if self._broken is not None:
            self._stop(self._by_exception(self._broken))
        elif self._main.done():
            self._stop(self._outcome(self._main))
        else:
            self._check_moving()
            self._flush()

    def _deliver_next(self) -> bool:
        """Give the workflow the next result, if there is one."""
        if self._phase is _Phase.REPLAY:
            entry = self._journal.next_delivery()
            if entry is None:
                self._go_live()
            else:
                self._redeliver(entry)
            return True
        if self._unfinished:
            self._resume_unfinished()
        if not self._inbox:
            return False
        self._deliver(*self._inbox.popleft())
        return True

    def _redeliver(self, entry: StepRecord) -> None:
        call = self._recorded.pop(entry.key, None)
        if call is None:
            raise JournalMismatch(
                entry.key, "the journal has its result, but the workflow did not call it here"
            )
        self._journal.delivered()
        self._resolve(call, entry)

    def _deliver(self, call: Call, record: StepRecord) -> None:
        if isinstance(call, Wait) and call.future.done():
            self._waits.give_back(call)
            return
        # A step's result is recorded even if the workflow has just stopped waiting: it is a fact.
        self._ledger.put(replace(record, position=self._ledger.next_position()))
        if isinstance(call, Wait) and call.signal is not None:
            self._ledger.consume(call.signal.number, call.key)
        self._resolve(call, record)

    def _resolve(self, call: Call, record: StepRecord) -> None:
        if call.future.done():
            return
        if record.state is not StepState.COMPLETED:
            call.future.set_exception(call.failure(record))
            return
        try:
            call.future.set_result(call.result(record))
        except InvalidInput as error:
            raise JournalMismatch(record.key, f"its recorded result no longer fits: {error}") from error

    def _go_live(self) -> None:
        """Everything recorded has been delivered; from here on things really happen."""
        self._journal.check_all_called()
        self._phase = _Phase.LIVE
        self._went_live = True
        self._resume_unfinished()

    def _resume_unfinished(self) -> None:
        calls, self._unfinished = self._unfinished, []
        for call in calls:
            if not call.future.done():
                self._resume(call)
            elif isinstance(call, Wait):
                self._stop_children(self._waits.left_before(call))
        if any(isinstance(call, Wait) and call.kind is StepKind.CHILD for call in calls):
            self._services.desk.look_again(self.task.key)

    def _resume(self, call: Call) -> None:
        """Go on with something that an earlier run began and did not finish."""
        entry = self._ledger.steps[call.key]
        unrepeatable = isinstance(call, StepCall) and self._dispatch.unrepeatable(call)
        if entry.state is StepState.FAILED and not unrepeatable:
            # An earlier run withdrew it, this one wants it: back to pending first, one arrow at a time.
            self._ledger.put(replace(entry, state=StepState.PENDING, complete_by=None, error=None))
            self._reviving.append(call)
        elif isinstance(call, StepCall):
            self._dispatch.resume(call)
        else:
            self._waits.resume(call)

    def _check_moving(self) -> None:
        """A workflow in which nothing can ever happen is a mistake; say so instead of waiting for ever."""
        if self._phase is not _Phase.LIVE or self._inbox or self._unfinished or self._reviving:
            return
        if not self._dispatch.waiting and not self._waits.waiting:
            self._broken = RuntimeError(
                "the workflow waits for something that is neither a step nor a sleep, signal or child,"
                " so it can never go on"
            )
            self._turn_soon()

    # Writing

    def _flush(self) -> None:
        """Write what changed; what must be durable first starts when that is committed."""
        if self._phase is not _Phase.LIVE or self._turn_due:
            return
        if self._may_park():
            self._phase = _Phase.STOPPING
            park(self._ledger, until=self._wake_at(), error=None)
        if not self._ledger.changed:
            return
        sending = self._dispatch.take_to_send()
        reviving, self._reviving = self._reviving, []
        left = self._waits.take_left()
        self._apply(lambda: self._written(sending, reviving, left))

    def _apply(self, written: Callable[[], None]) -> None:
        def settle(refusal: BackstayError | None) -> None:
            if refusal is None:
                written()
            else:
                self._lost(str(refusal))

        self._ledger.write(self._services, settle)

    def _written(self, sending: list[StepCall], reviving: list[Call], left: list[LeftChild]) -> None:
        self._stop_children(left)
        if self._phase is _Phase.STOPPING and self.task.parked:
            self._close()
        if self._phase is not _Phase.LIVE:
            return
        self._dispatch.send(sending)
        self._unfinished += reviving
        if reviving:
            self._turn_soon()
        if self._waits.unconfirmed:
            self._services.desk.look_again(self.task.key)

    def _lost(self, why: str) -> None:
        """The task is not ours any more: whatever we computed must be dropped."""
        emit(LEASE_LOST, task_id=self.task.id, reason=why)
        self.abandon()

    def _stop_children(self, left: list[LeftChild], then: Callable[[], None] | None = None) -> None:
        """Have children stopped; call back once all of them have been told."""
        untold = {child.id for child in left}

        def told(child: TaskRecord) -> None:
            untold.discard(child.id)
            if not untold and then is not None:
                then()

        for child in left:
            self._services.desk.move_child(child.id, undo=child.undo, then=told)
        if not left and then is not None:
            then()

    # Parking

    def _may_park(self) -> bool:
        """Whether nothing can move for a while, so that the task need not stay in memory."""
        if self._inbox or self._unfinished or self._reviving or self._waits.unconfirmed:
            return False
        if self._dispatch.waiting and self._dispatch.parked_for_seconds() < PARK_FROM.total_seconds():
            return False
        if not self._dispatch.waiting and not self._waits.waiting:
            return False
        wake_at = self._wake_at()
        return wake_at is None or wake_at - self._services.clock.now() >= PARK_FROM

    def _wake_at(self) -> datetime | None:
        dues = [self._waits.next_due(), self.task.hard_end]
        if self._dispatch.waiting:
            seconds = self._dispatch.parked_for_seconds()
            dues.append(self._services.clock.now() + timedelta(seconds=seconds))
        return min((due for due in dues if due is not None), default=None)

    # The end

    def _outcome(self, main: asyncio.Task[Any]) -> Ending:
        """What the workflow's own task came to."""
        if main.cancelled():
            return self._by_exception(RuntimeError("the workflow cancelled itself"))
        error = main.exception()
        try:
            if error is None or isinstance(first_failure(error), (StepFailed, TaskFailed)):
                self._journal.check_over()
            if error is not None:
                return self._by_exception(error)
            output = self._workflow.returns.encode(main.result())
            check_size(
                output, f"result of workflow {self._workflow.name}", self._services.settings.payload_bytes_max
            )
            return Ending(Processed(output))
        except (InvalidRequest, JournalMismatch) as refused:
            return self._by_exception(refused)

    def _by_exception(self, error: BaseException) -> Ending:
        return by_exception(
            error,
            self._ledger,
            self._workflow.recovery,
            registry=self._services.registry,
            now=self._services.clock.now(),
        )

    def _hard_end_passed(self) -> None:
        if self._phase in (_Phase.REPLAY, _Phase.LIVE):
            now = self._services.clock.now()
            self._stop(by_cause(Cause.HARD_END, self._ledger, self._workflow.recovery, now))

    def _stop(self, ending: Ending) -> None:
        """The end is decided. Stop what is under way, and write the ending once it has unwound."""
        self._phase = _Phase.STOPPING
        self._dispatch.withdraw_all()
        if ending.abandons_waits:
            self._waits.withdraw_all(undo_children=isinstance(ending.verdict, Undo))
        self._loop.abandon()
        late = self._services.alarms.after(UNWIND_SECONDS, lambda: self._finish(ending))
        left = self._children_left(ending)
        # The children first: a task that has ended can stop nobody any more.
        self._dispatch.when_quiet(lambda: self._stop_children(left, lambda: self._finish(ending, late)))

    def _children_left(self, ending: Ending) -> list[LeftChild]:
        if isinstance(ending.verdict, Undo):
            return []  # The undo sees to them, each in its turn.
        if self._went_live:
            return self._waits.take_left()
        if not ending.abandons_waits:
            return []
        # The workflow did not come to its waits, so its children are known from the journal alone.
        return [
            LeftChild(entry.operation, undo=False)
            for entry in self._journal.entries.values()
            if entry.kind is StepKind.CHILD and entry.state is StepState.RUNNING
        ]

    def _finish(self, ending: Ending, late: Alarm | None = None) -> None:
        if late is not None:
            late.cancel()
        if self._phase is _Phase.CLOSED:
            return
        self._close()
        if not self._went_live:
            # Begun by code that may not be the task's own: whatever matches will begin it again.
            self._ledger.rewind(self._journal.entries)
        if isinstance(ending.verdict, Undo):
            self._undo(self._ledger, ending.error)
            return
        conclude(self._ledger, ending)
        self._apply(lambda: self._ended(ending))

    def _ended(self, ending: Ending) -> None:
        if isinstance(ending.verdict, GiveUp):
            error = ending.error or Failure("Unknown", "")
            alert(TASK_ERROR, task_id=self.task.id, step=error.step, error=f"{error.type}: {error.message}")

    def _close(self) -> None:
        if self._phase is _Phase.CLOSED:
            return
        self._phase = _Phase.CLOSED
        if self._hard_end is not None:
            self._hard_end.cancel()
        self._dispatch.withdraw_all()
        self._waits.stop()
        self._loop.abandon()
        self._services.desk.closed(self.task.key)
