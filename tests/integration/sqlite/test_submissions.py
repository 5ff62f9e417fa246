"""Many submissions in one commit: each is answered for itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from backstay.domain.states import StepState
from backstay.domain.step import StepRecord
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, IdConflict
from backstay.store.base import Submitted
from backstay.store.sqlite import SqliteStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def task(id: str, input: bytes = b"1") -> NewTask:
    return NewTask(id=id, workflow="w", version=1, input=input)


async def submit_together(store: SqliteStore, tasks: list[NewTask]) -> list[Submitted | BackstayError]:
    answers = await asyncio.gather(*(store.submit([one], now=NOON) for one in tasks))
    return [answer for [answer] in answers]


async def test_new_tasks_of_one_commit_are_all_there_each_under_a_key_of_its_own(tmp_path: Path):
    store = SqliteStore(f"sqlite:///{tmp_path / 'x.db'}")
    await store.open()
    try:
        answers = await submit_together(store, [task(f"t{number}") for number in range(3_000)])
        kept = [await store.task(f"t{number}") for number in (0, 1_499, 2_999)]
    finally:
        await store.close()

    tasks = [answer.task for answer in answers if isinstance(answer, Submitted) and answer.created]
    assert [one.id for one in tasks] == [f"t{number}" for number in range(3_000)]
    assert len({one.key for one in tasks}) == 3_000
    assert kept == [tasks[0], tasks[1_499], tasks[2_999]]


async def test_an_id_that_is_taken_costs_the_others_of_its_commit_nothing(tmp_path: Path):
    store = SqliteStore(f"sqlite:///{tmp_path / 'x.db'}")
    await store.open()
    try:
        await store.submit([task("known")], now=NOON)
        wanted = [task("new"), task("known"), task("known", b"2"), task("twice"), task("twice")]
        new, known, other, first, second = await submit_together(store, wanted)
    finally:
        await store.close()

    assert isinstance(new, Submitted)
    assert isinstance(known, Submitted)
    assert isinstance(other, IdConflict)
    assert isinstance(first, Submitted)
    assert isinstance(second, Submitted)
    assert (new.created, known.created, first.created, second.created) == (True, False, True, False)
    assert first.task == second.task


async def test_plans_and_large_inputs_are_entered_with_their_tasks(tmp_path: Path):
    store = SqliteStore(f"sqlite:///{tmp_path / 'x.db'}", inline_bytes_max=10)
    planned = StepRecord(task_key=0, key="s:1", agent="a", operation="s", state=StepState.PENDING)
    large = NewTask(id="large", workflow="w", version=1, input=b'"' + b"x" * 50 + b'"', plan=(planned,))
    await store.open()
    try:
        await submit_together(store, [task("small"), large])
        kept, steps = await store.task("large"), await store.steps("large")
    finally:
        await store.close()

    assert kept.input == large.input
    assert [(step.task_key, step.key) for step in steps] == [(kept.key, "s:1")]
