"""A full disk costs time, not work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from backstay.domain.states import TaskState
from backstay.errors import BackstayError, Closed, LeaseLost, StoreFull, UnknownTask
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder, submitted
from backstay.testing.promises.payloads import large
from backstay.testing.records import a_step, let_go, new_task
from tests.integration.sqlite.file import change

LARGE = large("x")


@pytest.fixture
async def full(store: SqliteStore, clock: ManualClock) -> Callable[..., None]:
    """Call it with no argument to fill the disk, with ``room=True`` to make room again."""

    def limit(*, room: bool = False) -> None:
        # Straight on the writing connection: while it is full, nothing gets through the front door.
        database = store._session.writer._connection
        [pages] = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {2**30 if room else pages}").fetchone()

    return limit


async def test_a_submission_without_room_fails_and_nothing_of_it_is_written(
    store: SqliteStore, clock: ManualClock, full: Callable[..., None]
):
    await submitted(store, clock, "before")
    full()

    with pytest.raises(StoreFull, match="no room left"):
        await store.submit([new_task("small"), new_task("large", input=LARGE)], now=clock.now())

    for name in ("small", "large"):
        with pytest.raises(UnknownTask):
            await store.task(name)
    full(room=True)
    assert len(await submitted(store, clock, "small", "large", input=LARGE)) == 2


async def test_a_turn_without_room_is_kept_and_settled_once_there_is_room_again(
    store: SqliteStore, clock: ManualClock, alice: Holder, full: Callable[..., None]
):
    task = await alice.hold("t")
    full()
    answer = alice.post(task, steps=[a_step(output=LARGE)], task=let_go(task, TaskState.PROCESSED))

    # This call rides with the turn, so it shows that the turn was tried.
    with pytest.raises(StoreFull):
        await store.beat(alice.owner, now=clock.now())
    assert not answer.done()
    assert (await store.task("t")).state is TaskState.PROCESSING
    full(room=True)

    assert await answer is None
    assert (await store.task("t")).state is TaskState.PROCESSED
    assert [step.output for step in await store.steps("t")] == [LARGE]


async def test_turns_that_were_kept_are_settled_in_the_order_in_which_they_came(
    store: SqliteStore, clock: ManualClock, alice: Holder, full: Callable[..., None]
):
    task = await alice.hold("t")
    full()
    settled: list[asyncio.Future[BackstayError | None]] = []
    answers = []
    for number in range(3):
        answers.append(alice.post(task, steps=[a_step(output=b"%d" % number + b" " * 200_000)]))
        answers[-1].add_done_callback(settled.append)
        with pytest.raises(StoreFull):
            await store.beat(alice.owner, now=clock.now())
    full(room=True)

    assert await asyncio.gather(*answers) == [None, None, None]
    assert settled == answers
    assert [step.output and step.output[:1] for step in await store.steps("t")] == [b"2"]


async def test_a_turn_that_was_kept_loses_its_lock_like_any_other(
    store: SqliteStore, path: Path, clock: ManualClock, alice: Holder, full: Callable[..., None]
):
    task = await alice.hold("t")
    full()
    answer = alice.post(task, steps=[a_step(output=LARGE)])
    with pytest.raises(StoreFull):
        await store.beat(alice.owner, now=clock.now())

    change(path, "UPDATE instance SET live = 0, epoch = epoch + 1")
    full(room=True)

    assert isinstance(await answer, LeaseLost)


async def test_a_store_that_is_closed_while_it_is_full_tells_those_who_wait(
    store: SqliteStore, alice: Holder, full: Callable[..., None]
):
    task = await alice.hold("t")
    full()
    answer = alice.post(task, steps=[a_step(output=LARGE)])

    await store.close()

    assert isinstance(await answer, Closed)
