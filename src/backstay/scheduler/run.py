"""One task on its way forward: replay, then live.

A run is not an asyncio task of the real loop. It is driven by callbacks: something happened (a
reply, a wake-up, a signal), so it takes a *turn*. A turn delivers one result to the workflow, lets
it go on until every branch is blocked, and repeats that while results are at hand; what changed is
then written as one transition. While replaying, the results come out of the journal, in the order
in which they came the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import msgspec

from backstay.clock import Alarm
from backstay.definitions.codec import check_size
from backstay.definitions.workflows import Workflow
from backstay.domain.recovery import Cause, Undo, before_run
from backstay.domain.states import StepState
from backstay.domain.step import Failure, StepKind
from backstay.domain.task import Signal, TaskRecord
from backstay.errors import (
    BackstayError,
    InvalidRequest,
    JournalMismatch,
    NotAwaited,
    StepFailed,
    TaskFailed,
)
from backstay.observe import log
from backstay.scheduler.calls import Call
from backstay.scheduler.deliveries import Deliveries
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
from backstay.scheduler.report import report_failure
from backstay.scheduler.services import Services
from backstay.scheduler.step_call import StepCall
from backstay.scheduler.waits import LeftChild, Wait
from backstay.scheduler.workflow_loop import WorkflowSpins, WorkflowStuck

replace = msgspec.structs.replace

# A wait that ends sooner than this is sat out in memory: parking and replaying would cost more.
PARK_FROM: Final = timedelta(seconds=1)

# How long a cancelled body may take to unwind before the task goes on without it.
UNWIND_SECONDS: Final = 1.0


class _Phase(Enum):
    RUNNING = auto()
    STOPPING = auto()  # the end is decided; bodies unwind, the last transition is on its way
    CLOSED = auto()


# Looking a member up in its enum costs as much as a call.
_RUNNING: Final = _Phase.RUNNING
_STOPPING: Final = _Phase.STOPPING
_CLOSED: Final = _Phase.CLOSED


class Run:
    """Drives one claimed task until it ends, parks, or is taken away."""

    __slots__ = (
        "_branches",
        "_deliveries",
        "_dispatch",
        "_hard_end",
        "_ledger",
        "_main",
        "_phase",
        "_services",
        "_turn_due",
        "_undo",
        "_waits",
        "_workflow",
    )

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
        self._deliveries = Deliveries(
            services, ledger, workflow, signals, turn_soon=self._turn_soon, flush=self._flush
        )
        self._dispatch = self._deliveries.dispatch
        self._waits = self._deliveries.waits
        self._branches = self._deliveries.branches
        self._phase = _RUNNING
        self._main: asyncio.Task[Any] | None = None
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
            self._stop(partial(by_request, self.task.request, self._ledger))
            return
        cause = before_run(self.task, self._workflow.recovery, now)
        if cause is not None:
            self._stop(partial(by_cause, cause, self._ledger, self._workflow.recovery, now))
            return
        if self.task.hard_end is not None:
            seconds = (self.task.hard_end - now).total_seconds()
            self._hard_end = self._services.alarms.after(seconds, self._hard_end_passed)
        try:
            arguments = self._workflow.signature.decode(self.task.input)
        except InvalidRequest as error:
            self._stop(partial(self._by_exception, error))
            return
        self._main = self._branches.start(self._workflow.function(**arguments))
        self._turn_soon()

    def stands(self, task: TaskRecord, signals: list[Signal]) -> None:
        """The store was asked how the task stands: perhaps somebody wants something of it."""
        if self._phase is not _RUNNING:
            return
        if (task.locked_by, task.lock_number) != (self._services.owner.id, self.task.lock_number):
            self._lost(f"task {task.id} was taken away")
        elif task.request is not None:
            self._stop(partial(by_request, task.request, self._ledger))
        else:
            self._waits.signals_arrived(signals)

    def child_stands(self, wait: Wait, child: TaskRecord) -> None:
        """The store was asked how one of the children stands."""
        if self._live:
            self._waits.child_stands(wait, child)
            self._flush()

    def children(self) -> list[Wait]:
        """The children that this run waits for."""
        return self._waits.children()

    def stay(self) -> None:
        """Keep the task from overrunning its complete-by while all it does is stand in line for a slot."""
        if self._live and self._dispatch.in_line:
            self._ledger.prolong(self._services.time_for_run(self._workflow), self._services.clock.now())
            self._flush()

    def abandon(self) -> None:
        """Let go without writing anything: the task is another's now, or the process stops."""
        self._ledger.end_span("Abandoned")
        self._close()

    # Turns

    @property
    def _live(self) -> bool:
        return self._phase is _RUNNING and self._deliveries.live

    def _turn_soon(self) -> None:
        # Always from a plain callback: a workflow's tasks cannot run inside another asyncio task.
        if not self._turn_due:
            self._turn_due = True
            self._services.soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        if self._main is None or self._phase is not _RUNNING:
            return
        deliveries = self._deliveries
        try:
            deliveries.deliver(self._main)
            # Now, and not at the end: nothing that comes after the forgotten call is sent out yet.
            if deliveries.performing and not self._main.done() and (dropped := deliveries.dropped()):
                raise NotAwaited(dropped)
        except (WorkflowSpins, JournalMismatch, NotAwaited) as error:
            deliveries.broken = deliveries.broken or error
        if deliveries.broken is not None:
            self._stop(partial(self._by_exception, deliveries.broken))
        elif self._main.done():
            self._stop(partial(self._outcome, self._main))
        elif not (self._dispatch.calls or deliveries.waiting or deliveries.pending):
            self._stop(partial(self._by_exception, WorkflowStuck()))
        else:
            self._flush()

    # Writing

    def _flush(self) -> None:
        """Write what changed; what must be durable first starts when that is committed."""
        if self._turn_due or self._phase is not _RUNNING or not self._deliveries.live:
            return
        dispatch = self._dispatch
        sending, dispatch.to_send = dispatch.to_send, []
        if not sending:
            if not dispatch.moving and self._may_park():
                self._stopping()
                park(self._ledger, until=self._wake_at(), error=None)
            if not self._ledger.changed:
                return
        if not (self._deliveries.begun or self._deliveries.reviving or self._waits.left):
            self._ledger.write(self._services, partial(self._began, sending))
            return
        reviving = self._deliveries.handed_over()
        left = self._waits.take_left() if self._waits.left else []
        self._ledger.write(self._services, partial(self._written, sending, reviving, left))

    def _began(self, sending: list[StepCall], refusal: BackstayError | None) -> None:
        if refusal is None and self._phase is _RUNNING and not self._waits.open:
            self._dispatch.send(sending)
        else:
            self._written(sending, [], [], refusal)

    def _written(
        self,
        sending: list[StepCall],
        reviving: list[Call],
        left: list[LeftChild],
        refusal: BackstayError | None,
    ) -> None:
        if refusal is not None:
            self._lost(str(refusal))
            return
        if left:
            self._deliveries.stop_children(left)
        if self._phase is _STOPPING and self.task.parked:
            self._close()
        if self._phase is not _RUNNING:
            return
        if sending:
            self._dispatch.send(sending)
        if reviving:
            self._deliveries.revive(reviving)
        if self._waits.open and self._waits.unconfirmed:
            self._services.desk.look_again(self.task.key)

    def _ended(self, refusal: BackstayError | None) -> None:
        if refusal is not None:
            self._lost(str(refusal))

    def _lost(self, why: str) -> None:
        """The task is not ours any more: whatever we computed must be dropped."""
        self._ledger.lost(why)
        self.abandon()

    # Parking

    def _may_park(self) -> bool:
        """Whether nothing can move for a while, so that the task need not stay in memory."""
        if self._deliveries.pending or self._waits.unconfirmed:
            return False
        if self._dispatch.waiting and self._dispatch.parked_for_seconds() < PARK_FROM.total_seconds():
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
                self._deliveries.journal.check_over()
            if error is not None:
                return self._by_exception(error)
            if never_awaited := self._deliveries.never_awaited():
                return self._by_exception(NotAwaited(never_awaited))
            output = self._workflow.returns.encode(main.result())
            check_size(
                output, f"result of workflow {self._workflow.name}", self._services.settings.payload_bytes_max
            )
            return Ending(Processed(output))
        except (InvalidRequest, JournalMismatch) as refused:
            return self._by_exception(refused)

    def _by_exception(self, error: BaseException) -> Ending:
        if not isinstance(first_failure(error), BackstayError):
            # A mistake in the workflow's own code: whoever mends it wants to know where.
            log.error("workflow %s of task %s raised", self.task.workflow, self.task.id, exc_info=error)
        return by_exception(
            error,
            self._ledger,
            self._workflow.recovery,
            registry=self._services.registry,
            now=self._services.clock.now(),
        )

    def _hard_end_passed(self) -> None:
        if self._phase is _RUNNING:
            now = self._services.clock.now()
            self._stop(partial(by_cause, Cause.HARD_END, self._ledger, self._workflow.recovery, now))

    def _stopping(self) -> None:
        self._phase = _STOPPING
        self._deliveries.stop()

    def _stop(self, decide: Callable[[], Ending]) -> None:
        """The end has come. Stop what is under way, and write the ending once it has unwound."""
        self._stopping()
        if self._deliveries.live:
            self._deliveries.keep_arrived()
        ending = decide()  # By what is known of every step, and no sooner.
        if self._deliveries.quiet and not self._branches.branching:
            self._finish(ending)
            return
        begun = self._deliveries.begun_lately()
        self._dispatch.withdraw_all()
        if isinstance(self._deliveries.broken, NotAwaited):
            # Nothing of that stays in the journal: a mended workflow may go another way from here.
            self._ledger.forget(begun)
        if ending.abandons_waits:
            self._waits.withdraw_all(undo_children=isinstance(ending.verdict, Undo))
        self._branches.abandon()
        left = self._children_left(ending)
        late = self._services.alarms.after(UNWIND_SECONDS, lambda: self._unwound(ending, left))
        self._dispatch.when_quiet(lambda: self._unwound(ending, left, late))

    def _unwound(self, ending: Ending, left: list[LeftChild], late: Alarm | None = None) -> None:
        if late is not None:
            late.cancel()
        # The children first: a task that has ended can stop nobody any more.
        self._deliveries.stop_children(left)
        self._deliveries.when_children_told(lambda: self._finish(ending))

    def _children_left(self, ending: Ending) -> list[LeftChild]:
        if isinstance(ending.verdict, Undo):
            return []  # The undo sees to them, each in its turn.
        if self._deliveries.live:
            return self._waits.take_left()
        if not ending.abandons_waits:
            return []
        # The workflow did not come to its waits, so its children are known from the journal alone.
        return [
            LeftChild(entry.operation, undo=False)
            for entry in self._deliveries.journal.entries.values()
            if entry.kind is StepKind.CHILD and entry.state is StepState.RUNNING
        ]

    def _finish(self, ending: Ending) -> None:
        if self._phase is _CLOSED:
            return
        self._close()
        if not self._deliveries.live:
            # Begun by code that may not be the task's own: whatever matches will begin it again.
            self._ledger.rewind(self._deliveries.journal.entries)
        report_failure(
            self._ledger, self._workflow, ending, bytes_max=self._services.settings.payload_bytes_max
        )
        if isinstance(ending.verdict, Undo):
            self._undo(self._ledger, ending.error)
            return
        conclude(self._ledger, ending)
        self._ledger.write(self._services, self._ended)

    def _close(self) -> None:
        if self._phase is _CLOSED:
            return
        self._stopping()
        self._phase = _CLOSED
        if self._hard_end is not None:
            self._hard_end.cancel()
        self._dispatch.stop()
        self._waits.stop()
        self._branches.abandon()
        self._deliveries.close()
        self._branches.close()
        self._services.desk.closed(self.task.key)
