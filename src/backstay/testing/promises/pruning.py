"""Tasks and alerts that have outlived their time, and what keeps them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

import pytest

from backstay.domain.alert import AlertKind, of_task
from backstay.domain.audit import Act
from backstay.domain.lease import Leader
from backstay.domain.message import Queue
from backstay.domain.operate import Amendment, request_undo
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError, LeaseLost, UnknownTask
from backstay.store.base import Store, Submitted
from backstay.store.records import AlertFilter, AuditFilter
from backstay.store.retention import Kept
from backstay.testing.clock import ManualClock
from backstay.testing.promises.children import FOR_CHILD, child_of
from backstay.testing.promises.holder import LEASE, MANY, SECOND, Holder, Promises, submitted
from backstay.testing.promises.payloads import INPUT, OUTPUT
from backstay.testing.records import a_step, a_wait, held, let_go, new_task

KEPT: Final = timedelta(days=14)

OVER: Final = (TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED)
STAYING: Final = sorted(frozenset(TaskState) - {*OVER, TaskState.PENDING, TaskState.PROCESSING})


class PruningPromises(Promises):
    # What goes

    @pytest.mark.parametrize("state", OVER)
    async def test_a_task_that_ended_long_ago_goes(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader, state: TaskState
    ) -> None:
        await self._ended(store, clock, alice, "t", state)

        assert await self._pruned(store, clock, leader) == 1

        with pytest.raises(UnknownTask):
            await store.task("t")

    async def test_everything_that_belongs_to_it_goes_with_it(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        await store.queues.declare(Queue(name="desk"), now=clock.now())
        task = await alice.hold("t", input=INPUT, reply_to="queue:desk")
        await store.signal("t", "go", b"1", dedup="once", now=clock.now())
        await alice.leave(task, TaskState.PROCESSED, steps=[a_step(output=OUTPUT)], output=OUTPUT)
        await self._later(store, clock)

        assert await self._pruned(store, clock, leader) == 1
        [again] = await store.submit([new_task("t", input=INPUT, reply_to="queue:desk")], now=clock.now())
        assert isinstance(again, Submitted)
        [claimed] = [one for one in await alice.claim() if one.task.id == "t"]

        assert again.created
        assert (claimed.steps, claimed.signals, [*claimed.requests]) == ([], [], [])
        assert claimed.task.input == INPUT

    @pytest.mark.parametrize("state", STAYING)
    async def test_a_task_that_is_not_over_stays_however_old_it_is(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader, state: TaskState
    ) -> None:
        """What stopped in error, or could not be undone, waits for a person."""
        await self._left(alice, await alice.hold("t"), state)
        await self._later(store, clock)

        assert await self._pruned(store, clock, leader) == 0
        assert (await store.task("t")).state is state

    async def test_a_task_that_waits_to_be_claimed_or_is_held_stays(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        await alice.hold("held")
        await submitted(store, clock, "pending")
        await self._later(store, clock)

        assert await self._pruned(store, clock, leader) == 0

    async def test_its_time_is_counted_from_its_end_not_from_its_beginning(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        task = await alice.hold("t")
        clock.pass_time(KEPT * 2)
        await alice.leave(task, TaskState.PROCESSED)
        await submitted(store, clock, "newest")

        clock.pass_time(KEPT)
        assert await self._pruned(store, clock, leader) == 0
        clock.pass_time(SECOND)
        assert await self._pruned(store, clock, leader) == 1

    async def test_until_it_goes_its_id_means_the_same_task(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.PROCESSED)
        await submitted(store, clock, "newest")
        clock.pass_time(KEPT)

        await self._pruned(store, clock, leader)

        [known] = await store.submit([new_task("t")], now=clock.now())
        assert isinstance(known, Submitted)
        assert not known.created

    async def test_the_newest_task_stays_so_that_its_key_is_never_given_again(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        task = await alice.hold("t")
        await alice.leave(task, TaskState.PROCESSED)
        clock.pass_time(KEPT + SECOND)

        assert await self._pruned(store, clock, leader) == 0
        [other] = await submitted(store, clock, "other")
        assert other.key > task.key

    # What others need

    async def test_a_child_stays_for_as_long_as_its_parent_is_there(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        """Its parent may be undone by an operator, and the child with it."""
        parent, child = await self._family(store, alice)
        await alice.leave(child, TaskState.PROCESSED)
        clock.pass_time(KEPT)
        [parent_again] = [one.task for one in await alice.claim() if one.task.id == parent.id]
        known = a_wait(FOR_CHILD.kind, "pack:1", state=StepState.COMPLETED, output=b"1", position=1)
        await alice.leave(parent_again, TaskState.PROCESSED, steps=[known])
        await submitted(store, clock, "newest")
        clock.pass_time(SECOND)

        assert await self._pruned(store, clock, leader) == 0, "the child is old enough, its parent is not"
        clock.pass_time(KEPT)
        assert await self._pruned(store, clock, leader) == 1
        with pytest.raises(UnknownTask):
            await store.task(parent.id)
        assert await self._pruned(store, clock, leader) == 1
        with pytest.raises(UnknownTask):
            await store.task(child.id)

    @pytest.mark.parametrize("state", [TaskState.WAITING, TaskState.ERROR, TaskState.UNDO_FAILED])
    async def test_a_parent_stays_for_as_long_as_a_child_of_it_is_open(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader, state: TaskState
    ) -> None:
        parent, child = await self._family(store, alice)
        await self._left(alice, child, state)
        await store.amend(parent.id, _cancelled, now=clock.now())
        await self._later(store, clock)

        assert await self._pruned(store, clock, leader) == 0
        assert (await store.task(parent.id)).state is TaskState.CANCELLED

    # Who may, and against whom

    async def test_what_an_operator_has_begun_to_undo_since_it_was_seen_stays(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        await self._ended(store, clock, alice, "t", TaskState.PROCESSED)
        seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=MANY)
        assert len(seen.keys) == 1

        await store.amend("t", request_undo, now=clock.now())

        assert await self._prune(store, clock, leader, seen.keys) == 0
        assert (await store.task("t")).state is TaskState.UNDOING
        assert len(await store.steps("t")) == 1

    async def test_undo_and_prune_at_once_leave_a_whole_task_or_none(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        for number in range(20):
            await self._ended(store, clock, alice, f"t{number}", TaskState.PROCESSED)
            seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=MANY)
            acts = [
                self._prune(store, clock, leader, seen.keys),
                store.amend(f"t{number}", request_undo, now=clock.now()),
            ]
            pruned, amended = await asyncio.gather(
                *(acts if number % 2 else reversed(acts)), return_exceptions=True
            )
            if not number % 2:
                pruned, amended = amended, pruned

            if isinstance(amended, TaskRecord):
                assert [step.key for step in await store.steps(f"t{number}")] == ["charge:1"]
                assert pruned == 0
            else:
                assert isinstance(amended, UnknownTask)
                assert pruned == 1

    async def test_a_submission_of_the_same_id_at_once_meets_the_old_task_or_makes_a_new_one(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        for number in range(20):
            await self._ended(store, clock, alice, f"t{number}", TaskState.CANCELLED)
            seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=MANY)

            _, answers = await asyncio.gather(
                self._prune(store, clock, leader, seen.keys),
                store.submit([new_task(f"t{number}"), new_task(f"u{number}")], now=clock.now()),
            )

            assert [isinstance(answer, Submitted) for answer in answers] == [True, True]
            [answer, _] = [answer for answer in answers if not isinstance(answer, BackstayError)]
            if answer.created:
                assert (await store.task(f"t{number}")).state is TaskState.PENDING

    async def test_who_no_longer_leads_forgets_nothing(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        first = await store.supervision.lead("one", lease=LEASE, now=clock.now())
        await self._ended(store, clock, alice, "t", TaskState.PROCESSED)
        await store.supervision.lead("other", lease=LEASE, now=clock.now())
        seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=MANY)

        with pytest.raises(LeaseLost):
            await self._prune(store, clock, first, seen.keys)

        assert (await store.task("t")).state is TaskState.PROCESSED
        assert await self._prune(store, clock, None, seen.keys) == 1, "a person may at any time"

    async def test_a_person_who_prunes_is_in_the_trail(self, store: Store, clock: ManualClock) -> None:
        act = Act(who="me", action="prune", target="store")

        await store.retention.record_pruning(act, before=_before(clock), now=clock.now())

        [entry] = await store.records.audit(AuditFilter(target="store"))
        assert (entry.who, entry.action) == ("me", "prune")
        assert entry.after == {"ended_before": _before(clock).isoformat()}

    # How far a look goes

    async def test_a_look_goes_so_far_and_the_next_one_goes_on_from_there(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "open")
        for name in ("a", "b", "c"):
            await self._ended(store, clock, alice, name, TaskState.CANCELLED)

        first = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=3)
        assert first.through is not None
        second = await store.retention.outlived(
            Kept.TASKS, before=_before(clock), after=first.through, limit=3
        )

        assert second.through is None or second.through > first.through
        assert not set(first.keys) & set(second.keys)
        assert len(first.keys) + len(second.keys) >= 2

    async def test_a_look_ends_where_all_that_follows_is_too_young(
        self, store: Store, clock: ManualClock
    ) -> None:
        await submitted(store, clock, *(f"t{number}" for number in range(9)))

        seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=3)

        assert (seen.keys, seen.through) == ([], None)

    # Alerts

    async def test_an_alert_goes_that_was_taken_up_long_ago_and_no_other(
        self, store: Store, clock: ManualClock, alice: Holder, leader: Leader
    ) -> None:
        task = await alice.hold("t")
        alerts = [
            # Of different steps: two of the same trouble are one alert.
            of_task(AlertKind.TASK_ERROR, "t", message=one, step=f"{one}:1")
            for one in ("old", "open", "late", "newest")
        ]
        await alice.write(task, task=let_go(task, TaskState.ERROR), alerts=alerts)
        ids = {one.message: one.id for one in await store.records.alerts(AlertFilter())}
        await store.records.acknowledge(ids["old"], _taken_up(ids["old"]), now=clock.now())
        clock.pass_time(KEPT + SECOND)
        await store.records.acknowledge(ids["late"], _taken_up(ids["late"]), now=clock.now())
        await store.records.acknowledge(ids["newest"], _taken_up(ids["newest"]), now=clock.now())

        seen = await store.retention.outlived(Kept.ALERTS, before=_before(clock), after=0, limit=MANY)
        gone = await store.retention.prune(
            Kept.ALERTS, [*ids.values()], before=_before(clock), leader=leader, now=clock.now()
        )

        assert (seen.keys, gone) == ([ids["old"]], 1)
        left = {one.message for one in await store.records.alerts(AlertFilter())}
        assert left == {"open", "late", "newest"}

    # Underneath

    async def _ended(
        self, store: Store, clock: ManualClock, alice: Holder, name: str, state: TaskState
    ) -> None:
        """A task that ended long ago."""
        await submitted(store, clock, name)
        [task] = [one.task for one in await alice.claim() if one.task.id == name]
        await self._left(alice, task, state, a_step())
        await self._later(store, clock)

    async def _left(self, alice: Holder, task: TaskRecord, state: TaskState, *steps: StepRecord) -> None:
        """Bring a task in our hands into ``state``, by way of its undo where no other leads there."""
        if state in (TaskState.UNDONE, TaskState.UNDO_FAILED):
            assert await alice.write(task, task=held(task, TaskState.UNDOING)) is None
        await alice.leave(task, state, steps=steps)

    async def _later(self, store: Store, clock: ManualClock) -> None:
        clock.pass_time(KEPT + SECOND)
        await submitted(store, clock, f"newest-{clock.now().timestamp()}", workflow="other")

    async def _family(self, store: Store, alice: Holder) -> tuple[TaskRecord, TaskRecord]:
        """A parent that waits for its child, and the child in our hands."""
        parent = await alice.hold("order")
        parked = let_go(parent, TaskState.WAITING)
        await alice.write(parent, steps=[FOR_CHILD], children=[child_of(parent)], task=parked)
        [child] = await alice.claim()
        return await store.task("order"), child.task

    async def _pruned(self, store: Store, clock: ManualClock, leader: Leader) -> int:
        """What one walk takes."""
        seen = await store.retention.outlived(Kept.TASKS, before=_before(clock), after=0, limit=MANY)
        return await self._prune(store, clock, leader, seen.keys)

    async def _prune(self, store: Store, clock: ManualClock, leader: Leader | None, keys: list[int]) -> int:
        return await store.retention.prune(
            Kept.TASKS, keys, before=_before(clock), leader=leader, now=clock.now()
        )


def _before(clock: ManualClock) -> datetime:
    return clock.now() - KEPT


def _taken_up(alert_id: int) -> Act:
    return Act(who="me", action="acknowledge", target=f"alert:{alert_id}")


def _cancelled(task: TaskRecord, _steps: list[StepRecord]) -> Amendment:
    return Amendment(let_go(task, TaskState.CANCELLED, parked=False, wake_at=None))
