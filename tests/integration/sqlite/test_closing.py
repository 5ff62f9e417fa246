"""What a closed store leaves behind: nothing but the file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from backstay.domain.states import TaskState
from backstay.errors import Closed
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from backstay.testing.records import a_step, let_go, new_task
from tests.integration.sqlite.file import OpenStore


async def test_what_was_handed_in_before_closing_is_written(opened: OpenStore, clock: ManualClock):
    store = await opened()
    alice = await Holder.joined(store, clock, "alice")
    task = await alice.hold("t")
    answer = alice.post(task, task=let_go(task, TaskState.PROCESSED))

    await store.close()

    assert await answer is None
    assert (await (await opened()).task("t")).state is TaskState.PROCESSED


async def test_a_closed_store_holds_on_to_nothing(opened: OpenStore, path: Path, clock: ManualClock):
    store = await opened()
    await Holder.joined(store, clock, "alice")
    await store.instances()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("backstay")]

    await store.close()
    await store.close()

    assert [thread for thread in threading.enumerate() if thread.name.startswith("backstay")] == []
    # SQLite removes its log when the last connection to the file closes.
    assert not path.with_name("store.db-wal").exists()


async def test_a_closed_store_refuses_everything(store: SqliteStore, clock: ManualClock, alice: Holder):
    task = await alice.hold("t")
    await store.close()

    with pytest.raises(Closed):
        await store.submit([new_task("late")], now=clock.now())
    with pytest.raises(Closed):
        await store.task("t")
    with pytest.raises(Closed):
        await alice.write(task, steps=[a_step()])
    with pytest.raises(Closed):
        store.listen(print)


async def test_a_store_that_was_never_opened_is_closed():
    store = SqliteStore("sqlite:///never.db")

    with pytest.raises(Closed):
        await store.instances()
    await store.close()
