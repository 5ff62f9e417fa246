"""Searches among many tasks: everything that matches is found, a page at a time, and no page takes long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay import searching
from backstay.domain.states import TaskState
from backstay.domain.step import Failure
from backstay.searching import newest, search
from backstay.store.base import Store, TaskFilter
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder, submitted
from tests.support.databases import Database

DAY = timedelta(days=1)


class Hurried(ManualClock):
    """A clock for which each look takes a second."""

    def monotonic(self) -> float:
        self.pass_time(timedelta(seconds=1))
        return super().monotonic()


@pytest.fixture
async def store(database: Database):
    store = database.store()
    await store.open()
    yield store
    await store.close()


async def found(store: Store, clock: ManualClock, *, error_text: str | None = None, **wanted) -> list[str]:
    """The ids of all pages together."""
    ids: list[str] = []
    before = None
    while True:
        page = await search(
            store, TaskFilter(before=before, limit=2, **wanted), error_text=error_text, clock=clock
        )
        ids += [task.id for task in page.tasks]
        before = page.before
        if before is None:
            return ids


async def test_what_is_met_rarely_is_found_stride_by_stride(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "STRIDE", 2)
    clock = ManualClock()
    await submitted(store, clock, "rare-1", attributes={"customer": "c9"})
    await submitted(store, clock, *(f"t{number}" for number in range(20)))
    await submitted(store, clock, "rare-2", "rare-3", "rare-4", attributes={"customer": "c9"})

    assert await found(store, clock, attribute=("customer", "c9")) == ["rare-4", "rare-3", "rare-2", "rare-1"]
    assert await found(store, clock, attribute=("customer", "c1")) == []
    assert len(await found(store, clock)) == 24
    assert await newest(store) > 0


async def test_a_search_stops_after_a_while_and_goes_on_where_it_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "STRIDE", 2)
    clock = Hurried()
    await submitted(store, clock, "rare", attributes={"customer": "c9"})
    await submitted(store, clock, *(f"t{number}" for number in range(9)))
    wanted = TaskFilter(attribute=("customer", "c9"), limit=2)

    first = await search(store, wanted, error_text=None, clock=clock)

    assert (first.tasks, first.is_cut) == ([], True)
    assert await found(store, clock, attribute=("customer", "c9")) == ["rare"]


async def test_a_time_is_gone_to_without_walking_there(store: Store, monkeypatch: pytest.MonkeyPatch):
    clock = ManualClock()
    for day in range(8):
        await submitted(store, clock, f"day-{day}")
        clock.pass_time(DAY)
    start = clock.now() - 8 * DAY
    looks: list[TaskFilter] = []
    tasks = store.tasks

    async def counted(wanted: TaskFilter):
        looks.append(wanted)
        return await tasks(wanted)

    monkeypatch.setattr(store, "tasks", counted)
    middle = await found(store, clock, created_after=start + 1.5 * DAY, created_before=start + 3.5 * DAY)
    newest_looked_at = max(one.before for one in looks if one.limit > 1 and one.before is not None)

    assert middle == ["day-3", "day-2"]
    assert newest_looked_at < await newest(store), "nothing younger is walked through"
    assert await found(store, clock, created_before=start) == []
    assert await found(store, clock, created_after=start + 8 * DAY) == []


async def test_errors_are_found_by_what_they_say_in_letters_of_either_case(store: Store):
    clock = ManualClock()
    alice = await Holder.joined(store, clock, "alice")
    await submitted(store, clock, "a", "b", "c")
    for claimed, said in zip(
        await alice.claim(), ("no road to Atlantis", "No ROAD", "50 % off"), strict=True
    ):
        await alice.leave(claimed.task, TaskState.ERROR, error=Failure("Permanent", said))
    errors = (TaskState.ERROR,)

    assert await found(store, clock, states=errors, error_text="no road") == ["b", "a"]
    assert await found(store, clock, states=errors, error_text="permanent") == ["c", "b", "a"]
    assert await found(store, clock, states=errors, error_text="%") == ["c"], "signs stand for themselves"
    assert await found(store, clock, states=errors, error_text="nothing") == []
