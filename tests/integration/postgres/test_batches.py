"""One transition in trouble is its writer's trouble; the hundreds that are written with it are not."""

from __future__ import annotations

import asyncio
import time

import pytest

from backstay.domain.operate import Amendment
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, Conflict, LeaseLost
from backstay.observe import STORE_UNAVAILABLE, counters
from backstay.store.postgres import PostgresStore, committer
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, SHIP, Holder, submitted, taken_away
from backstay.testing.records import a_step, let_go, new_task
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.leading import seize_lead
from tests.support.running import eventually

MANY = [f"t{number:03}" for number in range(300)]
CHOSEN = 150

Answers = list[BackstayError | None]


@pytest.fixture
def threshold() -> Threshold:
    return Threshold()


@pytest.fixture
async def alice(opened: OpenStore, clock: ManualClock, threshold: Threshold) -> Holder:
    return await Holder.joined(await opened(boundary=threshold), clock, "alice")


@pytest.fixture
async def tasks(store: PostgresStore, clock: ManualClock, alice: Holder) -> list[TaskRecord]:
    """A few hundred tasks in Alice's hands."""
    await submitted(store, clock, *MANY)
    return [one.task for one in await alice.claim()]


def finishing(alice: Holder, tasks: list[TaskRecord]) -> list[asyncio.Future[BackstayError | None]]:
    return [alice.post(task, steps=[a_step()], task=let_go(task, TaskState.PROCESSED)) for task in tasks]


async def all_but_the_chosen(answers: list[asyncio.Future[BackstayError | None]]) -> None:
    """All but one are answered: they are written."""
    others = answers[:CHOSEN] + answers[CHOSEN + 1 :]
    assert await asyncio.gather(*others) == [None] * len(others)


async def test_of_hundreds_only_the_one_that_lost_its_lock_is_refused(
    store: PostgresStore, clock: ManualClock, alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    await taken_away(store, clock, tasks[CHOSEN])

    answers = finishing(alice, tasks)

    await all_but_the_chosen(answers)
    assert isinstance(await answers[CHOSEN], LeaseLost)
    assert await schema.states() == {"processed": len(MANY) - 1, "pending": 1}
    assert await schema.value("SELECT count(*) FROM {schema}.step") == len(MANY) - 1


async def test_of_hundreds_only_the_one_that_breaks_a_rule_of_the_schema_is_refused(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    good = finishing(alice, tasks[:CHOSEN])
    bad = alice.post(tasks[CHOSEN], steps=[a_step(StepState.COMPLETED, output=None, input=b'"7 Elm Road"')])
    more = finishing(alice, tasks[CHOSEN + 1 :])

    await all_but_the_chosen([*good, bad, *more])
    refusal = await bad
    assert isinstance(refusal, Conflict)
    assert not isinstance(refusal, LeaseLost)
    assert "step_check" in str(refusal)
    # What is refused is logged: the row that the server quotes is not in it, in neither form.
    assert "Elm" not in str(refusal)
    assert b"Elm".hex() not in str(refusal)
    assert await schema.states() == {"processed": len(MANY) - 1, "processing": 1}


async def test_what_a_refused_transition_brought_along_is_not_written_either(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    child = new_task("child", parent_key=tasks[0].key, parent_step="child:1")

    refusal = await alice.write(
        tasks[0],
        steps=[a_step(), a_step(StepState.RUNNING, key="charge:2", complete_by=None)],
        task=let_go(tasks[0], TaskState.PROCESSED),
        children=[child],
    )

    assert isinstance(refusal, Conflict)
    assert await schema.rows("SELECT key FROM {schema}.step") == []
    assert await schema.rows("SELECT id FROM {schema}.task WHERE id = 'child'") == []
    assert await schema.value("SELECT state FROM {schema}.task WHERE key = $1", tasks[0].key) == "processing"


async def test_of_hundreds_only_the_one_that_somebody_holds_waits_and_goes_through_afterwards(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    async with schema.holding(MANY[CHOSEN]):
        answers = finishing(alice, tasks)
        await all_but_the_chosen(answers)
        assert not answers[CHOSEN].done()

    assert await answers[CHOSEN] is None
    assert await schema.states() == {"processed": len(MANY)}


async def test_what_follows_a_held_transition_on_the_same_task_stays_behind_it(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    async with schema.holding(MANY[0], MANY[1]):
        first = alice.post(tasks[0], steps=[a_step(StepState.RUNNING)])
        second = alice.post(tasks[0], steps=[a_step()])
        last = alice.post(tasks[0], task=let_go(tasks[0], TaskState.PROCESSED))
        assert await alice.write(tasks[2], steps=[a_step()]) is None
        assert [one.done() for one in (first, second, last)] == [False, False, False]

    assert [await one for one in (first, second, last)] == [None, None, None]
    assert await schema.states() == {"processed": 1, "processing": len(MANY) - 1}


async def test_while_one_task_is_held_the_others_go_on_at_their_own_pace(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    async with schema.holding(MANY[0]):
        held = alice.post(tasks[0], steps=[a_step()])
        assert await alice.write(tasks[1], steps=[a_step()]) is None, "it learns that the task is held"

        began = time.monotonic()
        for number in range(20):
            assert await alice.write(tasks[1], steps=[a_step(key=f"charge:{number}")]) is None
        took = time.monotonic() - began
        assert not held.done()

    print(f"20 commits beside a held task: {took:.2f} s")
    assert await held is None
    assert took < 5, "they must not wait for the held one again and again"


async def test_a_sign_of_life_does_not_wait_for_the_batch_that_is_being_written(
    store: PostgresStore, clock: ManualClock, alice: Holder, tasks: list[TaskRecord], threshold: Threshold
):
    threshold.close()
    answer = alice.post(tasks[0], steps=[a_step()])
    await threshold.reached()

    began = time.monotonic()
    await store.beat(alice.owner, now=clock.now())
    took = time.monotonic() - began
    assert not answer.done()
    threshold.open()

    print(f"heartbeat: {took:.3f} s")
    assert await answer is None
    assert took < 0.5


async def test_a_child_that_ends_while_its_parent_is_held_waits_for_it(
    store: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema
):
    parent = await alice.hold("parent")
    await alice.write(parent, children=[new_task("child", parent_key=parent.key, parent_step="child:1")])
    [child] = await alice.claim()

    async with schema.holding("parent"):
        answer = alice.post(child.task, task=let_go(child.task, TaskState.PROCESSED))
        done, _ = await asyncio.wait([answer], timeout=1.3)
        assert not done

    assert await answer is None


# A server that cannot write


# The disk is full, as far as this table is concerned.
_FULL = """
CREATE FUNCTION {schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE disk_full USING MESSAGE = 'could not extend file'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON {schema}.step EXECUTE FUNCTION {schema}.no_room();
"""


async def test_turns_for_which_there_is_no_room_are_kept_and_written_once_there_is(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    await schema.execute(_FULL)
    seen = counters[STORE_UNAVAILABLE]

    async def tried() -> int:
        return counters[STORE_UNAVAILABLE] - seen

    answers = finishing(alice, tasks)
    await eventually(tried, lambda number: number >= 3, what="a few attempts")
    assert not any(answer.done() for answer in answers)
    await schema.execute("DROP TRIGGER no_room ON {schema}.step")

    assert await asyncio.gather(*answers) == [None] * len(tasks)
    assert await schema.states() == {"processed": len(MANY)}


async def test_a_statement_that_an_administrator_cancels_is_executed_again(
    alice: Holder, tasks: list[TaskRecord], schema: Schema
):
    async with schema.slow_commits("step"):
        answers = finishing(alice, tasks[:10])
        backend = await schema.one_inside_commit()
        await schema.rows("SELECT pg_cancel_backend($1)", backend)
        await schema.one_inside_commit(after=backend)
        assert not any(answer.done() for answer in answers)

    assert await asyncio.gather(*answers) == [None] * 10
    assert await schema.value("SELECT count(*) FROM {schema}.step") == 10


# Deadlocks


async def test_nobody_waits_for_each_other_when_parents_and_children_change_at_once(
    store: PostgresStore, opened: OpenStore, clock: ManualClock, alice: Holder, schema: Schema
):
    other = await opened()
    bob = await Holder.joined(other, clock, "bob")
    [parent] = [one for one in await _family(store, clock, alice) if one.id == "parent"]
    children = await alice.claim(limit=10) + await bob.claim(limit=10)
    holders = {alice.owner.id: alice, bob.owner.id: bob}
    leader = await seize_lead(store, now=clock.now())
    before = await schema.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")

    async def shake(target: PostgresStore, name: str) -> None:
        for _ in range(15):
            await target.amend(name, _unchanged, now=clock.now())

    async def write(child: TaskRecord) -> None:
        assert child.locked_by is not None
        holder = holders[child.locked_by]
        for number in range(5):
            assert await holder.write(child, steps=[a_step(key=f"charge:{number}")]) is None
        await holder.leave(child, TaskState.PROCESSED)

    async with asyncio.timeout(20):
        await asyncio.gather(
            *(write(one.task) for one in children),
            *(
                shake(target, name)
                for target in (store, other)
                for name in ("parent", "child-03", "child-12")
            ),
            *(
                target.supervision.bury(leader, lease=LEASE, now=clock.now())
                for target in (store, other)
                for _ in range(10)
            ),
        )

    after = await schema.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert after == before
    assert (await store.task(parent.id)).state is TaskState.PROCESSING


async def _family(store: PostgresStore, clock: ManualClock, alice: Holder) -> list[TaskRecord]:
    parent = await alice.hold("parent")
    children = [
        new_task(f"child-{number:02}", parent_key=parent.key, parent_step=f"child:{number}")
        for number in range(20)
    ]
    assert await alice.write(parent, children=children) is None
    return [parent]


def _unchanged(task: TaskRecord, _steps: list[StepRecord]) -> Amendment:
    return Amendment(task)


# Many


async def test_twenty_thousand_transitions_at_once_are_written_in_a_few_batches(
    store: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema
):
    await submitted(store, clock, *(f"{number:05}" for number in range(4_000)))
    claimed = [one.task for one in await alice.claim(limit=4_000, runs=[SHIP])]
    before = await schema.value("SELECT sum(number) FROM {schema}.writer")

    began = time.monotonic()
    answers = [
        alice.post(task, steps=[a_step(key=f"charge:{number}")]) for number in range(5) for task in claimed
    ]
    assert await asyncio.gather(*answers) == [None] * 20_000

    print(f"20,000 transitions: {time.monotonic() - began:.1f} s")
    assert await schema.value("SELECT count(*) FROM {schema}.step") == 20_000
    batches = await schema.value("SELECT sum(number) FROM {schema}.writer") - before
    assert batches <= 20_000 / committer.BATCH_MAX + 1


async def test_a_bad_transition_among_thousands_costs_the_others_a_moment_and_not_the_lease(
    store: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema
):
    await submitted(store, clock, *(f"{number:05}" for number in range(4_000)))
    claimed = [one.task for one in await alice.claim(limit=4_000)]

    began = time.monotonic()
    bad = alice.post(claimed[2_000], steps=[a_step(StepState.COMPLETED, output=None)])
    answers = [alice.post(task, steps=[a_step()]) for task in claimed if task != claimed[2_000]]
    beats: list[float] = []
    while not all(answer.done() for answer in answers):
        asked = time.monotonic()
        await store.beat(alice.owner, now=clock.now())
        beats.append(time.monotonic() - asked)
        await asyncio.sleep(0.05)

    print(f"4,000 transitions around a bad one: {time.monotonic() - began:.1f} s; beat {max(beats):.2f} s")
    assert isinstance(await bad, Conflict)
    assert await asyncio.gather(*answers) == [None] * 3_999
    assert max(beats) < 1
