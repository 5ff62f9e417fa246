"""What a workflow called, and what it is given back: out of the journal first, then as it happens.

Results are delivered one at a time, each only when every branch of the workflow is blocked. That
is so live as well as in a replay, which is why a replay goes as the first run went.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Final

import msgspec

from backstay.definitions.codec import DECODE_ERRORS, TypeCodec
from backstay.definitions.workflows import Workflow
from backstay.domain.journal import Journal
from backstay.domain.states import StepState
from backstay.domain.step import StepKind, StepRecord
from backstay.domain.task import NewTask, Signal
from backstay.errors import InvalidRequest, JournalMismatch
from backstay.scheduler.calls import Call, Calls
from backstay.scheduler.dispatch import Dispatch
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services
from backstay.scheduler.step_call import StepCall
from backstay.scheduler.waits import LeftChild, Wait, Waits
from backstay.scheduler.workflow_loop import Branches

replace = msgspec.structs.replace

# Looking a member up in its enum costs as much as a call.
_PENDING: Final = StepState.PENDING
_COMPLETED: Final = StepState.COMPLETED
_FAILED: Final = StepState.FAILED


def _references(held: Mapping[str, object]) -> dict[str, int]:
    """How many hold each of them; for comparison only."""
    return {key: sys.getrefcount(one) for key, one in held.items()}


# What is held by one mapping and nobody else, counted in the same way: Pythons differ in this.
_HELD_HERE_ONLY: Final = _references({"": object()})[""]


def _nothing(*_args: Any) -> None:
    """Called in place of a run that is over."""


def _no_longer_fits(call: Call, codec: TypeCodec, error: Exception) -> JournalMismatch:
    return JournalMismatch(call.key, f"its recorded result no longer fits: {codec.misfit(error)}")


class Deliveries:
    """The calls of one workflow. ``broken`` holds what must stop it, whatever its code would do about it."""

    __slots__ = (
        "_inbox",
        "_journal_max",
        "_ledger",
        "_loop",
        "_recorded",
        "_services",
        "_stopped",
        "_turn_soon",
        "_unfinished",
        "_untold",
        "_when_told",
        "_workflow",
        "begun",
        "branches",
        "broken",
        "dispatch",
        "journal",
        "live",
        "performing",
        "reviving",
        "waits",
    )

    def __init__(
        self,
        services: Services,
        ledger: Ledger,
        workflow: Workflow[..., Any],
        signals: list[Signal],
        *,
        turn_soon: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        self._services = services
        self._ledger = ledger
        self._workflow = workflow
        self._turn_soon = turn_soon
        self._journal_max = services.settings.journal_max
        self._stopped = False
        self.journal = Journal(ledger.steps.values())
        self._loop = services.workflow_loop
        self.branches = Branches(self._loop, Calls(services, ledger, self))
        self.dispatch = Dispatch(services, ledger, workflow.recovery, settled=self._arrived, flush=flush)
        self.waits = Waits(services, ledger, signals, settled=self._arrived)
        self.live = False
        self.broken: Exception | None = None
        # Calls that the journal has a result for, and calls that it has without one.
        self._recorded: dict[str, Call] = {}
        # What the workflow called and has not begun to wait for.
        self.performing: dict[str, Coroutine[Any, Any, Any]] = {}
        # What began for the first time since the ledger was written, beside the steps that went straight to
        # their agents, which the ledger knows: nothing of it is sent yet.
        self.begun: list[str] = []
        self._unfinished: list[Call] = []
        self.reviving: list[Call] = []
        # What has come true, and the record of it; None: a step that is completed, and knows the rest.
        self._inbox: list[tuple[Call, StepRecord | None]] = []
        self._untold: frozenset[str] = frozenset()
        self._when_told: Callable[[], None] | None = None

    # How it stands

    @property
    def pending(self) -> bool:
        """Whether something is at hand that the next turns will deal with."""
        return bool(self._inbox or self._unfinished or self.reviving)

    @property
    def waiting(self) -> bool:
        """Whether the workflow waits for anything that can come true."""
        return self.dispatch.waiting or self.waits.waiting

    @property
    def quiet(self) -> bool:
        """Whether the workflow leaves nothing behind that would have to be stopped first."""
        left = self.waiting or self.waits.left or self.dispatch.ending or self._untold
        return self.live and self.broken is None and not left

    def handed_over(self) -> list[Call]:
        """Whatever began is on its way into the store; the calls whose way back to pending goes along."""
        self.begun.clear()
        calls, self.reviving = self.reviving, []
        return calls

    def dropped(self) -> list[str]:
        """Calls that nobody waits for and nobody can any more: the workflow has let go of them."""
        references = _references(self.performing)
        return [key for key in self._never_begun() if references[key] <= _HELD_HERE_ONLY]

    def never_awaited(self) -> list[str]:
        """Calls of which a workflow that has ended will never hear, and nothing was done."""
        never = self._never_begun()
        if begun := self.begun_lately():
            steps = self._ledger.steps
            never += sorted(key for key in begun if not steps[key].settled)
        return never

    def begun_lately(self) -> list[str]:
        """What began for the first time since the ledger was written: nothing of it is sent yet."""
        return [*self.begun, *self._ledger.begun()]

    def _never_begun(self) -> list[str]:
        return [key for key, call in self.performing.items() if getcoroutinestate(call) == CORO_CREATED]

    def close(self) -> None:
        """Nothing is performed any more; Python would warn of calls that never were."""
        for call in self.performing.values():
            call.close()
        self.performing.clear()
        # What leads back to the run: something that holds itself is freed late, and by a search.
        self._turn_soon = _nothing
        self._when_told = None

    def stop(self) -> None:
        """The end is decided: whatever the workflow still calls while it unwinds is not done."""
        self._stopped = True

    # From the workflow (scheduler.calls.Performer)

    def perform(self, call: Call, child: NewTask | None = None) -> Coroutine[Any, Any, Any]:
        """Do what the workflow called, or find it done in the journal; give back what came of it."""
        performing = self.performing[call.key] = self._perform(call, child)
        return performing

    async def _perform(self, call: Call, child: NewTask | None) -> Any:
        del self.performing[call.key]
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)  # type: ignore[arg-type]
        call.future = future
        self._begin(call, child)
        try:
            return await future
        except asyncio.CancelledError:
            self._withdrawn(call)
            raise

    def keep_value(self, record: StepRecord) -> None:
        if self._stopped or self.broken is not None:
            return
        try:
            self._check_room()
        except InvalidRequest as error:
            self.broken = error
            return
        self._ledger.put(record)

    def _begin(self, call: Call, child: NewTask | None) -> None:
        if self._stopped or self.broken is not None:
            return
        if self.live and call.key not in self.journal.entries and self._ledger.size < self._journal_max:
            if child is None and type(call) is StepCall:
                self.dispatch.begin_new(call)
            else:
                self._begin_new(call, child)
            return
        try:
            entry = self.journal.claim(call.key, operation=call.operation, input=call.input)
            if entry is None:
                self._check_new(call)
        except (JournalMismatch, InvalidRequest) as error:
            # Not raised into the workflow: its own code might catch it and go on.
            self.broken = error
            return
        if entry is None:
            self._begin_new(call, child)
        else:
            self._begin_again(call, entry)

    def _check_new(self, call: Call) -> None:
        if not self.live and self.journal.next_delivery() is not None:
            raise JournalMismatch(call.key, "the workflow calls it now, but did not call it the first time")
        self._check_room()

    def _check_room(self) -> None:
        if self._ledger.size >= self._journal_max:
            raise InvalidRequest(
                f"the task recorded {self._journal_max:,} steps, which is the limit (setting journal_max):"
                " divide the work among children"
            )

    def _begin_new(self, call: Call, child: NewTask | None) -> None:
        if isinstance(call, StepCall):
            self.dispatch.begin_new(call)
            return
        self.begun.append(call.key)
        self._ledger.put(call.first_record(self._ledger.task.key))
        if child is not None:
            self._ledger.start_child(child)
        self.waits.begin(call)

    def _begin_again(self, call: Call, entry: StepRecord) -> None:
        """The journal knows this call."""
        planned = entry.input is None
        if entry.settled and not planned:
            self._recorded[call.key] = call
            return
        record = call.first_record(self._ledger.task.key)
        if entry.settled:  # completed by hand before it was called
            self._arrived(
                call,
                replace(
                    record,
                    state=entry.state,
                    output=entry.output,
                    ended_at=entry.ended_at,
                    position=self._ledger.next_position(),
                ),
            )
        else:
            if planned:
                self._ledger.put(replace(record, attempt=entry.attempt))
            self._unfinished.append(call)
            self._turn_soon()

    def _withdrawn(self, call: Call) -> None:
        if call.key in self.begun:
            self.begun.remove(call.key)
        if self._stopped:
            return
        if isinstance(call, StepCall):
            self.dispatch.withdraw(call)
        else:
            self.waits.withdraw(call)

    # To the workflow

    def deliver(self, main: asyncio.Task[Any]) -> None:
        """Give the workflow what there is, one result at a time. Raises JournalMismatch, WorkflowSpins."""
        branches = self.branches
        self._loop.turn_of = branches
        if branches.ready:
            self._loop.drain(branches)
        while not main.done() and self.broken is None:
            if not self.live:
                self._replay_next()
            elif self._unfinished:
                self._resume_unfinished()
            elif self._inbox:
                self._deliver(*self._inbox.pop(0))
            else:
                return
            if branches.ready:
                self._loop.drain(branches)

    def _replay_next(self) -> None:
        entry = self.journal.next_delivery()
        if entry is None:
            self._go_live()
        else:
            self._redeliver(entry)

    def _arrived(self, call: Call, record: StepRecord | None) -> None:
        """Something that the workflow waits for has come true."""
        self._inbox.append((call, record))
        self._turn_soon()

    def _redeliver(self, entry: StepRecord) -> None:
        call = self._recorded.pop(entry.key, None)
        if call is None:
            raise JournalMismatch(
                entry.key, "the journal has its result, but the workflow did not call it here"
            )
        self.journal.delivered()
        self._resolve(call, entry)

    def _deliver(self, call: Call, record: StepRecord | None) -> None:
        if record is None:
            # Recorded even if the workflow has just stopped waiting: it is a fact.
            assert isinstance(call, StepCall)
            self._ledger.complete(call)
            future = call.future
            if not future.done():
                codec = call.step.returns
                try:
                    future.set_result(codec.raw_decode(call.output))
                except DECODE_ERRORS as error:
                    raise _no_longer_fits(call, codec, error) from error
            call.let_go()
            return
        if isinstance(call, Wait):
            if call.future.done():
                self.waits.give_back(call)
                return
            self._woken(call)
        self._ledger.put(record)
        self._resolve(call, record)

    def keep_arrived(self) -> None:
        """The end is decided: record what steps came to of which the workflow is not told any more."""
        arrived, self._inbox = self._inbox, []
        for call, record in arrived:
            if not isinstance(call, StepCall):
                continue
            if record is None:
                self._ledger.complete(call)
            else:
                self._ledger.put(record)

    def _woken(self, wait: Wait) -> None:
        if wait.signal is not None:
            self._ledger.consume(wait.signal.number, wait.key)
        # A wake-up like that of a parked task: a workflow that polls for hours has not overrun.
        complete_by = self._services.clock.now() + self._services.time_for_run(self._workflow)
        self._ledger.put_task(replace(self._ledger.task, complete_by=complete_by))

    def _resolve(self, call: Call, record: StepRecord) -> None:
        if call.future.done():
            return
        if record.state is _COMPLETED:
            try:
                call.future.set_result(call.codec.raw_decode(record.output or b"null"))
            except DECODE_ERRORS as error:
                raise _no_longer_fits(call, call.codec, error) from error
        else:
            call.future.set_exception(call.failure(record))

    # From replay to live

    def _go_live(self) -> None:
        """Everything recorded has been delivered; from here on things really happen."""
        self.journal.check_all_called()
        self.live = True
        self._resume_unfinished()

    def _resume_unfinished(self) -> None:
        calls, self._unfinished = self._unfinished, []
        for call in calls:
            if not call.future.done():
                self._resume(call)
            elif isinstance(call, Wait):
                self.stop_children(self.waits.left_before(call))
        if any(isinstance(call, Wait) and call.kind is StepKind.CHILD for call in calls):
            self._services.desk.look_again(self._ledger.task.key)

    def _resume(self, call: Call) -> None:
        """Go on with something that an earlier run began and did not finish."""
        entry = self._ledger.steps[call.key]
        unrepeatable = isinstance(call, StepCall) and self.dispatch.unrepeatable(call)
        if entry.state is _FAILED and not unrepeatable:
            # An earlier run withdrew it, this one wants it: back to pending first, one arrow at a time.
            self._ledger.put(replace(entry, state=_PENDING, complete_by=None, error=None))
            self.reviving.append(call)
        elif isinstance(call, StepCall):
            self.dispatch.resume(call)
        else:
            self.waits.resume(call)

    def revive(self, calls: list[Call]) -> None:
        """They are pending again, durably."""
        self._unfinished += calls
        if calls:
            self._turn_soon()

    # Children

    def stop_children(self, left: list[LeftChild]) -> None:
        """Have children stopped."""
        for child in left:
            self._untold |= {child.id}
            self._services.desk.move_child(child.id, undo=child.undo, then=lambda task: self._told(task.id))

    def when_children_told(self, then: Callable[[], None]) -> None:
        """Call back once every child that was to be stopped has been told, durably."""
        self._when_told = then
        if not self._untold:
            then()

    def _told(self, child_id: str) -> None:
        self._untold -= {child_id}
        if not self._untold and self._when_told is not None:
            self._when_told()
