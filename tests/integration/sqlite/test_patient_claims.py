"""A claim that finds nothing waits, and is answered by the commit that brings something."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.domain.operate import Amendment
from backstay.domain.states import TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import Closed, LeaseLost
from backstay.store.base import Claimed
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import SHIP, Holder, submitted
from backstay.testing.records import let_go
from tests.integration.sqlite.file import OpenStore

LONG = timedelta(minutes=5)
MOMENT = timedelta(milliseconds=20)
SOON = 10


def waiting_claim(
    store: SqliteStore, clock: ManualClock, holder: Holder, *, patience: timedelta = LONG, limit: int = 10
) -> asyncio.Task[list[Claimed]]:
    return asyncio.create_task(
        store.claim(holder.owner, [SHIP], limit=limit, now=clock.now(), patience=patience)
    )


async def tried(store: SqliteStore, clock: ManualClock, holder: Holder) -> None:
    """Come back once everything that was handed in has been through a commit."""
    await asyncio.sleep(0)  # The claim is handed in now.
    await store.beat(holder.owner, now=clock.now())


async def ids(claim: asyncio.Task[list[Claimed]]) -> list[str]:
    return [one.task.id for one in await asyncio.wait_for(claim, SOON)]


async def test_the_commit_that_enters_a_task_answers_the_claim_that_waits(
    store: SqliteStore, clock: ManualClock, alice: Holder
):
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)
    assert not claim.done()

    await submitted(store, clock, "t")

    assert await ids(claim) == ["t"]
    task = await store.task("t")
    assert (task.state, task.locked_by, task.lock_number) == (TaskState.PROCESSING, "alice", 1)


async def test_of_what_is_entered_no_more_is_claimed_than_was_asked_for(
    store: SqliteStore, clock: ManualClock, alice: Holder
):
    claim = waiting_claim(store, clock, alice, limit=2)
    await tried(store, clock, alice)

    await submitted(store, clock, "a", "b", "c")

    assert await ids(claim) == ["a", "b"]
    assert [one.task.id for one in await alice.claim()] == ["c"]


async def test_patience_ends_empty_handed(store: SqliteStore, clock: ManualClock, alice: Holder):
    assert await ids(waiting_claim(store, clock, alice, patience=MOMENT)) == []

    await submitted(store, clock, "t")
    assert [one.task.id for one in await alice.claim()] == ["t"]


async def test_a_task_that_is_freed_answers_it_as_well(store: SqliteStore, clock: ManualClock, alice: Holder):
    bob = await Holder.joined(store, clock, "bob")
    task = await bob.hold("t")
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)

    await bob.leave(task, TaskState.PENDING)

    assert await ids(claim) == ["t"]


async def test_a_task_that_an_operator_frees_answers_it_as_well(
    store: SqliteStore, clock: ManualClock, alice: Holder
):
    bob = await Holder.joined(store, clock, "bob")
    await bob.hold("t")
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)

    def free(found: TaskRecord, _steps: list[StepRecord]) -> Amendment:
        return Amendment(let_go(found, TaskState.PENDING, lock_number=found.lock_number + 1))

    await store.amend("t", free, now=clock.now())

    assert await ids(claim) == ["t"]


async def test_what_another_process_enters_answers_it(
    store: SqliteStore, clock: ManualClock, alice: Holder, opened: OpenStore
):
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)

    await submitted(await opened(), clock, "t")

    assert await ids(claim) == ["t"]


async def test_whoever_asked_and_went_gets_nothing(store: SqliteStore, clock: ManualClock, alice: Holder):
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim

    [task] = await submitted(store, clock, "t")

    assert (await store.task("t")).state is TaskState.PENDING
    assert [one.task.key for one in await alice.claim()] == [task.key]


async def test_a_claim_right_after_one_that_got_all_there_was_hears_of_what_comes_next(
    store: SqliteStore, clock: ManualClock, alice: Holder
):
    await submitted(store, clock, "first")
    assert await ids(waiting_claim(store, clock, alice)) == ["first"]
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)

    await submitted(store, clock, "second")

    assert await ids(claim) == ["second"]


async def test_who_was_declared_dead_is_told_so_although_it_waits(
    store: SqliteStore, clock: ManualClock, alice: Holder
):
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)
    await store.retire(alice.owner, now=clock.now())

    await submitted(store, clock, "t")

    with pytest.raises(LeaseLost):
        await asyncio.wait_for(claim, SOON)
    assert (await store.task("t")).state is TaskState.PENDING


async def test_closing_sends_home_who_waits(store: SqliteStore, clock: ManualClock, alice: Holder):
    claim = waiting_claim(store, clock, alice)
    await tried(store, clock, alice)

    await store.close()

    assert await ids(claim) == []
    with pytest.raises(Closed):
        await store.claim(alice.owner, [SHIP], limit=1, now=clock.now())
