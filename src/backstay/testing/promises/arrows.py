"""The two state machines, kept by the database itself: no code path can leave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, Final, TypeVar

from backstay.domain.operate import Amendment
from backstay.domain.states import STEP_ARROWS, TASK_ARROWS, StepState, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError
from backstay.store.base import Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import Holder, Promises, applied, submitted
from backstay.testing.records import a_step, a_task, held, let_go, replace

State = TypeVar("State", TaskState, StepState)

# How a holder brings a task that it has just claimed into each state.
ROUTES: Final[Mapping[TaskState, Sequence[TaskState]]] = {
    TaskState.PROCESSING: (),
    TaskState.PENDING: (TaskState.PENDING,),
    TaskState.PROCESSED: (TaskState.PROCESSED,),
    TaskState.WAITING: (TaskState.WAITING,),
    TaskState.ERROR: (TaskState.ERROR,),
    TaskState.CANCELLED: (TaskState.CANCELLED,),
    TaskState.UNDOING: (TaskState.UNDOING,),
    TaskState.UNDONE: (TaskState.UNDOING, TaskState.UNDONE),
    TaskState.UNDO_FAILED: (TaskState.UNDOING, TaskState.UNDO_FAILED),
}
HELD: Final = (TaskState.PROCESSING, TaskState.UNDOING)


def missing(arrows: Mapping[State, frozenset[State]]) -> set[tuple[State, State]]:
    """Every arrow from one state to another that there is not."""
    return {(source, target) for source, target in permutations(arrows, 2) if target not in arrows[source]}


class ArrowPromises(Promises):
    async def test_no_step_leaves_its_machine_and_only_the_turn_that_tries_is_refused(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        every = list(permutations(StepState, 2))
        tasks = await self._held(store, clock, alice, every)
        setup = [alice.turn(tasks[pair], steps=[a_step(pair[0])]) for pair in every]
        assert await applied(store, *setup) == [None] * len(every)

        answers = await applied(store, *(alice.turn(tasks[pair], steps=[a_step(pair[1])]) for pair in every))

        refused = [pair for pair, answer in zip(every, answers, strict=True) if answer is not None]
        assert set(refused) == missing(STEP_ARROWS)
        for source, target in every:
            [step] = await store.steps(f"{source}-{target}")
            assert step.state == (source if (source, target) in refused else target)

    async def test_no_held_task_leaves_its_machine_and_only_the_turn_that_tries_is_refused(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        every = [(source, target) for source, target in permutations(TaskState, 2) if source in HELD]
        tasks = await self._held(store, clock, alice, every)
        begun = [pair for pair in every if pair[0] is TaskState.UNDOING]
        setup = [alice.turn(tasks[pair], task=held(tasks[pair], TaskState.UNDOING)) for pair in begun]
        assert await applied(store, *setup) == [None] * len(begun)

        answers = await applied(
            store, *(alice.turn(tasks[pair], task=_moved(tasks[pair], pair[1])) for pair in every)
        )

        refused = [pair for pair, answer in zip(every, answers, strict=True) if answer is not None]
        assert set(refused) == {pair for pair in missing(TASK_ARROWS) if pair[0] in HELD}
        for source, target in every:
            state = (await store.task(f"{source}-{target}")).state
            assert state == (source if (source, target) in refused else target)

    async def test_no_move_by_hand_takes_a_task_out_of_its_machine(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        every = list(permutations(TaskState, 2))
        tasks = await self._held(store, clock, alice, every)
        for source, target in every:
            await self._bring(alice, tasks[source, target], source)

        refused = [pair for pair in every if await self._refuses(store, clock, *pair)]

        assert set(refused) == missing(TASK_ARROWS)
        for source, target in every:
            state = (await store.task(f"{source}-{target}")).state
            assert state == (source if (source, target) in refused else target)

    async def test_a_row_that_contradicts_itself_is_refused(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        wrong: dict[str, dict[str, Any]] = {
            "processed without an output": {"state": TaskState.PROCESSED, "output": None},
            "stopped without an error": {"state": TaskState.ERROR, "error": None},
            "waiting and not parked": {"state": TaskState.WAITING, "parked": False},
            "parked while it is pending": {"state": TaskState.PENDING, "parked": True},
            "held and over": {"state": TaskState.CANCELLED, "locked_by": "alice"},
            "processing and nobody's": {"state": TaskState.PROCESSING},
        }
        tasks = await self._held(store, clock, alice, [(why, "") for why in wrong])

        turns = [
            alice.turn(task, task=replace(let_go(task, TaskState.PENDING), **wrong[why]))
            for (why, _), task in tasks.items()
        ]
        answers = await applied(store, *turns)

        accepted = [why for (why, _), answer in zip(tasks, answers, strict=True) if answer is None]
        assert accepted == []

    async def _held(
        self, store: Store, clock: ManualClock, alice: Holder, names: Sequence[tuple[Any, Any]]
    ) -> dict[tuple[Any, Any], TaskRecord]:
        """One task for each pair of names, in our hands."""
        ids = [f"{source}-{target}".replace(" ", "_") for source, target in names]
        await submitted(store, clock, *ids)
        tasks = {claimed.task.id: claimed.task for claimed in await alice.claim()}
        return dict(zip(names, (tasks[one] for one in ids), strict=True))

    async def _bring(self, alice: Holder, task: TaskRecord, state: TaskState) -> None:
        *on_the_way, last = ROUTES[state] or (state,)
        for step in on_the_way:
            await alice.write(task, task=held(task, step))
        if last is not TaskState.PROCESSING:
            await alice.leave(task, last)

    async def _refuses(self, store: Store, clock: ManualClock, source: TaskState, target: TaskState) -> bool:
        def change(task: TaskRecord, _steps: list[StepRecord]) -> Amendment:
            return Amendment(_moved(task, target))

        try:
            await store.amend(f"{source}-{target}", change, now=clock.now())
        except BackstayError:
            return True
        return False


def _moved(task: TaskRecord, target: TaskState) -> TaskRecord:
    """``task`` with everything that ``target`` asks for, so that only the arrow can be wrong."""
    wanted = a_task(target)
    return replace(
        task,
        state=target,
        output=wanted.output,
        error=wanted.error,
        parked=wanted.parked,
        locked_by=wanted.locked_by,
        complete_by=wanted.complete_by,
    )
