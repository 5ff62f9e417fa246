"""A task that another one starts: a task of its own, whose fate hangs on its parent's."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from backstay import App, Recovery, TaskFailed, race, start, wait_for
from backstay.domain.audit import Act
from backstay.domain.task import TaskRecord
from backstay.errors import Conflict, StoreUnavailable
from backstay.store.base import Amend
from tests.support.crashes import Crashes
from tests.support.databases import AnyStore, Database
from tests.support.gate import Gate
from tests.support.running import NEVER_STALE, LeapingClock, running, until
from tests.support.shop import ENDED, Family, is_parked


async def test_a_child_is_a_task_of_its_own_and_its_parent_waits_parked(crashes: Crashes):
    gate = Gate(closed=True)
    family = Family(gate)
    async with running(family.app, crashes.store()) as client:
        handle = await client.submit(family.parent, "child's", id="p", complete_by="1h")
        gate.let("parent's")
        await gate.came("child's")
        parent = await until(client, "p", "waiting")
        gate.let("child's")
        assert await handle.result(timeout=10) == ["parent's reserved", "child's reserved"]
        child = await client.task("p:start-child:1")

    assert is_parked(parent)
    assert (child.workflow, child.state, child.output) == ("child", "processed", "child's reserved")
    assert child.hard_end == parent.hard_end is not None


async def test_a_parent_leaves_its_child_the_only_place_there_is(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store(), in_flight=1) as client:
        handles = [await client.submit(family.parent, "child's") for _ in range(3)]
        results = [await handle.result(timeout=10) for handle in handles]

    assert results == [["parent's reserved", "child's reserved"]] * 3


async def test_a_parent_waits_parked_for_a_child_that_sleeps(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "a nap", id="p")
        await until(client, "p:start-child:1", "waiting")
        assert is_parked(await until(client, "p", "waiting"))
        why = await client.why("p")

    assert "it waits for its children start-child:1" in why.reason
    assert why.command == "backstay tasks why p:start-child:1"


async def test_the_failure_of_a_child_reaches_its_parent_which_may_go_another_way(crashes: Crashes):
    family = Family(Gate())

    @family.app.workflow
    async def patient() -> list[Any]:
        try:
            await start(family.child, "nothing")
        except TaskFailed as failed:
            return [failed.state, failed.step, await start(family.child, "something")]
        return []

    async with running(family.app, crashes.store()) as client:
        handle = await client.submit(patient, id="p")
        assert await handle.result(timeout=10) == ["undone", "start-child:1", "something reserved"]


async def test_the_failure_of_a_child_that_nobody_catches_undoes_the_parent(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "nothing", id="p")
        task = await until(client, "p", *ENDED)

    assert task.state == "undone"
    assert task.error is not None
    assert "sold out" in task.error.message
    assert family.shop.undone == [("parent's", "completed")]


async def test_a_child_may_have_an_id_of_its_own(crashes: Crashes):
    family = Family(Gate())

    @family.app.workflow
    async def naming() -> str:
        return await start(family.child, "a nap", id="my-child")

    clock = LeapingClock()
    async with running(family.app, crashes.store(), clock=clock, **NEVER_STALE) as client:
        handle = await client.submit(naming, id="p")
        await until(client, "my-child", "waiting")
        await until(client, "p", "waiting")
        why = await client.why("p")
        clock.leap(timedelta(days=1))

        assert await handle.result(timeout=10) == "a nap reserved"
        assert (await client.task("my-child")).state == "processed"
    assert why.command == "backstay tasks why my-child"


async def test_a_workflow_that_is_not_declared_here_cannot_be_started(crashes: Crashes):
    family = Family(Gate())

    @App("elsewhere").workflow
    async def stranger() -> None: ...

    @family.app.workflow
    async def adopting() -> None:
        await start(stranger)

    async with running(family.app, crashes.store()) as client:
        await client.submit(adopting, id="p")
        task = await until(client, "p", *ENDED)

    assert task.error is not None
    assert (task.state, task.error.type) == ("error", "UnknownWorkflow")
    assert "stranger" in task.error.message


async def test_a_child_cannot_have_the_id_of_another_task(crashes: Crashes):
    family = Family(Gate())

    @family.app.workflow
    async def naming() -> str:
        try:
            return await start(family.child, "a", id="taken")
        except Conflict as conflict:
            return str(conflict)

    async with running(family.app, crashes.store()) as client:
        await (await client.submit(family.child, "other", id="taken")).result(timeout=10)
        answer = await (await client.submit(naming, id="p")).result(timeout=10)
        taken = await client.task("taken")

    assert "'taken'" in answer
    assert (taken.state, taken.output) == ("processed", "other reserved")


async def test_a_processed_child_is_undone_with_its_failed_parent_newest_first(crashes: Crashes):
    family = Family(Gate(), parent_fails=True)
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "child's", id="p")
        parent = await until(client, "p", *ENDED)
        child = await client.task("p:start-child:1")

    assert (parent.state, child.state) == ("undone", "undone")
    assert family.shop.undone == [("child's", "completed"), ("parent's", "completed")]


async def test_a_sleeping_child_is_undone_with_its_cancelled_parent(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "a nap", id="p")
        await until(client, "p:start-child:1", "waiting")
        await until(client, "p", "waiting")
        await client.cancel("p")
        parent = await until(client, "p", *ENDED)
        child = await client.task("p:start-child:1")

    assert (parent.state, child.state) == ("undone", "undone")
    assert family.shop.undone == [("a nap", "completed"), ("parent's", "completed")]


async def test_a_child_at_work_is_undone_with_its_cancelled_parent(crashes: Crashes):
    gate = Gate(closed=True)
    family = Family(gate)
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "child's", id="p")
        gate.let("parent's")
        await gate.came("child's")
        await client.cancel("p")
        parent = await until(client, "p", *ENDED)
        child = await client.task("p:start-child:1")

    assert (parent.state, child.state) == ("undone", "undone")
    assert family.shop.undone == [("child's", "unknown"), ("parent's", "completed")]


async def test_a_child_is_cancelled_with_a_parent_that_is_cancelled_without_undo(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, "a nap", id="p")
        await until(client, "p:start-child:1", "waiting")
        await until(client, "p", "waiting")
        await client.cancel("p", undo=False)
        parent = await until(client, "p", *ENDED)
        child = await until(client, "p:start-child:1", *ENDED)

    assert (parent.state, child.state) == ("cancelled", "cancelled")
    assert family.shop.undone == []


async def test_the_child_of_a_parent_in_error_is_cancelled_with_it(crashes: Crashes):
    family = Family(Gate())

    @family.app.workflow(recovery=Recovery(then="error"))
    async def divided() -> None:
        await asyncio.gather(start(family.child, "a nap"), family.shop.refuse())

    async with running(family.app, crashes.store()) as client:
        await client.submit(divided, id="p")
        await until(client, "p", "error")
        await until(client, "p:start-child:1", "waiting")
        await client.cancel("p", undo=False)
        parent = await until(client, "p", "cancelled", "undone")
        child = await until(client, "p:start-child:1", *ENDED)

    assert (parent.state, child.state) == ("cancelled", "cancelled")


async def test_a_child_that_lost_a_race_is_undone(crashes: Crashes):
    family = Family(Gate())

    @family.app.workflow
    async def impatient() -> None:
        await race(start(family.child, "a nap"), wait_for("enough"))

    async with running(family.app, crashes.store()) as client:
        handle = await client.submit(impatient, id="p")
        await until(client, "p:start-child:1", "waiting")
        await client.signal("p", "enough")
        await handle.result(timeout=10)
        child = await until(client, "p:start-child:1", *ENDED)

    assert child.state == "undone"
    assert family.shop.undone == [("a nap", "completed")]


async def test_children_are_undone_with_a_processed_parent(crashes: Crashes):
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await (await client.submit(family.parent, "child's", id="p")).result(timeout=10)
        await client.undo("p")
        parent = await until(client, "p", "undone", "undo_failed")
        child = await client.task("p:start-child:1")

    assert (parent.state, child.state) == ("undone", "undone")
    assert family.shop.undone == [("child's", "completed"), ("parent's", "completed")]


@pytest.mark.parametrize("parent_fails", [False, True])
async def test_parent_and_child_come_to_the_same_end_after_a_crash_at_every_point(
    crashes: Crashes, parent_fails: bool
):
    end = "undone" if parent_fails else "processed"
    family = Family(Gate(), parent_fails=parent_fails)
    async with running(family.app, crashes.store()) as client:
        await client.submit("parent", "child's", id="p")
        await until(client, "p", *ENDED)

    for crash in crashes.copies:
        before = {one: crash.completed(one) for one in ("p", "p:start-child:1")}
        again = Family(Gate(), parent_fails=parent_fails)
        async with running(again.app, crash.store()) as client:
            parent = await until(client, "p", *ENDED)
            child = await until(client, "p:start-child:1", *ENDED)
        assert (parent.state, child.state) == (end, end), crash.name
        assert not (before["p"] & {"reserve:1"} and "parent's" in again.shop.done)
        assert not (before["p:start-child:1"] & {"reserve:1"} and "child's" in again.shop.done)


@pytest.mark.parametrize("undo", [True, False])
async def test_a_child_is_stopped_with_its_cancelled_parent_after_a_crash_at_every_point(
    crashes: Crashes, undo: bool
):
    end = "undone" if undo else "cancelled"
    family = Family(Gate())
    async with running(family.app, crashes.store()) as client:
        await client.submit("parent", "a nap", id="p")
        await until(client, "p:start-child:1", "waiting")
        await until(client, "p", "waiting")
        await client.cancel("p", undo=undo)
        await until(client, "p", *ENDED)
        await until(client, "p:start-child:1", *ENDED)

    on_its_way = (
        "SELECT 1 FROM task WHERE id = 'p' AND request IS NULL"
        " AND state IN ('pending', 'processing', 'waiting')"
    )
    asked_for = [crash for crash in crashes.copies if not crash.rows(on_its_way)]
    assert len(asked_for) >= 3
    for crash in asked_for:
        async with running(Family(Gate()).app, crash.store()) as client:
            parent = await until(client, "p", *ENDED)
            child = await until(client, "p:start-child:1", *ENDED)
        assert (parent.state, child.state) == (end, end), crash.name


async def test_a_child_that_lost_a_race_is_undone_after_a_crash_at_every_point(crashes: Crashes):
    def build() -> App:
        family = Family(Gate())

        @family.app.workflow
        async def impatient() -> Any:
            first = await race(start(family.child, "a nap"), wait_for("enough"))
            await family.shop.reserve("something else")
            return first

        return family.app

    async with running(build(), crashes.store()) as client:
        await client.submit("impatient", id="p")
        await until(client, "p:start-child:1", "waiting")
        await client.signal("p", "enough", "that will do")
        await until(client, "p", *ENDED)
        await until(client, "p:start-child:1", *ENDED)

    told = [crash for crash in crashes.copies if crash.rows("SELECT 1 FROM signal")]
    assert len(told) >= 3
    for crash in told:
        async with running(build(), crash.store()) as client:
            parent = await until(client, "p", *ENDED)
            child = await until(client, "p:start-child:1", *ENDED)
        assert (parent.output, child.state) == ("that will do", "undone"), crash.name


@pytest.mark.parametrize("outage", [False, True])
async def test_a_parent_does_not_end_before_the_child_that_it_left_has_been_told(
    database: Database, outage: bool
):
    """After its end nobody would tell the child any more: it would go on for itself."""
    seen: list[str] = []

    class LateAmendments(AnyStore):
        async def amend(
            self, task_id: str, change: Amend, *, now: datetime, act: Act | None = None
        ) -> TaskRecord:
            # Longer than bodies may take to unwind: it is not for them that the parent waits.
            await asyncio.sleep(1.3)
            seen.append((await self.task("p")).state)
            if outage and len(seen) == 1:
                raise StoreUnavailable("gone for a moment")
            return await super().amend(task_id, change, now=now, act=act)

    family = Family(Gate())

    @family.app.workflow
    async def impatient() -> str:
        await race(start(family.child, "a nap"), wait_for("enough"))
        return await family.shop.reserve("something else")

    async with running(family.app, database.store_as(LateAmendments)) as client:
        handle = await client.submit(impatient, id="p")
        await until(client, "p:start-child:1", "waiting")
        await client.signal("p", "enough")
        await handle.result(timeout=10)
        child = await until(client, "p:start-child:1", *ENDED)

    assert seen == ["processing"] * (1 + outage)
    assert child.state == "undone"
