"""Who is told of a commit, and of what in it."""

from __future__ import annotations

import pytest

from backstay.domain.lease import Leader
from backstay.domain.states import TaskState
from backstay.store.base import Changes, Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import (
    CANCEL,
    LEASE,
    MANY,
    NO_GRACE,
    RUN_TIME,
    SECOND,
    Holder,
    Promises,
    submitted,
)
from backstay.testing.records import let_go, new_task


class Ear:
    """Everything that a listener was told, added up."""

    def __init__(self, store: Store) -> None:
        self._heard: list[Changes] = []
        self.stop = store.listen(self._heard.append)

    @property
    def settled(self) -> list[str]:
        return [task.id for changes in self._heard for task in changes.settled]

    @property
    def touched(self) -> set[int]:
        return {key for changes in self._heard for key in changes.touched}

    @property
    def claimable(self) -> bool:
        return any(changes.claimable for changes in self._heard)

    @property
    def controls(self) -> bool:
        return any(changes.controls for changes in self._heard)


class ListenerPromises(Promises):
    async def test_a_submission_is_told_as_something_to_claim(self, store: Store, clock: ManualClock) -> None:
        ear = Ear(store)

        await submitted(store, clock, "t")

        assert ear.claimable
        assert ear.settled == []

    async def test_the_end_of_a_task_is_told_with_its_record(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")
        ear = Ear(store)

        await alice.leave(task, TaskState.PROCESSED)

        assert ear.settled == ["t"]

    async def test_a_parked_task_is_not_told_as_settled(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")
        ear = Ear(store)

        await alice.leave(task, TaskState.WAITING)

        assert ear.settled == []

    async def test_the_end_of_a_child_touches_its_parent(self, store: Store, alice: Holder) -> None:
        parent = await alice.hold("order")
        await alice.write(parent, children=[new_task("child", parent_key=parent.key, parent_step="pack:1")])
        [child] = await alice.claim()
        ear = Ear(store)

        await alice.leave(child.task, TaskState.PROCESSED)

        assert ear.settled == ["child"]
        assert parent.key in ear.touched

    async def test_a_move_by_hand_and_a_signal_touch_their_task(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        by_hand, by_signal = Ear(store), None

        await store.amend("t", CANCEL, now=clock.now())
        assert by_hand.touched == {task.key}
        by_hand.stop()

        by_signal = Ear(store)
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())
        assert by_signal.touched == {task.key}

    async def test_whoever_loses_a_task_to_the_supervisor_is_told_which(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(RUN_TIME + SECOND)
        ear = Ear(store)

        await store.supervision.expire_runs(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)

        assert task.key in ear.touched
        assert ear.claimable

    @pytest.mark.parametrize("how", ["bury", "retire", "wake"])
    async def test_whatever_frees_a_task_is_told_as_something_to_claim(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, how: str
    ) -> None:
        task = await alice.hold("t")
        if how == "wake":
            await alice.leave(task, TaskState.WAITING, wake_at=clock.now())
        clock.pass_time(LEASE + SECOND)
        ear = Ear(store)

        match how:
            case "bury":
                await store.supervision.bury(leader, lease=LEASE, now=clock.now())
            case "retire":
                await store.retire(alice.owner, now=clock.now())
            case _:
                await store.supervision.wake(leader, now=clock.now(), limit=MANY)

        assert ear.claimable

    async def test_nobody_is_told_of_a_refused_turn(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(LEASE + SECOND)
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())
        ear = Ear(store)

        await alice.write(task, task=let_go(task, TaskState.PROCESSED))

        assert (ear.settled, ear.touched) == ([], set())

    async def test_who_stops_listening_hears_no_more_and_the_others_do(
        self, store: Store, clock: ManualClock
    ) -> None:
        gone, here = Ear(store), Ear(store)

        gone.stop()
        await submitted(store, clock, "t")

        assert not gone.claimable
        assert here.claimable
