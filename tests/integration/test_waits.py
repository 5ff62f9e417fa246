"""A task that waits: for time, for a signal, for a child; and what ends a wait."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay import (
    App,
    Permanent,
    Recovery,
    StepFailed,
    TaskFailed,
    current_step,
    now,
    race,
    sleep,
    start,
    wait_for,
)
from backstay.client import Client
from backstay.errors import Conflict, IllegalMove, InvalidInput, UnknownStep
from backstay.scheduler.run import Run
from backstay.views import Task
from tests.support.crashes import Crashes
from tests.support.gate import Gate
from tests.support.running import LeapingClock, eventually, running, until

ENDED = ("processed", "error", "undone", "undo_failed", "cancelled")
DAY = timedelta(days=1)

# With a clock that leaps, days may lie between two heartbeats.
NEVER_STALE = {"lease": "100d"}


@pytest.fixture
def crashes(tmp_path: Path) -> Crashes:
    return Crashes(tmp_path / "history")


@pytest.fixture
def app() -> App:
    return App("waits")


@pytest.fixture
def gate() -> Gate:
    return Gate()


class Shop:
    """Steps that can be undone; ``done`` and ``undone`` say what they did, in order."""

    def __init__(self, app: App, gate: Gate, *, complete_by: str = "30s") -> None:
        self.done: list[str] = []
        self.undone: list[tuple[str, str]] = []
        agent = app.agent("shop", complete_by=complete_by)

        @agent.step
        async def reserve(what: str) -> str:
            await gate.enter(what)
            self.done.append(what)
            return f"{what} reserved"

        @reserve.undo
        async def release(what: str, *, result: str | None) -> None:
            outcome = current_step().outcome
            assert outcome is not None
            self.undone.append((what, outcome.value))

        @agent.step
        async def refuse() -> None:
            raise Permanent("sold out")

        self.reserve, self.refuse = reserve, refuse


async def states(client: Client, task_id: str) -> dict[str, str]:
    return {step.key: step.state for step in await client.steps(task_id)}


def is_parked(task: Task) -> bool:
    return (task.state, task.locked_by, task.complete_by) == ("waiting", None, None)


async def runs_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, Run) for one in gc.get_objects())


# Sleep


async def test_a_sleeping_task_is_parked_and_nothing_of_it_stays_in_memory(app: App, crashes: Crashes):
    clock = LeapingClock()

    @app.workflow
    async def nap() -> str:
        await sleep("3d")
        return "rested"

    async with running(app, crashes.store(), clock=clock, **NEVER_STALE) as client:
        handle = await client.submit(nap, id="t")
        assert is_parked(await until(client, "t", "waiting"))
        await eventually(runs_in_memory, lambda runs: runs == 0)

        clock.leap(3 * DAY)
        assert await handle.result(timeout=10) == "rested"


async def test_a_sleep_ends_when_it_was_to_end_however_long_nobody_ran_it(crashes: Crashes):
    clock = LeapingClock()

    def build() -> App:
        app = App("waits")

        @app.workflow
        async def nap() -> None:
            await sleep("3d")

        return app

    async with running(build(), crashes.store(), clock=clock, **NEVER_STALE) as client:
        await client.submit("nap", id="t")
        await until(client, "t", "waiting")
        why = await client.why("t")
    clock.leap(2 * DAY)
    async with running(build(), crashes.store(), clock=clock, **NEVER_STALE) as client:
        await (await client.submit("nap")).state()
        assert is_parked(await client.task("t"))
        assert await client.why("t") == why
        clock.leap(DAY)
        assert (await until(client, "t", *ENDED)).state == "processed"

    assert why.reason.startswith("it sleeps until")


async def test_a_short_sleep_is_sat_out_in_memory(app: App, crashes: Crashes):
    @app.workflow
    async def nap() -> None:
        await sleep("200ms")

    async with running(app, crashes.store()) as client:
        await (await client.submit(nap, id="t")).result(timeout=10)

    seen = {state for crash in crashes.copies for (state,) in crash.rows("SELECT state FROM task")}
    assert seen == {"pending", "processing", "processed"}


async def test_a_sleep_of_nothing_ends_at_once(app: App, crashes: Crashes):
    @app.workflow
    async def nap() -> str:
        await sleep("0s")
        return "awake"

    async with running(app, crashes.store()) as client:
        assert await (await client.submit(nap)).result(timeout=10) == "awake"


# Signals


async def test_a_waiting_task_is_parked_until_its_signal_comes(app: App, crashes: Crashes):
    @app.workflow
    async def approve() -> Any:
        return await wait_for("approval")

    async with running(app, crashes.store()) as client:
        handle = await client.submit(approve, id="t")
        assert is_parked(await until(client, "t", "waiting"))
        assert "signal 'approval'" in (await client.why("t")).reason

        await client.signal("t", "other", "not this one")
        assert is_parked(await client.task("t"))
        await client.signal("t", "approval", {"by": "ann"})

        assert await handle.result(timeout=10) == {"by": "ann"}


async def test_signals_may_come_before_anybody_waits_and_are_given_out_in_order(app: App, crashes: Crashes):
    @app.workflow
    async def collect() -> list[Any]:
        return [
            await wait_for("item"),
            await wait_for("other"),
            await wait_for("item"),
            await wait_for("item"),
        ]

    async with app.client(crashes.store()) as client:
        await client.submit(collect, id="t")
        for name, payload in [("item", 1), ("item", 2), ("other", None), ("item", 3)]:
            await client.signal("t", name, payload)
    async with running(app, crashes.store()) as client:
        assert await client.handle("t").result(timeout=10) == [1, None, 2, 3]


async def test_a_signal_with_a_key_counts_once(app: App, crashes: Crashes):
    @app.workflow
    async def collect() -> list[Any]:
        return [await wait_for("item"), await wait_for("item")]

    async with running(app, crashes.store()) as client:
        handle = await client.submit(collect, id="t")
        await client.signal("t", "item", "first", key="k1")
        await client.signal("t", "item", "first again", key="k1")
        await client.signal("t", "item", "second", key="k2")

        assert await handle.result(timeout=10) == ["first", "second"]


async def test_a_signal_that_does_not_come_in_time_is_a_timeout_and_the_next_wait_may_have_it(
    app: App, crashes: Crashes
):
    @app.workflow
    async def approve() -> list[Any]:
        try:
            await wait_for("approval", timeout="1100ms")  # long enough to be parked
        except TimeoutError as error:
            return [str(error), await wait_for("approval")]
        return []

    async with running(app, crashes.store()) as client:
        handle = await client.submit(approve, id="t")
        await until(client, "t", "waiting")
        await eventually(lambda: client.why("t"), lambda why: why.reason == "it waits for signal 'approval'")
        await client.signal("t", "approval", "late")

        assert await handle.result(timeout=10) == ["no signal 'approval' came in time", "late"]


async def test_waits_replay_after_a_crash_at_every_point(crashes: Crashes):
    """Signals in order, a timeout that stays one although its signal came later, and each signal once."""

    def build() -> App:
        app = App("waits")
        shop = Shop(app, Gate())

        @app.workflow
        async def collect() -> list[Any]:
            got: list[Any] = [await wait_for("item"), await wait_for("item")]
            try:
                got.append(await wait_for("late", timeout="50ms"))
            except TimeoutError:
                got.append("too late")
            await sleep("10ms")
            await shop.reserve("a")
            return [*got, await wait_for("late"), await wait_for("item")]

        return app

    async def tell(client: Client) -> None:
        """Send everything, as somebody would who does not know what had arrived before the crash."""
        with suppress(Conflict):  # It had ended.
            for number in (1, 2, 3):
                await client.signal("t", "item", number, key=f"item-{number}")
            await eventually(lambda: states(client, "t"), lambda found: "reserve:1" in found)
            await client.signal("t", "late", "at last", key="late")

    async with running(build(), crashes.store()) as client:
        await client.submit("collect", id="t")
        await tell(client)
        await until(client, "t", "processed")

    for crash in crashes.copies:
        async with running(build(), crash.store()) as client:
            await tell(client)
            task = await until(client, "t", *ENDED)
        assert task.output == [1, 2, "too late", "at last", 3]
        assert crash.rows("SELECT name FROM signal WHERE consumed_by IS NULL") == []


async def test_a_step_beside_a_wait_goes_on_and_the_task_parks_only_after_it(
    app: App, crashes: Crashes, gate: Gate
):
    gate.closed = True
    shop = Shop(app, gate)

    @app.workflow
    async def both() -> list[Any]:
        return list(await asyncio.gather(wait_for("go"), shop.reserve("a")))

    async with running(app, crashes.store()) as client:
        handle = await client.submit(both, id="t")
        await gate.came("a")
        assert await handle.state() == "processing"
        gate.let("a")
        assert is_parked(await until(client, "t", "waiting"))
        await client.signal("t", "go", "now")

        assert await handle.result(timeout=10) == ["now", "a reserved"]


async def test_a_signal_reaches_a_task_that_is_at_work(app: App, crashes: Crashes, gate: Gate):
    gate.closed = True
    shop = Shop(app, gate)

    @app.workflow
    async def both() -> list[Any]:
        waiting = asyncio.ensure_future(shop.reserve("a"))
        first = await wait_for("go")
        return [first, await shop.reserve("b"), await waiting]

    async with running(app, crashes.store()) as client:
        handle = await client.submit(both, id="t")
        await gate.came("a")
        await client.signal("t", "go", "now")
        await gate.came("b")
        gate.let("a", "b")

        assert await handle.result(timeout=10) == ["now", "b reserved", "a reserved"]


async def test_a_wait_that_lost_a_race_leaves_its_signal_to_the_next_one(app: App, crashes: Crashes):
    @app.workflow
    async def first_of_two() -> list[Any]:
        return [await race(wait_for("a"), wait_for("b")), await wait_for("a"), await wait_for("b")]

    async with running(app, crashes.store()) as client:
        handle = await client.submit(first_of_two, id="t")
        await until(client, "t", "waiting")
        await client.signal("t", "b", "b1")
        await until(client, "t", "waiting")
        await client.signal("t", "a", "a1")
        await client.signal("t", "b", "b2")

        assert await handle.result(timeout=10) == ["b1", "a1", "b2"]


async def test_of_two_signals_that_came_first_a_race_takes_one_and_leaves_the_other(
    app: App, crashes: Crashes
):
    @app.workflow
    async def first_of_two() -> list[Any]:
        winner = await race(wait_for("a"), wait_for("b"))
        return [winner, await wait_for("b" if winner == "a1" else "a")]

    async with app.client(crashes.store()) as client:
        await client.submit(first_of_two, id="t")
        await client.signal("t", "a", "a1")
        await client.signal("t", "b", "b1")
    async with running(app, crashes.store()) as client:
        assert sorted(await client.handle("t").result(timeout=10)) == ["a1", "b1"]


# Races against time


async def test_a_step_that_loses_against_a_sleep_is_broken_off_and_undone_as_of_unknown_outcome(
    app: App, crashes: Crashes, gate: Gate
):
    gate.closed = True
    shop = Shop(app, gate)

    @app.workflow
    async def hurry() -> str:
        await race(shop.reserve("a"), sleep("400ms"))
        await shop.refuse()
        return "not reached"

    async with running(app, crashes.store()) as client:
        await client.submit(hurry, id="t")
        await gate.came("a")
        task = await until(client, "t", *ENDED)
        found = await states(client, "t")

    assert task.state == "undone"
    assert shop.undone == [("a", "unknown")]
    assert found == {"reserve:1": "undone", "refuse:1": "failed"}


async def test_a_step_that_wins_against_a_sleep_gives_its_result_and_nobody_sleeps(
    app: App, crashes: Crashes, gate: Gate
):
    shop = Shop(app, gate)

    @app.workflow
    async def hurry() -> Any:
        return await race(shop.reserve("a"), sleep("1h"))

    async with running(app, crashes.store()) as client:
        assert await (await client.submit(hurry)).result(timeout=10) == "a reserved"


async def test_a_step_may_get_its_slot_in_the_very_moment_in_which_its_race_is_lost(
    app: App, crashes: Crashes
):
    free, win = asyncio.Event(), asyncio.Event()
    began: list[str] = []
    narrow, wide = app.agent("narrow", concurrency=1), app.agent("wide")

    @narrow.step
    async def occupy() -> None:
        began.append("occupy")
        await free.wait()

    @narrow.step
    async def crawl() -> str:
        began.append("crawl")
        return "crawled"

    @wide.step
    async def leap() -> str:
        began.append("leap")
        await win.wait()
        return "leapt"

    @app.workflow
    async def occupier() -> None:
        await occupy()

    @app.workflow
    async def racer() -> Any:
        return await race(crawl(), leap())

    async def seen() -> list[str]:
        return began

    async with running(app, crashes.store()) as client:
        first = await client.submit(occupier)
        await eventually(seen, lambda names: "occupy" in names)
        second = await client.submit(racer, id="t")
        await eventually(seen, lambda names: "leap" in names)
        # Both end in the same turn of the event loop: the race is won, then the slot falls free.
        win.set()
        free.set()

        assert await second.result(timeout=5) == "leapt"
        await first.result(timeout=5)
        assert await states(client, "t") == {"crawl:1": "skipped", "leap:1": "completed"}
    assert began == ["occupy", "leap"]


# Children


class Family:
    """A parent that reserves, starts a child, and may fail after it; the child reserves as well."""

    def __init__(self, gate: Gate, *, parent_fails: bool = False, then: Any = "undo") -> None:
        self.app = app = App("family")
        self.shop = shop = Shop(app, gate)
        refusing = app.agent("refusing")

        @refusing.step
        async def fail() -> None:
            raise Permanent("sold out")

        @app.workflow
        async def child(what: str) -> str:
            if what == "nothing":
                await fail()
            got: str = await shop.reserve(what)
            if what == "a nap":
                await sleep("1h")
            return got

        @app.workflow(recovery=Recovery(then=then))
        async def parent(what: str) -> list[str]:
            got = [await shop.reserve("parent's"), await start(child, what)]
            if parent_fails:
                await fail()
            return got

        self.child, self.parent = child, parent


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
        clock.leap(DAY)

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


@pytest.mark.parametrize("what", ["child's", "a nap"])
async def test_a_child_is_undone_with_its_parent_newest_first(crashes: Crashes, what: str):
    family = Family(Gate(), parent_fails=True)
    async with running(family.app, crashes.store()) as client:
        await client.submit(family.parent, what, id="p")
        if what == "a nap":
            await until(client, "p:start-child:1", "waiting")
            await until(client, "p", "waiting")
            await client.cancel("p")
        parent = await until(client, "p", *ENDED)
        child = await client.task("p:start-child:1")

    assert (parent.state, child.state) == ("undone", "undone")
    assert family.shop.undone == [(what, "completed"), ("parent's", "completed")]


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
        assert (parent.state, child.state) == (end, end), crash.path.name
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
        assert (parent.state, child.state) == (end, end), crash.path.name


async def test_a_child_that_lost_a_race_is_undone_after_a_crash_at_every_point(crashes: Crashes):
    def build() -> App:
        family = Family(Gate())

        @family.app.workflow
        async def impatient() -> Any:
            return await race(start(family.child, "a nap"), wait_for("enough"))

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
        assert (parent.output, child.state) == ("that will do", "undone"), crash.path.name


# Everything at once


def kitchen_sink(*, fails: bool) -> tuple[App, Shop]:
    """Parallel branches, a signal, a child, a sleep, a race, values, a failure gone around; and the end."""
    family = Family(Gate())
    app, shop = family.app, family.shop

    @app.workflow
    async def everything(who: str) -> list[Any]:
        async def branch(name: str) -> list[Any]:
            return [await shop.reserve(f"{name}1"), await shop.reserve(f"{name}2")]

        started = now()
        left, right, child = await asyncio.gather(branch("l"), branch("r"), start(family.child, who))
        await sleep("20ms")
        first = await race(wait_for("go"), sleep("1h"))
        around = ""
        try:
            await shop.refuse()
        except StepFailed as failed:
            around = failed.error["message"]
        assert now() >= started
        last = await shop.reserve("last")
        if fails:
            await shop.refuse()
        return [left, right, child, first, around, last]

    return app, shop


async def go(client: Client) -> None:
    with suppress(Conflict):  # It had ended.
        await client.signal("t", "go", "went", key="once")


@pytest.mark.parametrize("fails", [False, True])
async def test_everything_at_once_comes_to_the_same_end_after_a_crash_at_every_point(
    crashes: Crashes, fails: bool
):
    app, shop = kitchen_sink(fails=fails)
    async with running(app, crashes.store()) as client:
        await client.submit("everything", "ann", id="t")
        await go(client)
        task = await until(client, "t", *ENDED)
    assert task.state == ("undone" if fails else "processed")
    assert sorted(shop.done) == sorted(["l1", "l2", "r1", "r2", "ann", "last"])
    assert sorted(shop.undone) == (sorted((what, "completed") for what in shop.done) if fails else [])

    for crash in crashes.copies:
        completed = crash.rows("SELECT input FROM step WHERE operation = 'reserve' AND state = 'completed'")
        undone = crash.rows("SELECT input FROM step WHERE operation = 'reserve' AND state = 'undone'")
        app, again = kitchen_sink(fails=fails)
        async with running(app, crash.store()) as client:
            await go(client)
            end = await until(client, "t", *ENDED)
            child = await client.task("t:start-child:1")
        assert (end.state, end.output, child.state) == (task.state, task.output, task.state), crash.path.name
        assert not {f'"{what}"' for what in again.done} & {text.decode() for (text,) in completed}
        assert not {f'"{what}"' for what, _ in again.undone} & {text.decode() for (text,) in undone}


# The hard end

# What a task is at its hard end, by what its workflow's ``Recovery`` says.
AT_THE_END = [("undo", "undone"), ("error", "error"), ("wait", "undone")]


class Order:
    """Reserves two things, and then waits for a word."""

    def __init__(self, gate: Gate, *, complete_by: str = "30s", **recovery: Any) -> None:
        self.app = App("orders")
        self.shop = shop = Shop(self.app, gate, complete_by=complete_by)

        @self.app.workflow(recovery=Recovery(**recovery))
        async def order() -> Any:
            await shop.reserve("a")
            await shop.reserve("b")
            return await wait_for("word")

        self.order = order


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_task_that_is_still_pending_at_its_hard_end_does_nothing_any_more(
    crashes: Crashes, then: str, end: str
):
    order = Order(Gate(), then=then)
    clock = LeapingClock()
    async with order.app.client(crashes.store()) as client:
        await client.submit(order.order, id="t", complete_by="1h")
    clock.leap(timedelta(hours=1))
    async with running(order.app, crashes.store(), clock=clock) as client:
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert task.error is not None
    assert task.error.type == "HardEnd"
    assert order.shop.done == []


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_task_at_work_is_stopped_at_its_hard_end(crashes: Crashes, then: str, end: str):
    gate = Gate(closed=True)
    order = Order(gate, then=then)
    async with running(order.app, crashes.store()) as client:
        gate.let("a")
        submitted = await client.submit(order.order, id="t", complete_by="1s")
        await gate.came("b")
        limit = (await client.task("t")).hard_end
        steps = await client.steps("t")
        task = await until(client, submitted.id, *ENDED)

    assert limit is not None
    assert all(step.complete_by is not None and step.complete_by <= limit for step in steps)
    assert task.state == end
    assert task.updated_at >= limit
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if end == "undone" else [])


@pytest.mark.parametrize(("then", "end"), AT_THE_END)
async def test_a_waiting_task_is_woken_and_ended_at_its_hard_end(crashes: Crashes, then: str, end: str):
    order = Order(Gate(), then=then)
    clock = LeapingClock()
    async with running(order.app, crashes.store(), clock=clock, **NEVER_STALE) as client:
        await client.submit(order.order, id="t", complete_by="1h")
        await until(client, "t", "waiting")
        clock.leap(timedelta(hours=1))
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.undone == ([("b", "completed"), ("a", "completed")] if end == "undone" else [])


# The operator


@pytest.mark.parametrize("undo", [True, False])
async def test_a_pending_task_that_did_nothing_is_cancelled_on_the_spot(crashes: Crashes, undo: bool):
    order = Order(Gate())
    async with order.app.client(crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        assert (await handle.cancel(undo=undo)).state == "cancelled"
        with pytest.raises(TaskFailed) as failed:
            await handle.result(timeout=5)

    assert failed.value.state == "cancelled"


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_whose_process_died_is_cancelled_before_anybody_takes_it_up(
    crashes: Crashes, undo: bool, end: str
):
    gate = Gate(closed=True)
    gate.let("a")
    async with running(Order(gate, complete_by="1s").app, crashes.store()) as client:
        await client.submit("order", id="t")
        await gate.came("b")
        crash = crashes.now()
    order = Order(Gate())  # Nothing is undone before the complete-by of what may still be at work.
    async with order.app.client(crash.store()) as client:
        await client.cancel("t", undo=undo)
    async with running(order.app, crash.store()) as client:
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.done == []
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if undo else [])


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_at_work_is_cancelled_and_its_step_broken_off(crashes: Crashes, undo: bool, end: str):
    gate = Gate(closed=True)
    gate.let("a")
    order = Order(gate)
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await gate.came("b")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.done == ["a"]
    assert order.shop.undone == ([("b", "unknown"), ("a", "completed")] if undo else [])


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_waiting_task_is_cancelled(crashes: Crashes, undo: bool, end: str):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await until(client, "t", "waiting")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", *ENDED)

    assert task.state == end
    assert order.shop.undone == ([("b", "completed"), ("a", "completed")] if undo else [])


class Failing:
    """Reserves, and then does something that fails until ``repaired``."""

    def __init__(self) -> None:
        self.app = App("failing")
        self.repaired = False
        self.shop = shop = Shop(self.app, Gate())
        agent = self.app.agent("weak")

        @agent.step
        async def pack() -> str:
            if not self.repaired:
                raise Permanent("no box fits")
            return "packed"

        @self.app.workflow(recovery=Recovery(then="error"))
        async def order() -> list[str]:
            return [await shop.reserve("a"), await pack(), await shop.reserve("b")]

        self.order = order


@pytest.mark.parametrize(("undo", "end"), [(True, "undone"), (False, "cancelled")])
async def test_a_task_in_error_is_cancelled(crashes: Crashes, undo: bool, end: str):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        await client.cancel("t", undo=undo)
        task = await until(client, "t", "undone", "cancelled")

    assert task.state == end
    assert failing.shop.undone == ([("a", "completed")] if undo else [])


async def test_what_has_ended_cannot_be_cancelled(crashes: Crashes):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        await client.signal("t", "word", "done")
        assert await handle.result(timeout=10) == "done"
        with pytest.raises(IllegalMove, match="processed"):
            await handle.cancel()
        await client.undo("t")
        await until(client, "t", "undone")
        with pytest.raises(IllegalMove, match="undone"):
            await handle.cancel()


async def test_a_processed_task_is_undone_newest_first_when_an_operator_asks(crashes: Crashes):
    order = Order(Gate())
    async with running(order.app, crashes.store()) as client:
        handle = await client.submit(order.order, id="t")
        await client.signal("t", "word", "done")
        await handle.result(timeout=10)
        await client.undo("t")
        await until(client, "t", "undone")

    assert order.shop.undone == [("b", "completed"), ("a", "completed")]


async def test_past_the_point_of_no_return_a_processed_task_is_not_undone(app: App, crashes: Crashes):
    agent = app.agent("bank")

    @agent.step(pivot=True)
    async def pay() -> str:
        return "paid"

    @app.workflow
    async def order() -> str:
        return await pay()

    async with running(app, crashes.store()) as client:
        await (await client.submit(order, id="t")).result(timeout=10)
        with pytest.raises(IllegalMove, match="point of no return"):
            await client.undo("t")


async def test_a_resubmitted_task_goes_on_at_the_step_that_failed(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        failed = await until(client, "t", "error")
        failing.repaired = True
        await client.resubmit("t")

        assert await handle.result(timeout=10) == ["a reserved", "packed", "b reserved"]
    assert failed.error is not None
    assert (failed.error.step, failed.error.permanent) == ("pack:1", True)
    assert failing.shop.done == ["a", "b"]


async def test_a_task_resubmitted_from_the_start_does_everything_again(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        failing.repaired = True
        await client.resubmit("t", from_="start")

        assert await handle.result(timeout=10) == ["a reserved", "packed", "b reserved"]
    assert failing.shop.done == ["a", "a", "b"]


async def test_a_task_at_work_is_not_resubmitted(crashes: Crashes):
    gate = Gate(closed=True)
    order = Order(gate)
    async with running(order.app, crashes.store()) as client:
        await client.submit(order.order, id="t")
        await gate.came("a")
        with pytest.raises(IllegalMove, match="working on it"):
            await client.resubmit("t")


async def test_a_failed_step_that_a_person_completes_lets_its_task_go_on(crashes: Crashes):
    failing = Failing()
    async with running(failing.app, crashes.store()) as client:
        handle = await client.submit(failing.order, id="t")
        await until(client, "t", "error")
        with pytest.raises(UnknownStep):
            await client.complete_step("t", "pack:2", "by hand")
        with pytest.raises(InvalidInput):
            await client.complete_step("t", "pack:1", 17)
        await client.complete_step("t", "pack:1", "packed by hand")

        assert await handle.result(timeout=10) == ["a reserved", "packed by hand", "b reserved"]
        steps = {step.key: step for step in await client.steps("t")}
    assert (steps["pack:1"].state, steps["pack:1"].error) == ("completed", None)


async def test_a_step_in_line_that_a_person_completes_is_not_attempted_any_more(app: App, crashes: Crashes):
    gate = Gate(closed=True)
    agent = app.agent("narrow", concurrency=1)

    @agent.step
    async def pack(what: str) -> str:
        return await gate.enter(what)

    @app.workflow
    async def order() -> list[str]:
        return list(await asyncio.gather(pack("a"), pack("b")))

    async with running(app, crashes.store()) as client:
        handle = await client.submit(order, id="t")
        await gate.came("a")
        await client.complete_step("t", "pack:2", "by hand")
        gate.let("a")

        assert await handle.result(timeout=10) == ["a", "by hand"]
    assert "b" not in gate.ran


async def test_a_planned_step_may_be_completed_before_the_workflow_comes_to_it(app: App, crashes: Crashes):
    gate = Gate(closed=True)
    agent = app.agent("agent")

    @agent.step
    async def first() -> str:
        return await gate.enter()

    @agent.step
    async def second(what: str) -> str:
        return await gate.enter()

    @app.workflow(plan=[first, second])
    async def order() -> list[str]:
        return [await first(), await second("x")]

    async with running(app, crashes.store()) as client:
        handle = await client.submit(order, id="t")
        await gate.came("first:1")
        await client.complete_step("t", "second:1", "by hand")
        gate.let("first:1")

        assert await handle.result(timeout=10) == ["first:1", "by hand"]
    assert "second:1" not in gate.ran
    for crash in crashes.copies:
        gate = Gate()
        completed_by_hand = "second:1" in crash.completed("t")
        async with running(app, crash.store()) as client:
            task = await until(client, "t", *ENDED)
        assert task.state == "processed", task.error
        assert (task.output[1] == "by hand") or not completed_by_hand
