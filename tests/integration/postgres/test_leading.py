"""One leads, whatever two connections do at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.control import Control, Subject
from backstay.domain.lease import Leader
from backstay.errors import LeaseLost
from backstay.store.base import Changes
from backstay.store.postgres import PostgresStore
from backstay.store.supervision import Freed, Recoveries
from backstay.testing import ManualClock
from backstay.testing.promises.holder import FOR_LONG, LEASE, NO_GRACE, RUN_TIME, SECOND, Holder
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.running import eventually

TAKE_OVER = "UPDATE {schema}.leader SET holder"


class Sweeper:
    """Leads, and has just swept: its transaction stands before its COMMIT."""

    def __init__(
        self, store: PostgresStore, clock: ManualClock, leader: Leader, threshold: Threshold
    ) -> None:
        self._store, self._clock = store, clock
        self._threshold = threshold
        self.leader = leader
        threshold.close()
        self.swept = asyncio.create_task(self.sweep())

    async def begun(self) -> None:
        await self._threshold.reached()

    async def sweep(self) -> Freed:
        now = self._clock.now()
        return await self._store.supervision.expire_runs(self.leader, grace=NO_GRACE, now=now, limit=10)

    def go_on(self) -> None:
        self._threshold.open()


@pytest.fixture
async def sweeper(opened: OpenStore, store: PostgresStore, clock: ManualClock) -> Sweeper:
    alice = await Holder.joined(store, clock, "alice")
    await alice.hold("t")
    threshold = Threshold()
    stalled = await opened(boundary=threshold)
    leader = await stalled.supervision.lead("stalled", lease=RUN_TIME + 2 * SECOND, now=clock.now())
    clock.pass_time(RUN_TIME + SECOND)
    sweeper = Sweeper(stalled, clock, leader, threshold)
    await sweeper.begun()
    return sweeper


async def test_a_take_over_waits_for_the_sweep_in_flight_and_what_is_written_after_is_refused(
    store: PostgresStore, clock: ManualClock, sweeper: Sweeper, schema: Schema
):
    clock.pass_time(SECOND)  # Its lease ran out meanwhile.
    taking = asyncio.create_task(store.supervision.lead("next", lease=LEASE, now=clock.now()))
    await schema.waits_for_a_lock(TAKE_OVER)
    assert not taking.done()
    sweeper.go_on()

    assert await sweeper.swept == Freed(runs=1)
    assert await taking == Leader(holder="next", epoch=sweeper.leader.epoch + 1, until=clock.now() + LEASE)
    with pytest.raises(LeaseLost):
        await sweeper.sweep()
    assert await store.supervision.recoveries(since=clock.now() - LEASE) == [Recoveries("ship", None, 1)]


async def test_the_leader_renews_its_lease_while_it_sweeps_and_a_take_over_still_waits(
    store: PostgresStore, clock: ManualClock, sweeper: Sweeper, schema: Schema
):
    renewed = await store.supervision.lead("stalled", lease=LEASE, now=clock.now())
    assert (renewed.epoch, renewed.until) == (sweeper.leader.epoch, clock.now() + LEASE)

    clock.pass_time(LEASE)
    taking = asyncio.create_task(store.supervision.lead("next", lease=LEASE, now=clock.now()))
    await schema.waits_for_a_lock(TAKE_OVER)
    sweeper.go_on()

    assert await sweeper.swept == Freed(runs=1)
    assert (await taking).holder == "next"


async def test_who_waits_to_take_over_and_is_told_of_a_renewal_leaves_the_lead_alone(
    store: PostgresStore, clock: ManualClock, sweeper: Sweeper, schema: Schema
):
    before = clock.now()
    clock.pass_time(SECOND)
    taking = asyncio.create_task(store.supervision.lead("next", lease=LEASE, now=clock.now()))
    await schema.waits_for_a_lock(TAKE_OVER)
    renewed = await store.supervision.lead("stalled", lease=LEASE, now=before)
    sweeper.go_on()

    assert await taking == renewed


async def test_a_sweep_that_comes_upon_a_take_over_waits_for_it_and_is_refused(
    opened: OpenStore, store: PostgresStore, clock: ManualClock, schema: Schema
):
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    stale = await store.supervision.lead("stalled", lease=LEASE, now=clock.now())
    in_time = clock.now()  # By the clock alone it might still write.
    clock.pass_time(LEASE)
    threshold = Threshold()
    other = await opened(boundary=threshold)
    threshold.close()
    taking = asyncio.create_task(other.supervision.lead("next", lease=LEASE, now=clock.now()))
    await threshold.reached()

    sweeping = asyncio.create_task(store.supervision.bury(stale, lease=-LEASE, now=in_time))
    await schema.waits_for_a_lock("FROM {schema}.leader")
    threshold.open()

    assert (await taking).holder == "next"
    with pytest.raises(LeaseLost):
        await sweeping
    assert (await store.task("t")).locked_by == task.locked_by


async def test_of_many_processes_that_ask_at_once_one_leads(opened: OpenStore, clock: ManualClock):
    stores = [await opened() for _ in range(4)]

    for round_ in range(1, 11):
        answers = await asyncio.gather(
            *(
                one.supervision.lead(f"process-{number}", lease=LEASE, now=clock.now())
                for number, one in enumerate(stores)
                for _ in range(3)
            )
        )
        assert {answer.epoch for answer in answers} == {round_}
        assert len(set(answers)) == 1
        clock.pass_time(LEASE)


async def test_the_servers_clock_decides_whether_a_lease_ran_out(opened: OpenStore, clock: ManualClock):
    """Who takes over believes that it is 2030, and is told otherwise."""
    store = await opened(server_clock=True)
    first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
    clock.pass_time(FOR_LONG)

    assert await store.supervision.lead("two", lease=LEASE, now=clock.now()) == first
    assert await store.supervision.wake(first, now=clock.now(), limit=1) == 0, "and whether it still leads"


async def test_other_processes_hear_that_something_is_held_back(
    opened: OpenStore, store: PostgresStore, clock: ManualClock
):
    heard: list[Changes] = []

    async def news() -> list[Changes]:
        return heard

    (await opened()).listen(heard.append)
    await eventually(news, lambda told: any(one.foreign for one in told), what="an open ear")
    leader = await store.supervision.lead("one", lease=LEASE, now=clock.now())
    control = Control(subject=Subject.WORKFLOW, name="ship", paused=True, by="one", at=clock.now())

    assert await store.supervision.hold_back(leader, control, message="too often", now=clock.now())

    await eventually(news, lambda told: any(one.controls for one in told), what="news of the pause")
