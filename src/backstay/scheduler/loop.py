"""Claims tasks, starts their runs, and tells them what happened elsewhere."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from backstay.clock import Alarm, Alarms, Clock
from backstay.definitions.registry import Registry
from backstay.domain.lease import Owner
from backstay.domain.operate import stop_child
from backstay.domain.request import TRACEPARENT
from backstay.domain.states import TaskState
from backstay.domain.step import Failure
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, LeaseLost, Unavailable, UnknownTask
from backstay.messaging.wire import AgentLink
from backstay.observe import STORE_UNAVAILABLE, claim_seconds, emit, log
from backstay.pulse import Pulse
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.mailbox import Mailbox
from backstay.scheduler.run import Run
from backstay.scheduler.services import OpenWaits, Services, StepTimes, time_for_run
from backstay.scheduler.unanswered import Unanswered
from backstay.scheduler.undoing import UndoRun
from backstay.scheduler.workflow_loop import WorkflowLoop
from backstay.settings import Settings
from backstay.store.base import Changes, Claimed, Posted, Runnable, Settle, Store, Transition
from backstay.tracing import configured

# A claim reads journals along; more at once would hold up the commits of others.
CLAIM_MAX: Final = 500

# How often we look although nobody called: another process may have made work for us.
LOOK_EVERY: Final = timedelta(seconds=1)
LOOK_SOON: Final = timedelta(milliseconds=250)

# So many turns are taken before the store is given what they wrote: it works on that meanwhile.
TURNS_MAX: Final = 64

# So many tasks are moved at the same time. More would make none of them faster: what they need would only
# be gone from the processor's caches when their turn comes again.
BUSY_MAX: Final = 400

# So many of them must rest before others are claimed in their place: a claim for each would cost more.
HANDS_WORTH_A_CLAIM: Final = 32

# How often a child is asked for that is not there yet.
NOT_THERE_MAX: Final = 40

AnyRun = Run | UndoRun


class Scheduler:
    """One scheduler of one instance. Everything here happens on one event loop.

    ``agents`` are those of this process; ``None``: its steps are done by agents in others.
    """

    def __init__(
        self,
        store: Store,
        owner: Owner,
        registry: Registry,
        agents: AgentLink | None,
        *,
        settings: Settings,
        clock: Clock,
        alarms: Alarms,
        random: Random,
    ) -> None:
        self._store = store
        self._owner = owner
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._runs: dict[int, AnyRun] = {}
        self._claimable = runnables(registry, settings)
        self._wake = asyncio.Event()
        self._ready: deque[Callable[[], Any]] = deque()
        # What turns wrote and the store does not have yet.
        self._written: list[Posted] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._alarms = alarms
        self._look_due: Alarm | None = None
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._workflow_loop = WorkflowLoop()
        self._draining = False
        # A claim that waits for something to claim.
        self._claiming: asyncio.Task[int] | None = None
        # How many of ours must come to rest before more are claimed, where too many are moving.
        self._hands_awaited = 0
        self.pulse = Pulse(clock)
        self.unanswered = Unanswered(clock)
        self.mail = Mailbox(store, owner, settings=settings, clock=clock, alarms=alarms, soon=self._soon)
        # Without agents in this process, those in others are asked.
        self.sends = agents is None
        self._services = Services(
            owner=owner,
            registry=registry,
            agents=agents or self.mail,
            mail=self.mail,
            clock=clock,
            alarms=alarms,
            random=random,
            settings=settings,
            apply=self._apply,
            soon=self._soon,
            desk=self,
            workflow_loop=self._workflow_loop,
            micros_for=StepTimes(settings),
            waits=OpenWaits(),
            tracing=configured(),
        )

    @property
    def in_flight(self) -> int:
        return len(self._runs)

    @property
    def in_motion(self) -> bool:
        """Whether a turn is to be taken, something is to be written, or an errand is run."""
        return bool(self._ready or self._written or self._errands or self.unanswered)

    def drain(self) -> None:
        """Claim nothing any more; what is in hand goes on as far as its agents take it."""
        self._draining = True
        self.mail.close()
        if self._claiming is not None:
            # What it may have got in this very moment is freed when the instance retires.
            self._claiming.cancel()

    def _apply(self, transition: Transition, settle: Settle) -> None:
        """Hand a transition to the store; what a turn writes, once the store can have the event loop."""
        settle = self.unanswered.counted(settle)
        if self._workflow_loop.runs_here:
            self._written.append((transition, settle))
        else:
            self._store.apply(transition, settle)

    def _tick(self) -> None:
        """What stands in line must not count as overdue. As rare as it is cheap."""
        for run in list(self._runs.values()):
            run.stay()
        self._alarms.after(LOOK_EVERY.total_seconds(), self._tick)

    async def run(self) -> None:
        """Claim and look, until cancelled. Raises LeaseLost when this instance was declared dead."""
        stop_listening = self._store.listen(self._changed)
        self._services.agents.when_resting(self._one_more_rests)
        self._tick()
        try:
            while True:
                self._wake.clear()
                self.pulse.felt()
                try:
                    if self._store.claims_wait and self._room() > 0:
                        await self._wait_for_tasks()
                    elif not await self.run_once():
                        await self._called(LOOK_EVERY)
                except Unavailable as error:
                    emit(STORE_UNAVAILABLE, error=error)
                    await self._called(LOOK_EVERY)
        finally:
            stop_listening()
            await self._let_go()

    async def _wait_for_tasks(self) -> None:
        """Have the store answer when there is something to claim, and look around when there was nothing."""
        self._claiming = claiming = asyncio.create_task(self.run_once(LOOK_EVERY))
        try:
            await asyncio.wait([claiming])
        finally:
            self._claiming = None
            claiming.cancel()  # We may have been cancelled ourselves.
        if not claiming.cancelled() and not claiming.result():
            self._look_at(list(self._runs))

    async def run_once(self, patience: timedelta = timedelta(0)) -> int:
        """One claim of as much as there is room for; the number of tasks started."""
        room = self._room()
        if room <= 0:
            return 0
        claimed = await self._store.claim(
            self._owner, self._claimable, limit=room, now=self._clock.now(), patience=patience
        )
        # Whose turn it is to be asked first goes round, so that no workflow starves another.
        self._claimable = [*self._claimable[1:], self._claimable[0]]
        if claimed:
            _count_waits(claimed, self._clock.now())
        for one in claimed:
            self._soon(lambda one=one: self._start(one))  # type: ignore[misc]
        return len(claimed)

    def _room(self) -> int:
        """How many tasks may be claimed now."""
        if self._draining or not self._claimable:
            return 0
        return min(CLAIM_MAX, self._settings.in_flight - len(self._runs), self._idle_hands())

    def _idle_hands(self) -> int:
        """How many more tasks can be moved at the same time, however many only wait."""
        services = self._services
        busy = len(self._runs) - services.agents.resting - services.waits.open
        self._hands_awaited = HANDS_WORTH_A_CLAIM if busy >= BUSY_MAX else 0
        return BUSY_MAX - max(0, busy)

    def _one_more_rests(self) -> None:
        if self._hands_awaited:
            self._hands_awaited -= 1
            if not self._hands_awaited:
                self._wake.set()

    async def _called(self, within: timedelta) -> None:
        try:
            async with asyncio.timeout(within.total_seconds()):
                await self._wake.wait()
        except TimeoutError:
            self._look_at(list(self._runs))

    async def _let_go(self) -> None:
        # From a plain callback: a workflow's tasks cannot run inside another asyncio task.
        gone = self._loop.create_future()
        self._soon(lambda: self._abandon_all(gone))
        await gone
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)

    def _abandon_all(self, gone: asyncio.Future[None]) -> None:
        try:
            for run in list(self._runs.values()):
                run.abandon()
        finally:
            if not gone.done():  # Whoever waited may have been cancelled meanwhile.
                gone.set_result(None)

    # Runs

    def _start(self, claimed: Claimed) -> None:
        before = self._runs.get(claimed.task.key)
        if before is not None:
            # It was taken away from us and is ours again; the run under the old lock has not heard of it.
            before.stands(claimed.task, claimed.signals)
            before.abandon()
        ledger = Ledger(claimed.task, claimed.steps, claimed.requests)
        workflow = self._registry.workflows[claimed.task.workflow, claimed.task.version]
        if claimed.task.state is TaskState.UNDOING:
            self._undo(ledger, None)
            return
        self._begin_span("run", ledger)
        run = Run(self._services, workflow, ledger, claimed.signals, undo=self._undo)
        self._runs[claimed.task.key] = run
        run.start()

    def _undo(self, ledger: Ledger, error: Failure | None) -> None:
        workflow = self._registry.workflows[ledger.task.workflow, ledger.task.version]
        self._begin_span("undo", ledger)
        run = UndoRun(self._services, workflow, ledger, error=error)
        self._runs[ledger.task.key] = run
        run.start()

    def _begin_span(self, what: str, ledger: Ledger) -> None:
        tracing, task = self._services.tracing, ledger.task
        if tracing is not None:
            ledger.end_span()  # Of the way there, where the way back follows at once.
            ledger.span = tracing.begin(
                f"{what} {task.workflow}",
                "CONSUMER",
                parent=task.attributes.get(TRACEPARENT),
                task_id=task.id,
                lock_number=task.lock_number,
            )

    def closed(self, task_key: int) -> None:
        """A run is over, or is no longer ours."""
        self._runs.pop(task_key, None)
        self._wake.set()

    def _soon(self, callback: Callable[[], Any]) -> None:
        """Call back from the event loop; of all that gathers, many are called in one go."""
        if not self._ready:
            self._work_off_soon()
        self._ready.append(callback)

    def _work_off_soon(self) -> None:
        # Also called from inside workflows, whose context must not travel on.
        self._loop.call_soon(self._work_off, context=self._context)

    def _work_off(self) -> None:
        ready = self._ready
        try:
            with self._workflow_loop.running():
                for _ in range(min(len(ready), TURNS_MAX)):
                    try:
                        # Left in the line until it is done: who comes meanwhile finds that the line is
                        # being worked off.
                        ready[0]()
                    except Exception:  # noqa: BLE001  One task's trouble must not become its neighbours'.
                        log.exception("a run failed unexpectedly; its task will be recovered")
                    finally:
                        ready.popleft()
        finally:
            self._hand_over()
            if ready:
                self._work_off_soon()

    def _hand_over(self) -> None:
        """Give the store what the last turns wrote."""
        written, self._written = self._written, []
        for transition, settle in written:
            try:
                self._store.apply(transition, settle)
            except BackstayError:
                log.exception("what a run wrote was not taken; its task will be recovered")

    # What happens elsewhere

    def _changed(self, changes: Changes) -> None:
        if changes.claimable or changes.foreign:
            self._wake.set()
        if changes.foreign and self._look_due is None:
            # Not at every write of every other process: what they want can wait a moment.
            self._look_due = self._alarms.after(LOOK_SOON.total_seconds(), self._look_at_all)
        elif changes.touched:
            self._look_at([key for key in changes.touched if key in self._runs])

    def _look_at_all(self) -> None:
        self._look_due = None
        self._look_at(list(self._runs))

    def look_again(self, task_key: int) -> None:
        """Read how a task and its children stand, and tell its run."""
        self._look_at([task_key])

    def _look_at(self, keys: list[int]) -> None:
        if keys:
            self._run_errand(self._look(keys))

    async def _look(self, keys: list[int]) -> None:
        for standing in await self._store.standing(keys):
            run = self._runs.get(standing.task.key)
            # What was read before the task was claimed again says nothing about the run that it has now.
            if run is None or standing.task.lock_number < run.task.lock_number:
                continue
            self._soon(lambda run=run, now=standing: run.stands(now.task, now.signals))  # type: ignore[misc]
            if isinstance(run, Run):
                await self._look_at_children(run)

    async def _look_at_children(self, run: Run) -> None:
        for wait in run.children():
            child = await self._store.task(wait.child_id)
            self._soon(lambda wait=wait, child=child: run.child_stands(wait, child))  # type: ignore[misc]

    def move_child(
        self, child_id: str, *, undo: bool, then: Callable[[TaskRecord], None] | None = None
    ) -> None:
        """Have a child cancelled, or undone; ``then`` hears how it stands after that."""
        self._run_errand(self._move_child(child_id, undo=undo, then=then))

    async def _move_child(
        self, child_id: str, *, undo: bool, then: Callable[[TaskRecord], None] | None
    ) -> None:
        child = await self._moved(child_id, undo=undo)
        if then is not None:
            self._soon(lambda: then(child))

    async def _moved(self, child_id: str, *, undo: bool) -> TaskRecord:
        """The child, once it has been told; a store that is away is asked until it is back."""
        not_there = 0
        while True:
            try:
                return await self._store.amend(
                    child_id, lambda task, steps: stop_child(task, steps, undo=undo), now=self._clock.now()
                )
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            except UnknownTask:
                # The commit that makes it may still be under way; or it was refused, and nobody waits.
                not_there += 1
                if not_there == NOT_THERE_MAX:
                    raise
            except BackstayError:  # It is past being stopped; how it stands is what counts.
                return await self._store.task(child_id)
            await asyncio.sleep(LOOK_SOON.total_seconds())

    def _run_errand(self, errand: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(self._run_to_end(errand), context=self._context.copy())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _run_to_end(self, errand: Coroutine[Any, Any, None]) -> None:
        try:
            await errand
        except LeaseLost:
            raise
        except BackstayError as error:
            # Whoever waits for the answer is looked at again with the next round.
            emit(STORE_UNAVAILABLE, error=error)


def runnables(registry: Registry, settings: Settings) -> list[Runnable]:
    """The workflows whose tasks an instance with this registry may claim."""
    return [
        Runnable(one.name, one.version, time_for_run(one, settings)) for one in registry.workflows.values()
    ]


def _count_waits(claimed: Sequence[Claimed], now: datetime) -> None:
    """How long tasks waited that are claimed for the first time."""
    for one in claimed:
        if one.task.lock_number == 1:
            claim_seconds.add(max(0.0, (now - one.task.created_at).total_seconds()))
