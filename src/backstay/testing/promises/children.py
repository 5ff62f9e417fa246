"""Tasks that a task started."""

from __future__ import annotations

import pytest

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind
from backstay.domain.task import NewTask, TaskRecord
from backstay.store.base import Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import CANCEL, Holder, Promises, applied
from backstay.testing.records import a_wait, let_go, new_task

FOR_CHILD = a_wait(StepKind.CHILD, "pack:1")


def child_of(parent: TaskRecord) -> NewTask:
    return new_task(f"{parent.id}:pack:1", parent_key=parent.key, parent_step="pack:1")


class ChildPromises(Promises):
    async def test_a_child_enters_with_the_turn_that_starts_it(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        parent = await alice.hold("order")

        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])

        child = await store.task("order:pack:1")
        assert (child.state, child.parent_key, child.parent_step) == (TaskState.PENDING, parent.key, "pack:1")
        assert child.created_at == clock.now()

    async def test_a_child_that_is_started_again_after_a_crash_is_the_same_child(
        self, store: Store, alice: Holder
    ) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [claimed] = await alice.claim()

        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])

        assert await store.task("order:pack:1") == claimed.task

    @pytest.mark.parametrize("state", [TaskState.PROCESSED, TaskState.CANCELLED])
    async def test_a_child_that_settles_wakes_its_parked_parent(
        self, store: Store, alice: Holder, state: TaskState
    ) -> None:
        child = await self._parked_for_its_child(alice)

        await alice.leave(child, state)

        after = await store.task("order")
        assert (after.state, after.parked) == (TaskState.PENDING, False)
        assert [claimed.task.id for claimed in await alice.claim()] == ["order"]

    async def test_a_child_that_an_operator_ends_wakes_its_parked_parent(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        child = await self._parked_for_its_child(alice)
        await alice.leave(child, TaskState.PENDING)

        await store.amend(child.id, CANCEL, now=clock.now())

        assert (await store.task("order")).state is TaskState.PENDING

    async def test_a_child_that_is_still_at_work_wakes_nobody(self, store: Store, alice: Holder) -> None:
        child = await self._parked_for_its_child(alice)

        await alice.leave(child, TaskState.WAITING)

        assert (await store.task("order")).parked

    async def test_a_child_that_settled_just_before_the_parking_keeps_its_parent_claimable(
        self, store: Store, alice: Holder
    ) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [child] = await alice.claim()
        await alice.leave(child.task, TaskState.PROCESSED)

        await alice.leave(parent, TaskState.WAITING)

        assert [claimed.task.id for claimed in await alice.claim()] == ["order"]

    async def test_a_child_whose_end_the_parent_knows_does_not_keep_it_from_parking(
        self, store: Store, alice: Holder
    ) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [child] = await alice.claim()
        await alice.leave(child.task, TaskState.PROCESSED)
        known = a_wait(StepKind.CHILD, "pack:1", state=StepState.COMPLETED, output=b"1", position=1)

        await alice.leave(parent, TaskState.WAITING, steps=[known])

        assert (await store.task("order")).parked

    async def test_a_child_that_stopped_in_error_does_not_keep_its_parent_from_parking(
        self, store: Store, alice: Holder
    ) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [child] = await alice.claim()
        await alice.leave(child.task, TaskState.ERROR)

        await alice.leave(parent, TaskState.WAITING)

        assert (await store.task("order")).parked, "a person may still bring the child home"

    @pytest.mark.parametrize("first", ["parent", "child"])
    async def test_parent_and_child_that_park_and_settle_at_once_do_not_miss_each_other(
        self, store: Store, alice: Holder, first: str
    ) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [child] = await alice.claim()
        turns = [
            alice.turn(parent, task=let_go(parent, TaskState.WAITING)),
            alice.turn(child.task, task=let_go(child.task, TaskState.PROCESSED)),
        ]

        await applied(store, *(turns if first == "parent" else reversed(turns)))

        assert [claimed.task.id for claimed in await alice.claim()] == ["order"]

    async def _parked_for_its_child(self, alice: Holder) -> TaskRecord:
        """A parent that waits, and its child in our hands."""
        parent = await alice.hold("order")
        parked = let_go(parent, TaskState.WAITING)
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)], task=parked)
        [child] = await alice.claim()
        return child.task
