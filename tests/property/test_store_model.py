"""Whatever is done to a store, in whatever order, it does what the model says, on every database alike."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from backstay.domain import operate
from backstay.domain.audit import Act
from backstay.domain.control import Control, Subject
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind, StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, IdConflict, LeaseLost
from backstay.store.base import Amend, Claimed, InstanceRecord, Runnable, TaskFilter, Transition
from backstay.store.supervision import Freed
from backstay.testing import ManualClock
from backstay.testing.promises.holder import (
    FOR_LONG,
    LEASE,
    MANY,
    NO_GRACE,
    RUN_TIME,
    SHIP,
    Holder,
    applied,
)
from backstay.testing.records import a_step, a_wait, held, let_go, new_task
from tests.property.model import Entry, Model, Task
from tests.property.twins import Side, Snapshot, Stage

# Other stories each time, and many more of them.
FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"

STEP_TIME = timedelta(seconds=30)
LATER = timedelta(seconds=20)
# What a supervisor does, and how much time it takes to have something to do.
EDGES = {"bury": LEASE, "expire runs": RUN_TIME, "expire steps": STEP_TIME, "wake": LATER}
BILL = Runnable("bill", 1, RUN_TIME)

# A few of each, so that what happens meets what happened before.
NAMES = ("t1", "t2", "t3")
STEPS = ("a:1", "b:1")
CHILD = "child:1"
SIGNALS = ("go", "stop")
INPUTS = (b"1", b'"too long for a row"')
# More than once what is worth more.
LEFT_IN = (*TaskState, TaskState.WAITING, TaskState.WAITING, TaskState.ERROR)
WRITTEN = (*StepState, StepState.RUNNING, StepState.RUNNING, StepState.COMPLETED)
LISTED = (
    (),
    *((state,) for state in TaskState),
    (TaskState.PENDING,),
    (TaskState.PROCESSED, TaskState.UNDOING),
)
MOVES = ("cancel", "undo", "resubmit", "begin anew", "complete")

names = st.sampled_from(NAMES)
steps = st.sampled_from(STEPS)
signals = st.sampled_from(SIGNALS)
inputs = st.sampled_from(INPUTS)
workflows = st.sampled_from(["ship", "ship", "bill"])
runs = st.sampled_from([(SHIP, BILL), (BILL, SHIP), (SHIP,)])


class Hand(NamedTuple):
    """A task as somebody once claimed it; it may long be another's."""

    holder: str
    task: str
    lock: int


class StoreMachine(RuleBasedStateMachine):
    """A few broad rules rather than many narrow ones: of those, too few would come together in one run."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.twins = stage.twins()
        self.clock = ManualClock()
        self.model = Model()
        self.hands: list[Hand] = []
        self.joined: list[str] = []

    def teardown(self) -> None:
        self.stage.run(self.twins.close())

    @initialize()
    def begin(self) -> None:
        self.do(self.lead)
        self.join()
        self.join()
        for name in NAMES[:2]:
            self.submit(name, INPUTS[0], "ship")

    async def lead(self, side: Side) -> Leader:
        side.leader = await side.store.supervision.lead("test", lease=FOR_LONG, now=self.clock.now())
        return side.leader

    # The way in, and the scheduler

    @rule(name=names, input=inputs, workflow=workflows)
    def submit(self, name: str, input: bytes, workflow: str) -> None:
        new = new_task(name, input=input, workflow=workflow, attributes={"for": name})

        [answer] = self.do(lambda side: side.store.submit([new], now=self.clock.now()))

        assert isinstance(answer, IdConflict) is not self.model.submit(name, input, workflow)

    @rule(data=st.data(), runs=runs, limit=st.integers(1, 3))
    def claim(self, data: st.DataObject, runs: Sequence[Runnable], limit: int) -> None:
        self.claim_for(self.somebody(data), runs, limit)

    def claim_for(self, name: str, runs: Sequence[Runnable], limit: int) -> None:
        workflows = [run.workflow for run in runs]
        expected = self.model.claim(name, workflows, limit, self.clock.now() + RUN_TIME)

        async def claim(side: Side) -> list[Claimed]:
            claimed = await side.holders[name].claim(limit=limit, runs=runs)
            side.claimed.update({(one.task.id, one.task.lock_number): one.task for one in claimed})
            return sorted(claimed, key=lambda one: one.task.id)  # several workflows have no order together

        claimed = self.do(claim)
        if isinstance(claimed, LeaseLost):
            assert expected is None
            return
        assert expected is not None
        assert [one.task.id for one in claimed] == sorted(expected)
        self.hands += [Hand(name, one.task.id, one.task.lock_number) for one in claimed]

    @rule(data=st.data(), key=st.sampled_from([*STEPS, CHILD]), state=st.sampled_from(WRITTEN))
    def write_step(self, data: st.DataObject, key: str, state: StepState) -> None:
        self.write(self.some_hand(data), key, state)

    def write(self, hand: Hand, key: str, state: StepState) -> None:
        what: dict[str, Any] = {"kind": StepKind.CHILD, "agent": None} if key == CHILD else {}
        if state is StepState.RUNNING:
            what["complete_by"] = self.clock.now() + STEP_TIME
        step = a_step(state, key=key, **what)
        entry = Entry(state, kind=step.kind, complete_by=step.complete_by, ended=step.ended_at is not None)
        self.turn(hand, self.model.write, key, entry, steps=[step])

    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        hand = self.some_hand(data)
        if not self.holds(hand):
            return
        if all(consumed for _, _, consumed in self.model.tasks[hand.task].signals):
            self.tell(hand.task, "go", INPUTS[0], None)
        consumed = [(self.model.consume(hand.task), "wait-go:1")]
        assert self.do(self.writing(hand, consumed=consumed)) is None

    @rule(data=st.data(), input=inputs, park=st.booleans())
    def start_child(self, data: st.DataObject, input: bytes, park: bool) -> None:
        hand = self.some_hand(data)
        wait = a_wait(StepKind.CHILD, CHILD)
        wake_at = self.clock.now() + LATER if data.draw(st.booleans()) else None
        name = f"{hand.task}.child"

        def write(side: Side) -> Awaitable[object]:
            task = side.claimed[hand.task, hand.lock]
            child = new_task(name, input=input, parent_key=task.key, parent_step=CHILD)
            left = let_go(task, TaskState.WAITING, wake_at=wake_at) if park else None
            return side.holders[hand.holder].write(task, steps=[wait], children=[child], task=left)

        start = partial(self.model.start_child, hand.task, CHILD, name, input, park=park, wake_at=wake_at)
        expected = self.holds(hand) and start()
        assert (self.do(write) is None) is expected

    @rule(data=st.data(), state=st.sampled_from(LEFT_IN), awaited=st.sampled_from([None, *SIGNALS]))
    def leave(self, data: st.DataObject, state: TaskState, awaited: str | None) -> None:
        hand = self.some_hand(data)
        if data.draw(st.integers(0, 3)) == 3:  # Somebody wants something else of it just before.
            self.move(hand.task, data.draw(st.sampled_from(["cancel", "undo"])))
        if state is TaskState.PROCESSING:  # Then turn back instead, and keep it.
            self.turn(hand, self.model.turn_back, task=partial(held, state=TaskState.UNDOING))
            return
        parked = state is TaskState.WAITING or (state is TaskState.UNDOING and data.draw(st.booleans()))
        self.let_go(hand, state, parked=parked, later=parked and data.draw(st.booleans()), awaited=awaited)
        if data.draw(st.integers(0, 3)) == 3:
            self.move(hand.task, "begin anew")

    def let_go(
        self, hand: Hand, state: TaskState, *, parked: bool, later: bool, awaited: str | None = None
    ) -> None:
        wake_at = self.clock.now() + LATER if later else None
        self.turn(
            hand,
            partial(self.model.leave, parked=parked, wake_at=wake_at, awaited=awaited),
            state,
            steps=[] if awaited is None else [waiting_for(awaited)],
            task=partial(let_go, state=state, parked=parked, wake_at=wake_at),
        )

    @rule()
    def finish_together(self) -> None:
        latest = list({hand.task: hand for hand in self.hands}.values())
        finish = partial(self.model.leave, parked=False, wake_at=None)
        expected = [self.holds(hand) and finish(hand.task, TaskState.PROCESSED) for hand in latest]

        def turn(side: Side, hand: Hand) -> Transition:
            task = side.claimed[hand.task, hand.lock]
            return side.holders[hand.holder].turn(task, task=let_go(task, TaskState.PROCESSED))

        answers = self.do(lambda side: applied(side.store, *(turn(side, hand) for hand in latest)))

        assert [answer is None for answer in answers] == expected

    # Instances and the supervisor

    @rule(data=st.data(), how=st.sampled_from(["join", "beat", "retire"]))
    def live(self, data: st.DataObject, how: str) -> None:
        name, now = self.somebody(data), self.clock.now()
        match how:
            case "join":
                self.join()
            case "retire":
                freed = self.do(lambda side: side.store.retire(side.holders[name].owner, now=now))
                assert freed == len(self.model.end(name, crashes=0))
            case _:
                alive = name in self.model.heartbeats
                if alive:
                    self.model.heartbeats[name] = now
                assert self.accepts(lambda side: side.store.beat(side.holders[name].owner, now=now)) is alive

    @rule(
        data=st.data(),
        how=st.sampled_from(list(EDGES)),
        beyond=st.sampled_from([timedelta(seconds=1), timedelta(0), None, timedelta(minutes=11)]),
    )
    def supervise(self, data: st.DataObject, how: str, beyond: timedelta | None) -> None:
        if data.draw(st.integers(0, 3)) > 0:
            self.bring_something_to_supervise(self.some_hand(data), how)
        if beyond is not None:
            self.clock.pass_time(EDGES[how] + beyond)
        now, do, model = self.clock.now(), self.do, self.model
        match how:
            case "bury":
                spare = data.draw(st.sampled_from([None, self.joined[-1]]))
                buried = do(partial(self.bury, now=now, spare=spare))
                assert buried == model.bury(LEASE, now, spare)
            case "expire runs":
                assert do(partial(self.expire_runs, now=now)) == model.expire_runs(now)
            case "expire steps":
                assert do(partial(self.expire_steps, now=now)) == model.expire_steps(now)
            case _:
                assert do(partial(self.wake, now=now)) == model.wake(now)

    async def bury(self, side: Side, *, now: datetime, spare: str | None) -> Freed:
        owner = side.owner(spare)
        return await side.store.supervision.bury(side.leader, lease=LEASE, now=now, spare=owner)

    async def expire_runs(self, side: Side, *, now: datetime) -> Freed:
        return await side.store.supervision.expire_runs(side.leader, grace=NO_GRACE, now=now, limit=MANY)

    async def expire_steps(self, side: Side, *, now: datetime) -> int:
        return await side.store.supervision.expire_steps(side.leader, grace=NO_GRACE, now=now, limit=MANY)

    async def wake(self, side: Side, *, now: datetime) -> int:
        return await side.store.supervision.wake(side.leader, now=now, limit=MANY)

    def bring_something_to_supervise(self, hand: Hand, how: str) -> None:
        match how:
            case "expire steps":
                self.write(hand, STEPS[0], StepState.RUNNING)
            case "wake":
                self.let_go(hand, TaskState.WAITING, parked=True, later=True)
            case _:
                return  # Who holds a task is enough.

    # The operator

    @rule(data=st.data(), signal=signals, payload=inputs, dedup=st.sampled_from([None, "once"]))
    def signal(self, data: st.DataObject, signal: str, payload: bytes, dedup: str | None) -> None:
        self.tell(self.some_task(data), signal, payload, dedup)

    def tell(self, name: str, signal: str, payload: bytes, dedup: str | None) -> None:
        now = self.clock.now()
        sent = self.accepts(lambda side: side.store.signal(name, signal, payload, dedup=dedup, now=now))
        assert sent is self.model.signal(name, signal, dedup)

    @rule(data=st.data(), key=steps, how=st.sampled_from(MOVES))
    def operate(self, data: st.DataObject, key: str, how: str) -> None:
        self.move(self.some_task(data), how, key)

    def move(self, name: str, how: str, key: str = STEPS[0]) -> None:
        model, now = self.model, self.clock.now()
        moves: dict[str, tuple[Amend, Callable[[str], bool]]] = {
            "cancel": (partial(operate.cancel, undo=False), model.cancel),
            "undo": (operate.request_undo, model.undo),
            "resubmit": (partial(operate.resubmit, from_="failed"), partial(model.resubmit, anew=False)),
            "begin anew": (partial(operate.resubmit, from_="start"), partial(model.resubmit, anew=True)),
            "complete": (
                partial(operate.complete_step, key=key, output=b"1", now=now),
                partial(model.complete, key=key),
            ),
        }
        move, expect = moves[how]
        assert self.accepts(lambda side: side.store.amend(name, move, now=now)) is expect(name)

    @rule(name=st.sampled_from(["ship", "bill"]))
    def pause_or_resume(self, name: str) -> None:
        self.model.pause_or_resume(name)
        self.do(partial(self.regulate, name=name, paused=name in self.model.paused))

    async def regulate(self, side: Side, *, name: str, paused: bool) -> Control:
        now = self.clock.now()
        control = Control(subject=Subject.WORKFLOW, name=name, paused=paused, by="ann", at=now)
        act = Act(who="ann", action="pause or resume", target=f"workflow:{name}")
        return await side.store.records.regulate(Subject.WORKFLOW, name, lambda _known: control, act, now=now)

    # Looking

    @rule(
        data=st.data(),
        states=st.sampled_from(LISTED),
        workflow=st.sampled_from([None, None, "ship", "bill"]),
        limit=st.integers(1, 4),
    )
    def look(
        self, data: st.DataObject, states: tuple[TaskState, ...], workflow: str | None, limit: int
    ) -> None:
        attribute = data.draw(st.sampled_from([None, None, ("for", NAMES[0])]))
        wanted = TaskFilter(states=states, workflow=workflow, attribute=attribute, limit=limit)

        listed = self.do(lambda side: side.store.tasks(wanted))

        assert [task.id for task in listed] == [
            name
            for name, task in reversed(self.model.tasks.items())
            if (not states or task.state in states)
            and workflow in (None, task.workflow)
            and (attribute is None or name == NAMES[0])
        ][:limit]

    @rule(data=st.data())
    def look_closely(self, data: st.DataObject) -> None:
        name = self.some_task(data)

        task = self.do(lambda side: side.store.task(name))
        journal = self.do(lambda side: side.store.steps(name))
        [standing] = self.do(lambda side: side.store.standing([side.key_of(name)]))
        instances = self.do(self.instances)

        told = [signal.name for signal in standing.signals]
        assert _task_as_seen(task, journal, told) == _as_seen(self.model.tasks[name])
        assert {one.id for one in instances if one.live} == set(self.model.heartbeats)

    async def instances(self, side: Side) -> list[InstanceRecord]:
        return sorted(await side.store.instances(), key=lambda one: one.id)  # some joined at the same instant

    # The comparison

    @invariant()
    def both_stores_are_what_the_model_is(self) -> None:
        seen = self.twins.seen
        assert _snapshot_as_seen(seen) == {name: _as_seen(task) for name, task in self.model.tasks.items()}
        alive = {name: one.heartbeat_at for name, one in seen.instances.items() if one.live}
        assert alive == self.model.heartbeats
        assert {one.name for one in seen.controls} == self.model.paused
        recovered: Counter[tuple[str, str | None]] = Counter()
        for one in seen.recoveries:
            recovered[one.workflow, one.agent] += one.number
        assert recovered == self.model.recoveries

    # Underneath

    def do(self, deed: Callable[[Side], Awaitable[Any]]) -> Any:
        """What both stores answer; an error of theirs is an answer."""
        return self.stage.run(self.twins.do(deed))

    def accepts(self, deed: Callable[[Side], Awaitable[Any]]) -> bool:
        return not isinstance(self.do(deed), BackstayError)

    def join(self) -> None:
        name = f"instance-{len(self.joined)}"

        async def join(side: Side) -> None:
            side.holders[name] = await Holder.joined(side.store, self.clock, name)

        self.do(join)
        self.joined.append(name)
        self.model.heartbeats[name] = self.clock.now()

    def somebody(self, data: st.DataObject) -> str:
        """The newest are the likeliest to live."""
        return data.draw(st.sampled_from(self.joined[::-1]))

    def some_task(self, data: st.DataObject) -> str:
        """One of the last few: those are the ones that something happens to."""
        return data.draw(st.sampled_from(list(self.model.tasks)[-len(NAMES) :]))

    def some_hand(self, data: st.DataObject) -> Hand:
        """Mostly one that still holds; now and then one that lost its task."""
        if not self.current_hands():
            self.bring_something_to_do()
        stale = data.draw(st.integers(0, 5)) == 5
        return data.draw(st.sampled_from(self.hands[::-1] if stale else self.current_hands()))

    def current_hands(self) -> list[Hand]:
        return [hand for hand in self.hands if self.holds(hand)]

    def bring_something_to_do(self) -> None:
        """However everything ended: a new instance claims what there is, or something new."""
        for name in sorted(self.model.paused):
            self.pause_or_resume(name)
        self.join()
        self.claim_for(self.joined[-1], (SHIP, BILL), 1)
        if not self.current_hands():
            self.submit(f"more-{len(self.model.tasks)}", INPUTS[0], "ship")
            self.claim_for(self.joined[-1], (SHIP, BILL), 1)

    def holds(self, hand: Hand) -> bool:
        return self.model.holds(hand.holder, hand.task, hand.lock)

    def turn(self, hand: Hand, expect: Any, *arguments: Any, **changed: Any) -> None:
        expected = self.holds(hand) and expect(hand.task, *arguments)
        assert (self.do(self.writing(hand, **changed)) is None) is expected

    def writing(
        self, hand: Hand, *, task: Callable[[TaskRecord], TaskRecord] | None = None, **changed: Any
    ) -> Callable[[Side], Awaitable[object]]:
        """A turn of what ``hand`` holds, or once held; ``task`` makes its row of the one that was claimed."""

        def write(side: Side) -> Awaitable[object]:
            claimed = side.claimed[hand.task, hand.lock]
            after = None if task is None else task(claimed)
            return side.holders[hand.holder].write(claimed, task=after, **changed)

        return write


def waiting_for(signal: str) -> StepRecord:
    return a_wait(StepKind.SIGNAL, f"wait-{signal}:1", operation=signal)


def _as_seen(task: Task) -> dict[str, Any]:
    journal = {
        key: (one.kind, one.state, one.complete_by, one.failures, one.unsure, one.ended)
        for key, one in task.journal.items()
    }
    told = [name for name, _, consumed in task.signals if not consumed]
    return {
        "input": task.input,
        "workflow": task.workflow,
        "parent": task.parent_step,
        "state": task.state,
        "lock": (task.holder, task.lock, task.complete_by),
        "counts": (task.failures, task.crashes),
        "parked": (task.parked, task.wake_at),
        "request": task.request,
        "journal": journal,
        "signals": told,
    }


def _task_as_seen(task: TaskRecord, steps: Sequence[StepRecord], told: list[str]) -> dict[str, Any]:
    journal = {
        step.key: (
            step.kind,
            step.state,
            step.complete_by,
            step.failure_count,
            step.unsure,
            step.ended_at is not None,
        )
        for step in steps
    }
    return {
        "input": task.input,
        "workflow": task.workflow,
        "parent": task.parent_step,
        "state": task.state,
        "lock": (task.locked_by, task.lock_number, task.complete_by),
        "counts": (task.failure_count, task.crash_count),
        "parked": (task.parked, task.wake_at),
        "request": task.request,
        "journal": journal,
        "signals": told,
    }


def _snapshot_as_seen(seen: Snapshot) -> dict[str, dict[str, Any]]:
    return {
        name: _task_as_seen(task, seen.journal(task), seen.fresh_signals(task))
        for name, task in seen.tasks.items()
    }


@pytest.fixture
def stage(postgres_url: str) -> Iterator[Stage]:
    stage = Stage(postgres_url)
    yield stage
    stage.close()


# When it fails, Hypothesis takes its time to find the shortest story that shows it.
@pytest.mark.timeout(7200 if FULL else 600)
def test_both_stores_do_what_the_model_says_and_hold_the_same(stage: Stage):
    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(stage)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=2_000 if FULL else 70,
            stateful_step_count=40,
            deadline=None,
            derandomize=not FULL,
            print_blob=True,
        ),
    )
