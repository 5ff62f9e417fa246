"""One supervisor leads, and nobody else writes as it may."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import LeaseLost
from backstay.store.base import Store, TaskFilter
from backstay.store.records import AlertFilter, AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import FOR_LONG, LEASE, MANY, RUN_TIME, SECOND, Holder, Promises
from backstay.testing.promises.leader_verbs import EVERY_VERB, Verb, bury, wake
from backstay.testing.records import a_step, replace

DAY: Final = timedelta(days=1)


class LeadershipPromises(Promises):
    # Who leads

    async def test_at_first_nobody_leads(self, store: Store) -> None:
        assert await store.supervision.leader() == Leader()

    async def test_who_asks_first_leads_for_its_lease(self, store: Store, clock: ManualClock) -> None:
        leader = await store.supervision.lead("one", lease=LEASE, now=clock.now())

        assert leader == Leader(holder="one", epoch=1, until=clock.now() + LEASE)
        assert await store.supervision.leader() == leader

    async def test_who_asks_while_another_leads_is_told_who_does(
        self, store: Store, clock: ManualClock
    ) -> None:
        leader = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        clock.pass_time(LEASE - SECOND)

        assert await store.supervision.lead("two", lease=LEASE, now=clock.now()) == leader

        assert await store.supervision.leader() == leader

    async def test_of_those_who_ask_at_once_exactly_one_leads_and_all_are_told_who(
        self, store: Store, clock: ManualClock
    ) -> None:
        names = [f"racer-{number}" for number in range(10)]
        asked = [store.supervision.lead(name, lease=LEASE, now=clock.now()) for name in names]

        answers = await asyncio.gather(*asked)

        assert answers == [await store.supervision.leader()] * 10
        assert (answers[0].holder in names, answers[0].epoch) == (True, 1)

    async def test_who_leads_renews_its_lease_under_the_same_epoch(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        clock.pass_time(LEASE - SECOND)

        renewed = await store.supervision.lead("one", lease=LEASE, now=clock.now())

        assert renewed == Leader(holder="one", epoch=first.epoch, until=clock.now() + LEASE)
        await wake(store.supervision, first, clock)  # What it began before counts still.

    async def test_once_a_lease_ran_out_another_takes_over_and_the_epoch_moves_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        clock.pass_time(LEASE)

        second = await store.supervision.lead("two", lease=LEASE, now=clock.now())

        assert second == Leader(holder="two", epoch=first.epoch + 1, until=clock.now() + LEASE)
        assert await store.supervision.lead("one", lease=LEASE, now=clock.now()) == second

    async def test_who_let_its_own_lease_run_out_leads_under_another_epoch(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        clock.pass_time(LEASE)

        again = await store.supervision.lead("one", lease=LEASE, now=clock.now())

        assert (again.holder, again.epoch) == ("one", first.epoch + 1)

    async def test_who_steps_down_leaves_the_lead_free_and_the_epoch_as_it_was(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())

        await store.supervision.step_down(first, now=clock.now())

        assert await store.supervision.leader() == Leader(epoch=first.epoch)
        second = await store.supervision.lead("two", lease=LEASE, now=clock.now())
        assert (second.holder, second.epoch) == ("two", first.epoch + 1)

    async def test_who_no_longer_leads_has_nothing_to_step_down_from(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        clock.pass_time(LEASE)
        second = await store.supervision.lead("two", lease=LEASE, now=clock.now())

        await store.supervision.step_down(first, now=clock.now())
        await store.supervision.step_down(Leader(), now=clock.now())

        assert await store.supervision.leader() == second

    async def test_the_lead_of_an_instance_that_retired_is_free_at_once(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder
    ) -> None:
        first = await store.supervision.lead("alice", lease=FOR_LONG, now=clock.now())
        assert await store.supervision.lead("bob", lease=LEASE, now=clock.now()) == first, "she lives"

        await store.retire(alice.owner, now=clock.now())

        second = await store.supervision.lead("bob", lease=LEASE, now=clock.now())
        assert (second.holder, second.epoch) == ("bob", first.epoch + 1)

    async def test_an_instance_that_steps_down_lives_on(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await store.supervision.step_down(leader, now=clock.now())
        hers = await store.supervision.lead("alice", lease=LEASE, now=clock.now())

        await store.supervision.step_down(hers, now=clock.now())

        other = await store.supervision.lead("other", lease=LEASE, now=clock.now())
        await bury(store.supervision, other, clock)
        assert await alice.write(task, steps=[a_step()]) is None

    # The fence

    @pytest.mark.parametrize("verb", EVERY_VERB)
    @pytest.mark.parametrize("how", ["another leads", "it ran out", "it stepped down", "it never led"])
    async def test_whoever_does_not_lead_any_more_is_refused_and_changes_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, verb: Verb, how: str
    ) -> None:
        lease = RUN_TIME if how in ("another leads", "it ran out") else FOR_LONG
        lost = await store.supervision.lead("one", lease=lease, now=clock.now())
        await self._something_of_everything(store, clock, alice)
        match how:
            case "another leads":
                await store.supervision.lead("two", lease=LEASE, now=clock.now())
            case "it stepped down":
                await store.supervision.step_down(lost, now=clock.now())
            case "it never led":
                lost = replace(lost, holder="two")
            case _:
                pass  # Time alone has passed.
        before = await self._everything(store, clock)

        with pytest.raises(LeaseLost, match="the lead of the supervisors is no longer held by"):
            await verb(store.supervision, lost, clock)

        assert await self._everything(store, clock) == before

    async def _something_of_everything(self, store: Store, clock: ManualClock, alice: Holder) -> None:
        """Whatever a sweep looks for: a death, an overrun, a step that is overdue, a task that is due."""
        await alice.leave(await alice.hold("due"), TaskState.WAITING, wake_at=clock.now() + SECOND)
        overdue = await alice.hold("overdue")
        await alice.write(overdue, steps=[a_step(StepState.RUNNING, complete_by=clock.now())])
        clock.pass_time(RUN_TIME + SECOND)

    async def _everything(self, store: Store, clock: ManualClock) -> list[Any]:
        return [
            await store.supervision.leader(),
            await store.tasks(TaskFilter()),
            await store.steps("overdue"),
            await store.instances(),
            await store.supervision.recoveries(since=clock.now() - DAY),
            await store.supervision.rounds(limit=MANY),
            await store.records.controls(),
            await store.records.alerts(AlertFilter()),
            await store.records.audit(AuditFilter()),
        ]
