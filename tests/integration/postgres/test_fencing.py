"""Declared dead while it writes: either the batch is written whole, or it is refused whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from urllib.parse import quote

import pytest

from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import BackstayError, LeaseLost
from backstay.store.base import Claimed
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.tables import Tables
from backstay.store.supervision import Freed
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND, Holder, submitted
from backstay.testing.records import NOON, a_step, let_go, replace
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.leading import seize_lead

BACKLOG = [f"t{number}" for number in range(5)]


class Alice:
    """An instance that holds a few tasks, and gave no sign of life for longer than a lease."""

    def __init__(self, holder: Holder, threshold: Threshold, claimed: list[Claimed]) -> None:
        self.owner, self.claim = holder.owner, holder.claim
        self._holder = holder
        self._claimed = claimed
        #: Where a test can stop what she commits.
        self.threshold = threshold

    @classmethod
    async def late(cls, store: PostgresStore, clock: ManualClock, threshold: Threshold, name: str) -> Alice:
        holder = await Holder.joined(store, clock, name)
        await submitted(store, clock, *(f"{name}-{task}" for task in BACKLOG))
        claimed = await holder.claim()
        clock.pass_time(LEASE + SECOND)
        return cls(holder, threshold, claimed)

    def finish(self, number: int = len(BACKLOG)) -> asyncio.Future[list[BackstayError | None]]:
        """So many of her tasks, in one batch."""
        return asyncio.gather(
            *(
                self._holder.post(one.task, steps=[a_step()], task=let_go(one.task, TaskState.PROCESSED))
                for one in self._claimed[:number]
            )
        )


@pytest.fixture
async def leader(store: PostgresStore, clock: ManualClock) -> Leader:
    return await seize_lead(store, now=clock.now())


@pytest.fixture
async def alice(opened: OpenStore, clock: ManualClock) -> Alice:
    threshold = Threshold()
    return await Alice.late(await opened(boundary=threshold), clock, threshold, "alice")


# The batch was first


async def test_a_burial_leaves_an_instance_alone_whose_batch_is_about_to_be_committed(
    store: PostgresStore, clock: ManualClock, leader: Leader, alice: Alice, schema: Schema
):
    alice.threshold.close()
    answers = alice.finish(4)
    await alice.threshold.reached()

    assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed()
    alice.threshold.open()

    assert await answers == [None] * 4
    left = await store.supervision.bury(leader, lease=LEASE, now=clock.now())
    assert left == Freed(runs=1), "the next round finds what the batch left"
    assert await schema.states() == {"processed": 4, "pending": 1}
    assert await schema.held_by_the_dead() == []


async def test_a_burial_leaves_an_instance_alone_that_is_just_claiming(
    store: PostgresStore, clock: ManualClock, leader: Leader, alice: Alice, schema: Schema
):
    await submitted(store, clock, "late")
    alice.threshold.close()
    claiming = asyncio.create_task(alice.claim())
    await alice.threshold.reached()

    assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed()
    alice.threshold.open()

    assert [one.task.id for one in await claiming] == ["late"]
    assert await store.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed(runs=len(BACKLOG) + 1)
    assert await schema.held_by_the_dead() == []


async def test_a_graceful_stop_waits_for_the_batch_that_is_about_to_be_committed(
    store: PostgresStore, clock: ManualClock, alice: Alice, schema: Schema
):
    alice.threshold.close()
    answers = alice.finish(4)
    await alice.threshold.reached()

    retiring = asyncio.create_task(store.retire(alice.owner, now=clock.now()))
    await schema.waits_for_a_lock("UPDATE {schema}.instance")
    alice.threshold.open()

    assert await answers == [None] * 4
    assert await retiring == 1
    assert await schema.held_by_the_dead() == []


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_claim_is_seen_by_the_stop_that_waited_for_it_whatever_isolation_the_database_has(
    opened: OpenStore, postgres_url: str, clock: ManualClock, schema: Schema, isolation: str
):
    url = f"{postgres_url}&default_transaction_isolation={quote(isolation)}"
    threshold = Threshold()
    hers, others = await opened(url, boundary=threshold), await opened(url)
    alice = await Holder.joined(hers, clock, "alice")
    await submitted(others, clock, "t")

    threshold.close()
    claiming = asyncio.create_task(alice.claim())
    await threshold.reached()
    retiring = asyncio.create_task(others.retire(alice.owner, now=clock.now()))
    await schema.waits_for_a_lock("UPDATE {schema}.instance")
    threshold.open()

    assert len(await claiming) == 1
    assert await retiring == 1
    assert await schema.held_by_the_dead() == []


# The burial was first


class Burial:
    """A burial of all who are late that stands just before its COMMIT."""

    def __init__(
        self, store: PostgresStore, clock: ManualClock, leader: Leader, threshold: Threshold
    ) -> None:
        self._threshold = threshold
        threshold.close()
        self.freed = asyncio.create_task(store.supervision.bury(leader, lease=LEASE, now=clock.now()))

    async def begun(self) -> None:
        await self._threshold.reached()

    def go_on(self) -> None:
        self._threshold.open()


@pytest.fixture
async def burial(opened: OpenStore, clock: ManualClock, leader: Leader, alice: Alice) -> Burial:
    threshold = Threshold()
    burial = Burial(await opened(boundary=threshold), clock, leader, threshold)
    await burial.begun()
    return burial


async def test_a_batch_that_comes_upon_its_burial_waits_for_it_and_is_refused_whole(
    alice: Alice, burial: Burial, schema: Schema
):
    answers = alice.finish()
    await schema.waits_for_a_lock("FROM {schema}.instance")
    assert not answers.done()
    burial.go_on()

    assert await burial.freed == Freed(runs=len(BACKLOG))
    assert {type(answer) for answer in await answers} == {LeaseLost}
    assert await schema.states() == {"pending": len(BACKLOG)}
    assert await schema.rows("SELECT * FROM {schema}.step") == []
    assert await schema.held_by_the_dead() == []


async def test_a_claim_that_comes_upon_its_burial_waits_for_it_and_gets_nothing(
    alice: Alice, burial: Burial, schema: Schema
):
    claiming = asyncio.create_task(alice.claim())
    await schema.waits_for_a_lock("FROM {schema}.instance")
    burial.go_on()

    assert await burial.freed == Freed(runs=len(BACKLOG))
    with pytest.raises(LeaseLost):
        await claiming
    assert await schema.states() == {"pending": len(BACKLOG)}
    assert await schema.held_by_the_dead() == []


async def test_a_burial_that_is_given_up_costs_nobody_anything(alice: Alice, burial: Burial, schema: Schema):
    answers = alice.finish()

    burial.freed.cancel()

    assert await answers == [None] * len(BACKLOG)
    assert await schema.states() == {"processed": len(BACKLOG)}


# Whoever is first


async def test_whoever_comes_first_a_batch_is_written_whole_or_refused_whole(
    opened: OpenStore, store: PostgresStore, clock: ManualClock, leader: Leader, schema: Schema
):
    hers = await opened()
    chance = Random(7)
    outcomes: Counter[str] = Counter()
    for number in range(40):
        alice = await Alice.late(hers, clock, Threshold(), f"alice-{number}")

        async def bury_soon() -> Freed:
            await asyncio.sleep(chance.random() * 0.004)
            return await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        answers, freed = await asyncio.gather(alice.finish(), bury_soon())

        outcome = {type(answer) for answer in answers}
        assert (outcome, freed.runs) in [({type(None)}, 0), ({LeaseLost}, len(BACKLOG))]
        outcomes["refused" if freed.runs else "written"] += 1
        assert await schema.held_by_the_dead() == []
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())
        await schema.execute("DELETE FROM {schema}.step; DELETE FROM {schema}.task")

    print(dict(outcomes))


# A sweep


async def test_a_step_that_is_answered_while_a_sweep_comes_for_it_is_left_to_its_holder(
    store: PostgresStore,
    clock: ManualClock,
    leader: Leader,
    schema: Schema,
    monkeypatch: pytest.MonkeyPatch,
):
    """A sweep sees what is overdue before it holds the task's lock; the holder may write in between."""
    bob = await Holder.joined(store, clock, "bob")
    task = await bob.hold("t")
    steps = [a_step(StepState.RUNNING, key="charge:1"), a_step(StepState.RUNNING, key="charge:2")]
    assert await bob.write(task, steps=steps) is None
    answered = a_step(key="charge:1")
    begun_anew = replace(steps[1], attempt=2, complete_by=NOON + LEASE * 1_000)
    assert await bob.write(task, steps=[answered, begun_anew]) is None
    clock.pass_time(NOON + LEASE * 100 - clock.now())
    run = Tables.run

    async def seen_before(tables: Tables, query: str, **values: object) -> object:
        found = await run(tables, query, **values)
        return [(task.key, step.key, "ship") for step in steps] if query == "steps_overdue" else found

    monkeypatch.setattr(Tables, "run", seen_before)

    sweep = store.supervision.expire_steps(leader, grace=SECOND, now=clock.now(), limit=10)
    assert await sweep == 0
    assert await schema.rows("SELECT locked_by, failure_count FROM {schema}.task") == [("bob", 0)]
    assert await schema.rows("SELECT sum(failure_count), bool_or(unsure) FROM {schema}.step") == [(0, False)]
