"""What was acknowledged is there, once."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.message import Queue
from backstay.domain.states import StepState, TaskState
from backstay.domain.task import first_record
from backstay.errors import IdConflict, UnknownTask
from backstay.store.base import Store, Submitted
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import SECOND, Holder, Promises, submitted
from backstay.testing.records import a_step, new_task


class SubmissionPromises(Promises):
    async def test_an_acknowledged_submission_can_be_read_back_as_it_was_handed_in(
        self, store: Store, clock: ManualClock
    ) -> None:
        await store.queues.declare(Queue(name="me"), now=clock.now())
        new = new_task(
            "order-7",
            input=b'{"order": 7}',
            hard_end=clock.now() + SECOND,
            reply_to="queue:me",
            attributes={"customer": "c9", "näme": "ünïcode"},
        )

        [answer] = await store.submit([new], now=clock.now())

        assert isinstance(answer, Submitted)
        assert answer.created
        assert await store.task("order-7") == answer.task == first_record(answer.task.key, new, clock.now())
        assert await store.steps("order-7") == []

    async def test_the_steps_of_a_plan_are_recorded_with_the_submission(
        self, store: Store, clock: ManualClock
    ) -> None:
        plan = (
            a_step(StepState.PENDING, key="charge:1", input=None),
            a_step(StepState.PENDING, key="ship:1", input=None),
        )

        [answer] = await store.submit([new_task("order-7", plan=plan)], now=clock.now())

        assert isinstance(answer, Submitted)
        steps = await store.steps("order-7")
        assert {(step.task_key, step.key, step.state) for step in steps} == {
            (answer.task.key, "charge:1", StepState.PENDING),
            (answer.task.key, "ship:1", StepState.PENDING),
        }

    async def test_the_same_submission_again_is_answered_with_the_task_that_is_there(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        running = await alice.hold("order-7", input=b"1")
        clock.pass_time(SECOND)

        [again] = await store.submit(
            [new_task("order-7", input=b"1", attributes={"try": "2"})], now=clock.now()
        )

        assert again == Submitted(running, created=False)
        assert await store.task("order-7") == running

    async def test_the_same_submission_after_a_deploy_is_still_the_same(
        self, store: Store, clock: ManualClock
    ) -> None:
        [first] = await submitted(store, clock, "order-7", version=1)

        [again] = await store.submit([new_task("order-7", version=2)], now=clock.now())

        assert again == Submitted(first, created=False)

    @pytest.mark.parametrize("other", [{"input": b"2"}, {"workflow": "bill"}])
    async def test_other_content_under_a_known_id_is_a_conflict_and_changes_nothing(
        self, store: Store, clock: ManualClock, other: dict[str, object]
    ) -> None:
        [first] = await submitted(store, clock, "order-7", input=b"1")

        [answer] = await store.submit([new_task("order-7", **{"input": b"1", **other})], now=clock.now())

        assert isinstance(answer, IdConflict)
        assert await store.task("order-7") == first

    async def test_a_batch_of_submissions_is_answered_one_by_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        await submitted(store, clock, "known", input=b"1")
        batch = [
            new_task("new", input=b"1"),
            new_task("known", input=b"1"),
            new_task("known", input=b"2"),
            new_task("new", input=b"1"),
            new_task("new", input=b"2"),
            new_task("last", input=b"1"),
        ]

        answers = await store.submit(batch, now=clock.now())

        told = [answer.created if isinstance(answer, Submitted) else type(answer) for answer in answers]
        assert told == [True, False, IdConflict, False, IdConflict, True]
        assert (await store.task("last")).state is TaskState.PENDING

    async def test_of_many_who_submit_one_id_at_once_exactly_one_created_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        racing = [store.submit([new_task("order-7")], now=clock.now()) for _ in range(20)]

        answers = [answer for [answer] in await asyncio.gather(*racing)]

        assert sorted(isinstance(one, Submitted) and one.created for one in answers) == [False] * 19 + [True]
        assert len({one.task.key for one in answers if isinstance(one, Submitted)}) == 1

    async def test_a_task_that_was_never_submitted_is_unknown(self, store: Store, clock: ManualClock) -> None:
        with pytest.raises(UnknownTask, match="'nobody'"):
            await store.task("nobody")
        with pytest.raises(UnknownTask):
            await store.steps("nobody")
        with pytest.raises(UnknownTask):
            await store.signal("nobody", "x", b"1", dedup=None, now=clock.now())
