"""Whatever is done to a store, in whatever order, it does what the model says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backstay.domain import operate
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind, StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, IdConflict, LeaseLost
from backstay.store.base import Amend, Standing, TaskFilter
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, MANY, RUN_TIME, Holder, applied
from backstay.testing.records import a_step, a_wait, held, let_go, new_task
from tests.property.model import Entry, Model, Task

STEP_TIME = timedelta(seconds=30)

# A few of each, so that what happens meets what happened before.
NAMES = ("t1", "t2", "t3")
STEPS = ("a:1", "b:1")
SIGNALS = ("go", "stop")
# More than once what is worth more.
LEFT_IN = (*TaskState, TaskState.WAITING, TaskState.WAITING)
MOVES = ("cancel", "undo", "resubmit", "begin anew", "complete")

names = st.sampled_from(NAMES)
steps = st.sampled_from(STEPS)
signals = st.sampled_from(SIGNALS)


class Hand(NamedTuple):
    """A task as somebody once claimed it; it may long be another's."""

    holder: Holder
    task: TaskRecord


class StoreMachine(RuleBasedStateMachine):
    """A few broad rules rather than many narrow ones: of those, too few would come together in one run."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="backstay-model-")
        self.store = SqliteStore(f"sqlite:///{Path(self.folder.name) / 'model.db'}")
        self.clock = ManualClock()
        self.model = Model()
        self.holders: list[Holder] = []
        self.hands: list[Hand] = []
        self.run(self.store.open())

    def teardown(self) -> None:
        self.run(self.store.close())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        self.join()
        self.join()
        for name in NAMES[:2]:
            self.submit(name, b"1")

    # The way in, and the scheduler

    @rule(name=names, input=st.sampled_from([b"1", b"2"]))
    def submit(self, name: str, input: bytes) -> None:
        [answer] = self.run(self.store.submit([new_task(name, input=input)], now=self.clock.now()))
        assert isinstance(answer, IdConflict) is not self.model.submit(name, input)

    @rule(data=st.data(), limit=st.integers(1, 3))
    def claim(self, data: st.DataObject, limit: int) -> None:
        self.claim_for(self.somebody(data), limit)

    def claim_for(self, holder: Holder, limit: int) -> None:
        expected = self.model.claim(holder.owner.id, limit, self.clock.now() + RUN_TIME)
        try:
            claimed = self.run(holder.claim(limit=limit))
        except LeaseLost:
            assert expected is None
            return
        assert [one.task.id for one in claimed] == expected
        self.hands += [Hand(holder, one.task) for one in claimed]

    @rule(data=st.data(), key=steps, state=st.sampled_from(StepState))
    def write_step(self, data: st.DataObject, key: str, state: StepState) -> None:
        step = a_step(state, key=key)
        if state is StepState.RUNNING:
            step = a_step(state, key=key, complete_by=self.clock.now() + STEP_TIME)
        entry = Entry(state, complete_by=step.complete_by, ended=step.ended_at is not None)
        self.turn(self.some_hand(data), self.model.write, key, entry, steps=[step])

    @rule(data=st.data())
    def consume(self, data: st.DataObject) -> None:
        hand = self.some_hand(data)
        if self.holds(hand):
            number = self.model.consume(hand.task.id)
            consumed = [] if number is None else [(number, "wait-go:1")]
            assert self.run(hand.holder.write(hand.task, consumed=consumed)) is None

    @rule(data=st.data(), state=st.sampled_from(LEFT_IN), awaited=st.sampled_from([None, *SIGNALS]))
    def leave(self, data: st.DataObject, state: TaskState, awaited: str | None) -> None:
        hand = self.some_hand(data)
        if state is TaskState.PROCESSING:  # Then turn back instead, and keep it.
            self.turn(hand, self.model.turn_back, task=held(hand.task, TaskState.UNDOING))
            return
        parked = state is TaskState.WAITING or (state is TaskState.UNDOING and data.draw(st.booleans()))
        later = parked and data.draw(st.booleans())
        wake_at = self.clock.now() + timedelta(seconds=20) if later else None
        waits = [] if awaited is None else [waiting_for(awaited)]
        self.turn(
            hand,
            partial(self.model.leave, parked=parked, wake_at=wake_at, awaited=awaited),
            state,
            steps=waits,
            task=let_go(hand.task, state, parked=parked, wake_at=wake_at),
        )

    @rule()
    def finish_together(self) -> None:
        latest = list({hand.task.id: hand for hand in self.hands}.values())
        turns = [hand.holder.turn(hand.task, task=let_go(hand.task, TaskState.PROCESSED)) for hand in latest]
        finish = partial(self.model.leave, parked=False, wake_at=None)
        expected = [self.holds(hand) and finish(hand.task.id, TaskState.PROCESSED) for hand in latest]

        answers = self.run(applied(self.store, *turns))

        assert [answer is None for answer in answers] == expected

    # Instances and the supervisor

    @rule(data=st.data(), how=st.sampled_from(["join", "beat", "retire"]))
    def live(self, data: st.DataObject, how: str) -> None:
        owner, now = self.somebody(data).owner, self.clock.now()
        match how:
            case "join":
                self.join()
            case "retire":
                freed = self.model.end(owner.id, crashes=0)
                assert self.run(self.store.retire(owner, now=now)) == freed
            case _:
                alive = owner.id in self.model.heartbeats
                if alive:
                    self.model.heartbeats[owner.id] = now
                assert self.accepts(self.store.beat(owner, now=now)) is alive

    @rule(
        seconds=st.sampled_from([31, 700, 0, 10]),
        how=st.sampled_from(["bury", "expire runs", "expire steps", "wake"]),
    )
    def supervise(self, seconds: int, how: str) -> None:
        self.clock.pass_time(timedelta(seconds=seconds))
        now, store, model = self.clock.now(), self.store, self.model
        match how:
            case "bury":
                assert self.run(store.bury(lease=LEASE, now=now)) == model.bury(LEASE, now)
            case "expire runs":
                assert self.run(store.expire_runs(now=now, limit=MANY)) == model.expire_runs(now)
            case "expire steps":
                expired = self.run(store.expire_steps(grace=timedelta(0), now=now, limit=MANY))
                assert expired == model.expire_steps(now)
            case _:
                assert self.run(store.wake(now=now, limit=MANY)) == model.wake(now)

    # The operator

    @rule(data=st.data(), signal=signals, dedup=st.sampled_from([None, "once"]))
    def signal(self, data: st.DataObject, signal: str, dedup: str | None) -> None:
        name = self.some_task(data)
        sent = self.store.signal(name, signal, b"1", dedup=dedup, now=self.clock.now())
        assert self.accepts(sent) is self.model.signal(name, signal, dedup)

    @rule(data=st.data(), key=steps, how=st.sampled_from(MOVES))
    def operate(self, data: st.DataObject, key: str, how: str) -> None:
        name, model, now = self.some_task(data), self.model, self.clock.now()
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
        assert self.accepts(self.store.amend(name, move, now=now)) is expect(name)

    # The comparison

    @invariant()
    def the_store_is_what_the_model_is(self) -> None:
        expected = {name: _as_seen(task) for name, task in self.model.tasks.items()}
        assert self.run(self.seen()) == expected

    async def seen(self) -> dict[str, dict[str, Any]]:
        listed = await self.store.tasks(TaskFilter())
        standings = [
            Standing(
                await self.store.task(one.task.id), one.signals
            )  # the values are not part of how it stands
            for one in await self.store.standing([task.key for task in listed])
        ]
        journals = [await self.store.steps(standing.task.id) for standing in standings]
        pairs = zip(standings, journals, strict=True)
        return {standing.task.id: _standing_as_seen(standing, journal) for standing, journal in pairs}

    # Underneath

    def run(self, deed: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(deed)

    def accepts(self, deed: Awaitable[Any]) -> bool:
        try:
            self.run(deed)
        except BackstayError:
            return False
        return True

    def join(self) -> None:
        name = f"instance-{len(self.holders)}"
        self.holders.append(self.run(Holder.joined(self.store, self.clock, name)))
        self.model.heartbeats[name] = self.clock.now()

    def somebody(self, data: st.DataObject) -> Holder:
        """The newest are the likeliest to live."""
        return data.draw(st.sampled_from(self.holders[::-1]))

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
        self.join()
        self.claim_for(self.holders[-1], 1)
        if not self.current_hands():
            self.submit(f"more-{len(self.model.tasks)}", b"1")
            self.claim_for(self.holders[-1], 1)

    def holds(self, hand: Hand) -> bool:
        return self.model.holds(hand.holder.owner.id, hand.task.id, hand.task.lock_number)

    def turn(self, hand: Hand, expect: Any, *arguments: Any, **changed: Any) -> None:
        expected = self.holds(hand) and expect(hand.task.id, *arguments)
        assert (self.run(hand.holder.write(hand.task, **changed)) is None) is expected


def waiting_for(signal: str) -> StepRecord:
    return a_wait(StepKind.SIGNAL, f"wait-{signal}:1", operation=signal)


def _as_seen(task: Task) -> dict[str, Any]:
    journal = {
        key: (one.state, one.complete_by, one.failures, one.unsure, one.ended)
        for key, one in task.journal.items()
    }
    told = [name for name, _, consumed in task.signals if not consumed]
    return {
        "input": task.input,
        "state": task.state,
        "lock": (task.holder, task.lock, task.complete_by),
        "counts": (task.failures, task.crashes),
        "parked": (task.parked, task.wake_at),
        "request": task.request,
        "journal": journal,
        "signals": told,
    }


def _standing_as_seen(standing: Standing, steps: Sequence[StepRecord]) -> dict[str, Any]:
    task, told = standing.task, [signal.name for signal in standing.signals]
    journal = {
        step.key: (step.state, step.complete_by, step.failure_count, step.unsure, step.ended_at is not None)
        for step in steps
    }
    return {
        "input": task.input,
        "state": task.state,
        "lock": (task.locked_by, task.lock_number, task.complete_by),
        "counts": (task.failure_count, task.crash_count),
        "parked": (task.parked, task.wake_at),
        "request": task.request,
        "journal": journal,
        "signals": told,
    }


# When it fails, Hypothesis takes its time to find the shortest story that shows it.
TestStoreModel = pytest.mark.timeout(400)(StoreMachine.TestCase)
TestStoreModel.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True, print_blob=True
)
