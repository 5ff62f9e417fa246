"""Signals, and the gap before a task is parked."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind
from backstay.errors import Conflict
from backstay.store.base import Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import CANCEL, MANY, SECOND, Holder, Promises, submitted
from backstay.testing.records import a_step, a_wait, let_go, replace

FOR_APPROVAL = a_wait(StepKind.SIGNAL, "wait_for-approval:1", operation="approval")


class WaitingPromises(Promises):
    # Signals

    async def test_signals_are_kept_in_the_order_in_which_they_came(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        for name, payload in (("a", b"1"), ("b", b"2"), ("a", b"3")):
            await store.signal("t", name, payload, dedup=None, now=clock.now())

        [standing] = await store.standing([task.key])
        assert [(one.name, one.payload) for one in standing.signals] == [
            ("a", b"1"),
            ("b", b"2"),
            ("a", b"3"),
        ]

    async def test_a_signal_may_come_before_the_task_is_first_claimed(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "t")
        await store.signal("t", "approval", b'"yes"', dedup=None, now=clock.now())

        [claimed] = await alice.claim()

        assert [(one.name, one.payload) for one in claimed.signals] == [("approval", b'"yes"')]

    async def test_a_signal_sent_twice_under_one_key_counts_once(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        for name, payload, dedup in (
            ("a", b"1", "k"),
            ("a", b"2", "k"),
            ("a", b"3", "other"),
            ("b", b"4", "k"),
        ):
            await store.signal("t", name, payload, dedup=dedup, now=clock.now())

        [standing] = await store.standing([task.key])
        assert [one.payload for one in standing.signals] == [b"1", b"3", b"4"]

    async def test_a_key_stays_used_after_its_signal_was_consumed(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "a", b"1", dedup="k", now=clock.now())
        [standing] = await store.standing([task.key])
        await alice.write(task, consumed=[(standing.signals[0].number, "wait:1")])

        await store.signal("t", "a", b"2", dedup="k", now=clock.now())

        [standing] = await store.standing([task.key])
        assert standing.signals == []

    async def test_a_consumed_signal_is_not_seen_again_and_the_next_one_is(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        for payload in (b"1", b"2"):
            await store.signal("t", "a", payload, dedup=None, now=clock.now())
        [standing] = await store.standing([task.key])

        await alice.write(task, consumed=[(standing.signals[0].number, "wait:1")])

        [standing] = await store.standing([task.key])
        assert [one.payload for one in standing.signals] == [b"2"]

    async def test_a_signal_is_for_its_own_task_only(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "a", "b")
        keys = [claimed.task.key for claimed in await alice.claim()]

        await store.signal("a", "go", b"1", dedup="k", now=clock.now())
        await store.signal("b", "go", b"2", dedup="k", now=clock.now())

        payloads = [[one.payload for one in standing.signals] for standing in await store.standing(keys)]
        assert payloads == [[b"1"], [b"2"]]

    @pytest.mark.parametrize("state", [TaskState.PROCESSED, TaskState.CANCELLED])
    async def test_a_signal_to_a_task_that_nothing_will_ask_for_it_any_more_is_refused(
        self, store: Store, clock: ManualClock, alice: Holder, state: TaskState
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, state)

        with pytest.raises(Conflict, match=f"task t is {state}"):
            await store.signal("t", "go", b"1", dedup=None, now=clock.now())

        [standing] = await store.standing([task.key])
        assert standing.signals == []

    async def test_a_stopped_task_may_still_be_told_something(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.ERROR)

        await store.signal("t", "go", b"1", dedup=None, now=clock.now())

        [standing] = await store.standing([task.key])
        assert [one.name for one in standing.signals] == ["go"]

    # Waking

    async def test_the_signal_that_a_parked_task_waits_for_makes_it_claimable(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.WAITING, steps=[FOR_APPROVAL])

        after = await store.signal("t", "approval", b'"yes"', dedup=None, now=clock.now())

        assert (after.state, after.parked) == (TaskState.PENDING, False)
        [claimed] = await alice.claim()
        assert [one.payload for one in claimed.signals] == [b'"yes"']

    async def test_a_signal_of_another_name_is_kept_and_wakes_nobody(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.WAITING, steps=[FOR_APPROVAL])

        after = await store.signal("t", "refusal", b"1", dedup=None, now=clock.now())

        assert (after.state, after.parked) == (TaskState.WAITING, True)
        assert await alice.claim() == []

    async def test_a_task_that_rests_after_a_failure_is_not_woken_by_a_signal(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        wake_at = clock.now() + timedelta(minutes=10)
        resting = [a_step(StepState.PENDING)]
        await alice.leave(await alice.hold("t"), TaskState.WAITING, steps=resting, wake_at=wake_at)

        await store.signal("t", "approval", b"1", dedup=None, now=clock.now())

        after = await store.task("t")
        assert (after.state, after.wake_at) == (TaskState.WAITING, wake_at)

    # The gap: something calls between a run's last look and its parking

    async def test_a_signal_that_came_just_before_the_parking_keeps_the_task_claimable(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "approval", b"1", dedup=None, now=clock.now())

        await alice.leave(task, TaskState.WAITING, steps=[FOR_APPROVAL], wake_at=clock.now() + SECOND)

        after = await store.task("t")
        assert (after.state, after.parked, after.wake_at) == (TaskState.PENDING, False, None)
        assert len(await alice.claim()) == 1

    async def test_a_signal_of_another_name_that_came_just_before_does_not(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "refusal", b"1", dedup=None, now=clock.now())

        await alice.leave(task, TaskState.WAITING, steps=[FOR_APPROVAL])

        assert (await store.task("t")).parked
        assert await alice.claim() == []

    async def test_a_signal_that_the_same_turn_consumes_does_not(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "approval", b"1", dedup=None, now=clock.now())
        [standing] = await store.standing([task.key])
        first = replace(FOR_APPROVAL, state=StepState.COMPLETED, output=b"1", position=1)
        second = replace(FOR_APPROVAL, key="wait_for-approval:2")

        await alice.write(
            task,
            steps=[first, second],
            consumed=[(standing.signals[0].number, first.key)],
            task=let_go(task, TaskState.WAITING),
        )

        assert (await store.task("t")).parked

    async def test_a_request_that_came_just_before_the_parking_keeps_the_task_claimable(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.amend("t", CANCEL, now=clock.now())

        await alice.leave(task, TaskState.WAITING, steps=[FOR_APPROVAL])

        [claimed] = await alice.claim()
        assert claimed.task.request == "cancel"

    async def test_a_parked_undo_waits_for_no_signal(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.signal("t", "approval", b"1", dedup=None, now=clock.now())

        await alice.leave(task, TaskState.UNDOING, steps=[FOR_APPROVAL], parked=True)
        await store.signal("t", "approval", b"2", dedup=None, now=clock.now())

        assert (await store.task("t")).parked
        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 0
