"""What a holder writes, and what of it is refused."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.operate import request_undo
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepRecord, UndoKind
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, LeaseLost
from backstay.store.base import Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import SECOND, Holder, Promises, applied, submitted, taken_away
from backstay.testing.records import a_step, begun, done, held, let_go, new_task, replace

HUNDREDS = 300

# Above what a row holds.
LARGE = b'"' + b'\\"x' * 20_000 + b'"'


class TransitionPromises(Promises):
    async def test_a_turn_writes_its_steps_and_its_task_together(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        steps = [
            replace(a_step(key=key, position=place), task_key=task.key)
            for place, key in ((1, "a:1"), (2, "b:1"))
        ]
        clock.pass_time(SECOND)

        refusal = await alice.write(task, steps=steps, task=let_go(task, TaskState.PROCESSED, output=b"42"))

        assert refusal is None
        assert await store.steps("t") == steps
        ended = let_go(task, TaskState.PROCESSED, output=b"42", updated_at=clock.now())
        assert await store.task("t") == ended

    @pytest.mark.parametrize(
        "earlier", [[], [a_step(StepState.RUNNING)]], ids=["at once", "over an earlier one"]
    )
    async def test_every_field_of_a_step_is_kept(
        self, store: Store, alice: Holder, earlier: list[StepRecord]
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=earlier)
        step = a_step(
            StepState.FAILED,
            task_key=task.key,
            attempt=3,
            input=b"[1]",
            output=b"2",
            started_at=task.created_at + SECOND,
            ended_at=task.created_at + 2 * SECOND,
            failure_count=2,
            complete_by=task.complete_by,
            error=Failure("Down", "keine Brücke / 接続なし", step="charge:1", permanent=True),
            position=4,
            undo="manual",
            undo_attempt=5,
            undo_failures=1,
            pivot=True,
            unsure=True,
        )

        await alice.write(task, steps=[step])

        assert await store.steps("t") == [step]

    async def test_every_field_of_a_task_that_its_holder_may_change_is_kept(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        changed = let_go(
            task,
            TaskState.WAITING,
            output=b"1",
            error=Failure("Down", "no route", step="charge:1"),
            failure_count=2,
            crash_count=3,
            wake_at=clock.now() + SECOND,
        )

        await alice.write(task, task=changed)

        assert await store.task("t") == changed

    async def test_a_step_is_written_over_by_its_later_self(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")

        for state in (StepState.PENDING, StepState.RUNNING, StepState.COMPLETED):
            assert await alice.write(task, steps=[a_step(state)]) is None

        assert [step.state for step in await store.steps("t")] == [StepState.COMPLETED]

    @pytest.mark.parametrize(
        "input", [b"[]", b'"\\u0000 \xe6\x8e\xa5 \\"\\\\"', LARGE], ids=["small", "odd", "large"]
    )
    async def test_a_step_that_begins_is_entered_whole(
        self, store: Store, alice: Holder, input: bytes
    ) -> None:
        task = await alice.hold("t")
        step = a_step(StepState.RUNNING, task_key=task.key, input=input, undo=UndoKind.MANUAL, pivot=True)

        assert await alice.write(task, steps=[begun(step)]) is None

        assert await store.steps("t") == [step]

    @pytest.mark.parametrize(
        "output", [b"7", b'{"a":[null,1.5,"\xe6\x8e\xa5"]}', LARGE], ids=["small", "odd", "large"]
    )
    async def test_a_completion_leaves_the_rest_of_its_step_as_it_was(
        self, store: Store, clock: ManualClock, alice: Holder, output: bytes
    ) -> None:
        task = await alice.hold("t")
        running = a_step(
            StepState.RUNNING,
            task_key=task.key,
            attempt=3,
            failure_count=2,
            undo=UndoKind.AUTOMATIC,
            unsure=True,
        )
        await alice.write(task, steps=[running])
        completed = replace(
            running, state=StepState.COMPLETED, output=output, ended_at=clock.now(), position=4
        )

        assert await alice.write(task, steps=[done(completed)]) is None

        assert await store.steps("t") == [completed]

    async def test_moves_of_one_step_handed_in_together_are_made_in_their_order(
        self, store: Store, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        running, failed = a_step(StepState.RUNNING), a_step(StepState.FAILED)
        other = a_step(StepState.RUNNING, key="other:1")
        turns = [
            alice.turn(task, steps=[begun(running), begun(other)]),
            alice.turn(task, steps=[failed]),
            alice.turn(task, steps=[done(a_step(StepState.COMPLETED, key="other:1"))]),
            alice.turn(task, task=held(task, TaskState.UNDOING)),
            alice.turn(task, steps=[a_step(StepState.UNDOING, key="other:1")]),
        ]

        answers = await applied(store, *turns)

        assert answers == [None] * len(turns)
        states = {step.key: step.state for step in await store.steps("t")}
        assert states == {"charge:1": StepState.FAILED, "other:1": StepState.UNDOING}

    async def test_turns_handed_in_together_leave_what_the_last_of_them_says(
        self, store: Store, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        turns = [
            alice.turn(task, steps=[a_step(StepState.RUNNING)]),
            alice.turn(task, steps=[a_step(StepState.COMPLETED)]),
            alice.turn(task, task=held(task, TaskState.UNDOING)),
            alice.turn(task, steps=[a_step(StepState.UNDOING)]),
            alice.turn(task, steps=[a_step(StepState.UNDONE)], task=let_go(task, TaskState.UNDONE)),
        ]

        answers = await applied(store, *turns)

        assert answers == [None] * 5, "each is an arrow, even where the first to the last is none"
        assert (await store.task("t")).state is TaskState.UNDONE
        assert [step.state for step in await store.steps("t")] == [StepState.UNDONE]

    async def test_settling_happens_after_the_commit(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[asyncio.Task[TaskRecord]] = loop.create_future()

        def look(_refusal: BackstayError | None) -> None:
            seen.set_result(loop.create_task(store.task("t")))

        store.apply(alice.turn(task, task=let_go(task, TaskState.PROCESSED)), look)

        assert (await (await seen)).state is TaskState.PROCESSED

    async def test_of_hundreds_of_turns_the_one_that_lost_its_lock_is_refused_and_the_others_are_written(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(HUNDREDS)))
        tasks = [claimed.task for claimed in await alice.claim()]
        robbed = tasks[HUNDREDS // 2]
        await taken_away(store, clock, robbed)

        turns = [alice.turn(task, steps=[a_step()], task=let_go(task, TaskState.PROCESSED)) for task in tasks]
        answers = await applied(store, *turns)

        refused = [task.id for task, answer in zip(tasks, answers, strict=True) if answer is not None]
        assert refused == [robbed.id]
        assert isinstance(answers[HUNDREDS // 2], LeaseLost)
        for task in tasks:
            kept = (await store.task(task.id)).state, len(await store.steps(task.id))
            assert kept == ((TaskState.PENDING, 0) if task is robbed else (TaskState.PROCESSED, 1))

    async def test_a_refused_turn_leaves_no_trace(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())
        await taken_away(store, clock, task)
        before = await store.standing([task.key])

        refusal = await alice.write(
            task,
            steps=[a_step()],
            children=[new_task("child", parent_key=task.key)],
            consumed=[(before[0].signals[0].number, "wait:1")],
            task=let_go(task, TaskState.PROCESSED),
        )

        assert isinstance(refusal, LeaseLost)
        assert await store.standing([task.key]) == before
        assert await store.steps("t") == []
        [answer] = await store.submit([new_task("child")], now=clock.now())
        assert getattr(answer, "created", False), "the child was not entered"

    async def test_a_holder_that_let_its_task_go_writes_nothing_more(
        self, store: Store, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        last = alice.turn(task, task=let_go(task, TaskState.PROCESSED))
        too_late = alice.turn(task, steps=[a_step()])

        together = await applied(store, last, too_late)
        afterwards = await applied(store, too_late)

        assert together[0] is None
        assert isinstance(together[1], LeaseLost)
        assert isinstance(afterwards[0], LeaseLost)
        assert await store.steps("t") == []

    async def test_a_new_claim_of_the_same_task_by_the_same_instance_fences_the_old_one_off(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        old = await alice.hold("t")
        await taken_away(store, clock, old)
        [again] = await alice.claim()

        assert isinstance(await alice.write(old, steps=[a_step()]), LeaseLost)
        assert await alice.write(again.task, steps=[a_step()]) is None

    async def test_what_cannot_be_written_at_all_is_refused_alone(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "a", "b", "c")
        a, b, c = [claimed.task for claimed in await alice.claim()]
        # A lone surrogate, as in the name of a file that is not UTF-8, has no form in JSON.
        unwritable = a_step(StepState.FAILED, error=Failure("FileNotFoundError", "\udcff.txt"))
        turns = [
            alice.turn(a, steps=[a_step()]),
            alice.turn(b, steps=[unwritable]),
            alice.turn(c, steps=[a_step()]),
        ]

        answers = await applied(store, *turns)

        assert [answer is None for answer in answers] == [True, False, True]
        assert [len(await store.steps(name)) for name in "abc"] == [1, 0, 1]

    async def test_a_request_that_came_after_the_holders_last_look_is_not_written_over(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=[a_step()])
        await store.amend("t", request_undo, now=clock.now())

        await alice.write(task, task=held(task, TaskState.PROCESSING))

        [standing] = await store.standing([task.key])
        assert standing.task.request == "undo"

    async def test_a_request_is_answered_when_the_task_turns_back_or_ends(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.write(task, steps=[a_step()])
        await store.amend("t", request_undo, now=clock.now())

        await alice.leave(task, TaskState.UNDOING)

        assert (await store.task("t")).request is None
