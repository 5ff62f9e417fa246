"""How long tasks are kept must fit what may ask for the same task again; how the supervisor forgets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from backstay.definitions.queues import QueueDefinition
from backstay.domain.lease import Leader
from backstay.domain.states import TaskState
from backstay.errors import InvalidSetting, UnknownTask
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.retention import Kept, outlived
from backstay.supervisor.prune import Pruner, Walk, prune_by_hand
from backstay.testing import ManualClock
from backstay.testing.promises.children import FOR_CHILD, child_of
from backstay.testing.promises.holder import FOR_LONG, Holder, submitted
from backstay.testing.records import a_wait, let_go
from tests.support.databases import SqliteDatabase

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"task_retention": "7d"}, "task_retention 7d must be longer than stream_retention 7d"),
        ({"stream_retention": "14d"}, "task_retention 14d must be longer than stream_retention 14d"),
        (
            {"task_retention": "3d", "stream_retention": "2d", "stream_dedup_window": "3d"},
            "task_retention 3d must be longer than stream_dedup_window 3d",
        ),
        (
            {"task_retention": "1d", "stream_retention": "1h"},
            "must be longer than the time for which an Idemp",
        ),
    ],
)
def test_settings_that_would_forget_a_task_too_early_are_refused_by_both_names(
    options: dict[str, str], named: str
):
    with pytest.raises(InvalidSetting, match=named):
        Settings.load(options, environment={})


def test_a_queue_that_knows_ids_for_longer_than_tasks_are_kept_is_refused():
    settings = Settings.load({"task_retention": "2d", "stream_retention": "1d"}, environment={})

    with pytest.raises(
        InvalidSetting, match="task_retention 2d must be longer than the dedup window of queue"
    ):
        QueueDefinition(name="orders", dedup=2 * DAY).terms(settings)


@pytest.mark.parametrize(
    ("rows", "keys", "through"),
    [
        ([], [], None),
        ([(1, 5, True), (2, 6, False)], [1], None),
        ([(1, 5, True), (2, 6, True), (3, 7, False)], [1, 2], 3),
        ([(1, 5, True), (2, 6, True), (3, 10, True)], [1, 2], None),
        ([(1, 10, False), (2, 10, False), (3, 11, False)], [], None),
    ],
)
def test_a_look_goes_on_for_as_long_as_what_it_sees_is_old(
    rows: list[tuple[int, int, bool]], keys: list[int], through: int | None
):
    found = outlived(rows, before=10, limit=3)

    assert (found.keys, found.through) == (keys, through)


class TestPruner:
    @pytest.fixture
    async def store(self, sqlite_database: SqliteDatabase) -> AsyncIterator[Store]:
        store = sqlite_database.store()
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    async def test_the_leader_forgets_what_is_older_than_the_setting(self, store: Store, clock: ManualClock):
        leader = await store.supervision.lead("one", lease=FOR_LONG, now=clock.now())
        await self._work_done(store, clock, 450)
        pruner = Pruner(store.retention, lambda: leader, settings=Settings(), clock=clock)

        clock.pass_time(14 * DAY)
        assert await pruner.run_once() == {Kept.TASKS: 0, Kept.ALERTS: 0}
        clock.pass_time(DAY)
        assert await pruner.run_once() == {Kept.TASKS: 450, Kept.ALERTS: 0}

        with pytest.raises(UnknownTask):
            await store.task("t0")
        assert (await store.task("newest")).state is TaskState.PENDING

    @pytest.mark.parametrize("leader", [None, Leader(holder="stale", epoch=0)])
    async def test_who_does_not_lead_forgets_nothing(
        self, store: Store, clock: ManualClock, leader: Leader | None
    ):
        await self._work_done(store, clock, 3)
        clock.pass_time(15 * DAY)

        gone = await Pruner(store.retention, lambda: leader, settings=Settings(), clock=clock).run_once()

        assert gone == {Kept.TASKS: 0, Kept.ALERTS: 0}
        assert (await store.task("t0")).state is TaskState.PROCESSED

    async def test_a_person_has_a_whole_family_forgotten_at_once(self, store: Store, clock: ManualClock):
        alice = await Holder.joined(store, clock, "alice")
        parent = await alice.hold("order")
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)])
        [child] = await alice.claim()
        await alice.leave(child.task, TaskState.PROCESSED)
        known = a_wait(FOR_CHILD.kind, "pack:1", state="completed", output=b"1", position=1)
        assert await alice.write(parent, steps=[known], task=let_go(parent, TaskState.PROCESSED)) is None
        await submitted(store, clock, "newest")
        clock.pass_time(DAY)
        walk = Walk(store.retention, before=clock.now(), clock=clock)

        could = await prune_by_hand(walk, lambda *_: None, dry_run=True)
        gone = await prune_by_hand(walk, lambda *_: None, dry_run=False)

        assert could[Kept.TASKS] == 1, "what it started is counted once it is gone"
        assert gone[Kept.TASKS] == 2

    async def _work_done(self, store: Store, clock: ManualClock, number: int) -> None:
        alice = await Holder.joined(store, clock, "alice")
        await submitted(store, clock, *(f"t{one}" for one in range(number)))
        for claimed in await alice.claim():
            await alice.leave(claimed.task, TaskState.PROCESSED)
        await submitted(store, clock, "newest")
