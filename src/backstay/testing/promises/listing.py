"""Pages of tasks, newest first."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.message import Queue
from backstay.domain.states import SETTLED, TaskState
from backstay.store.base import Store, TaskFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import SECOND, Holder, Promises, submitted
from backstay.testing.records import held, replace


async def listed(store: Store, **wanted: Any) -> list[str]:
    return [task.id for task in await store.tasks(TaskFilter(**wanted))]


class ListingPromises(Promises):
    async def test_the_newest_task_comes_first(self, store: Store, clock: ManualClock) -> None:
        await submitted(store, clock, "a", "b", "c")

        assert await listed(store) == ["c", "b", "a"]

    async def test_pages_follow_each_other_without_a_gap_while_tasks_are_added(
        self, store: Store, clock: ManualClock
    ) -> None:
        await submitted(store, clock, *"abcdefg")
        pages: list[list[str]] = []
        before = None

        while page := await store.tasks(TaskFilter(limit=3, before=before)):
            pages.append([task.id for task in page])
            before = page[-1].key
            await submitted(store, clock, f"new-{len(pages)}")

        assert pages == [["g", "f", "e"], ["d", "c", "b"], ["a"]]

    async def test_a_listing_ends_above_the_key_that_it_is_to_stay_above(
        self, store: Store, clock: ManualClock
    ) -> None:
        await submitted(store, clock, *"abcde")
        keys = {task.id: task.key for task in await store.tasks(TaskFilter())}

        assert await listed(store, after=keys["b"]) == ["e", "d", "c"]
        assert await listed(store, after=keys["b"], before=keys["e"], workflow="another") == []
        assert await listed(store, states=(TaskState.PENDING,), after=keys["c"]) == ["e", "d"]

    @pytest.mark.parametrize("state", list(TaskState))
    async def test_tasks_are_found_by_their_state(
        self, store: Store, clock: ManualClock, alice: Holder, state: TaskState
    ) -> None:
        await self._one_in_each_state(store, clock, alice)

        assert await listed(store, states=(state,)) == [state]
        assert await listed(store, states=(state,), workflow="another") == []

    async def test_several_states_are_listed_together_newest_first(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._one_in_each_state(store, clock, alice)
        every = await listed(store)

        found = await listed(store, states=(TaskState.ERROR, TaskState.PENDING, TaskState.UNDO_FAILED))

        assert found == [name for name in every if name in {"error", "pending", "undo_failed"}]

    async def test_pages_of_one_state_follow_each_other(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, *"abcde")
        for claimed in await alice.claim():
            await alice.leave(claimed.task, TaskState.ERROR)

        first = await store.tasks(TaskFilter(states=(TaskState.ERROR,), limit=3))
        second = await store.tasks(TaskFilter(states=(TaskState.ERROR,), limit=3, before=first[-1].key))

        assert [task.id for task in first + second] == ["e", "d", "c", "b", "a"]

    async def test_tasks_are_found_by_workflow_and_by_when_they_were_created(
        self, store: Store, clock: ManualClock
    ) -> None:
        start = clock.now()
        for name, workflow in (("a", "ship"), ("b", "bill"), ("c", "ship")):
            await submitted(store, clock, name, workflow=workflow)
            clock.pass_time(SECOND)

        assert await listed(store, workflow="ship") == ["c", "a"]
        assert await listed(store, created_after=start) == ["c", "b"], "the bound itself is left out"
        assert await listed(store, created_before=start + 2 * SECOND) == ["b", "a"]
        assert await listed(store, workflow="ship", created_after=start, created_before=start + SECOND) == []

    async def test_tasks_are_found_by_an_attribute(self, store: Store, clock: ManualClock) -> None:
        await submitted(store, clock, "a", attributes={"customer": "c9", "a.b": "x"})
        await submitted(store, clock, "b", attributes={"customer": "c1"})
        await submitted(store, clock, "c")

        assert await listed(store, attribute=("customer", "c9")) == ["a"]
        assert await listed(store, attribute=("a.b", "x")) == ["a"]
        assert await listed(store, attribute=("customer", "x")) == []
        assert await listed(store, attribute=("c9", "customer")) == []

    async def test_a_listing_leaves_inputs_and_outputs_out_and_nothing_else(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await store.queues.declare(Queue(name="me"), now=clock.now())
        fields = {
            "input": b'"secret"',
            "attributes": {"a": "b"},
            "hard_end": clock.now(),
            "reply_to": "queue:me",
        }
        await alice.leave(await alice.hold("t", **fields), TaskState.PROCESSED)

        [task] = await store.tasks(TaskFilter())

        assert task == replace(await store.task("t"), input=b"", output=None)

    async def test_outcomes_are_the_records_of_what_settled_and_nothing_for_what_did_not(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._one_in_each_state(store, clock, alice)

        outcomes = await store.outcomes([*TaskState, "unknown"])

        assert {name for name, task in outcomes.items() if task is not None} == SETTLED
        assert set(outcomes) == set(TaskState)
        assert outcomes["processed"] == await store.task("processed")

    async def _one_in_each_state(self, store: Store, clock: ManualClock, alice: Holder) -> None:
        """A task in every state, named after it."""
        for state in sorted(TaskState):
            if state is not TaskState.PENDING:
                task = await alice.hold(state)
                if state in (TaskState.UNDONE, TaskState.UNDO_FAILED):
                    await alice.write(task, task=held(task, TaskState.UNDOING))
                if state is not TaskState.PROCESSING:
                    # Parked, so that a later claim does not take it up.
                    await alice.leave(task, state, parked=state in (TaskState.WAITING, TaskState.UNDOING))
        await submitted(store, clock, TaskState.PENDING)
