"""Every task has at most one holder."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import LeaseLost
from backstay.store.base import Runnable, Store
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, RUN_TIME, SECOND, SHIP, Holder, Promises, submitted
from backstay.testing.records import a_step, let_go, replace

SHIP_2 = Runnable("ship", 2, RUN_TIME)
BILL = Runnable("bill", 1, timedelta(minutes=1))


class ClaimPromises(Promises):
    async def test_a_claim_locks_the_task_and_sets_its_complete_by(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        [before] = await submitted(store, clock, "t")
        clock.pass_time(SECOND)

        [claimed] = await alice.claim()

        now = clock.now()
        assert claimed.task == await store.task("t")
        assert claimed.task == replace(
            before,
            state=TaskState.PROCESSING,
            locked_by="alice",
            lock_number=before.lock_number + 1,
            complete_by=now + RUN_TIME,
            updated_at=now,
        )

    async def test_the_oldest_task_is_claimed_first(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        for name in ("c", "a", "b"):
            await submitted(store, clock, name)

        claims = [await alice.claim(limit=1) for _ in range(4)]

        assert [[one.task.id for one in claim] for claim in claims] == [["c"], ["a"], ["b"], []]

    async def test_a_claim_takes_no_more_than_its_limit_whatever_it_has_the_code_of(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, *(f"ship-{number}" for number in range(5)))
        await submitted(store, clock, *(f"bill-{number}" for number in range(5)), workflow="bill")

        claimed = await alice.claim(limit=7, runs=[SHIP, BILL])

        assert len(claimed) == 7
        assert {one.task.workflow for one in claimed} == {"ship", "bill"}

    async def test_only_tasks_of_a_workflow_and_version_at_hand_are_claimed(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "ship-1")
        await submitted(store, clock, "ship-2", version=2)
        await submitted(store, clock, "bill-1", workflow="bill")

        assert await alice.claim(runs=[]) == []
        assert [one.task.id for one in await alice.claim(runs=[SHIP_2])] == ["ship-2"]
        assert [one.task.id for one in await alice.claim(runs=[BILL])] == ["bill-1"]
        assert (await store.task("bill-1")).complete_by == clock.now() + BILL.complete_by
        assert (await store.task("ship-1")).state is TaskState.PENDING

    async def test_racing_owners_claim_each_task_exactly_once(self, store: Store, clock: ManualClock) -> None:
        ids = [f"t{number:03}" for number in range(100)]
        await submitted(store, clock, *ids)
        racers = [await Holder.joined(store, clock, f"racer-{number}") for number in range(5)]

        rounds = await asyncio.gather(*(racer.claim(limit=7) for racer in racers for _ in range(4)))

        assert sorted(one.task.id for claims in rounds for one in claims) == ids

    async def test_a_task_comes_with_its_journal_and_the_signals_it_has_not_consumed(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder
    ) -> None:
        task = await alice.hold("t")
        step = replace(a_step(), task_key=task.key)
        for name in ("first", "second"):
            await store.signal("t", name, b'"hello"', dedup=None, now=clock.now())
        [standing] = await store.standing([task.key])
        consumed = [(standing.signals[0].number, "wait:1")]
        await alice.write(task, steps=[step], consumed=consumed, task=let_go(task, TaskState.PENDING))

        [claimed] = await bob.claim()

        assert claimed.steps == [step]
        assert claimed.signals == standing.signals[1:]

    async def test_an_undo_that_nobody_works_on_is_claimed_and_stays_an_undo(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.UNDOING, steps=[a_step(StepState.COMPLETED)])

        [claimed] = await bob.claim()

        assert (claimed.task.state, claimed.task.locked_by) == (TaskState.UNDOING, "bob")
        assert claimed.task.complete_by == clock.now() + RUN_TIME
        assert claimed.task.lock_number == task.lock_number + 1

    @pytest.mark.parametrize(
        ("state", "parked"),
        [
            (TaskState.PROCESSED, False),
            (TaskState.WAITING, True),
            (TaskState.ERROR, False),
            (TaskState.CANCELLED, False),
            (TaskState.UNDOING, True),
        ],
    )
    async def test_a_task_that_is_parked_or_over_is_not_claimed(
        self, store: Store, clock: ManualClock, alice: Holder, state: TaskState, parked: bool
    ) -> None:
        await alice.leave(await alice.hold(), state, parked=parked)

        assert await alice.claim() == []

    async def test_the_backlog_is_what_waits_to_be_claimed_counted_no_further_than_asked(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("over"), TaskState.PROCESSED)
        await alice.leave(await alice.hold("parked"), TaskState.WAITING)
        await alice.leave(await alice.hold("undo"), TaskState.UNDOING)
        await submitted(store, clock, "ship-1", "ship-2")
        await submitted(store, clock, "bill-1", workflow="bill")

        assert [await store.backlog(at_most=number) for number in (0, 3, 4, 100)] == [0, 3, 4, 4]

        await alice.claim()
        assert await store.backlog(at_most=100) == 1

    async def test_an_instance_that_was_declared_dead_claims_nothing(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await submitted(store, clock, "t")
        clock.pass_time(LEASE + SECOND)
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        with pytest.raises(LeaseLost):
            await alice.claim()

        assert (await store.task("t")).locked_by is None
