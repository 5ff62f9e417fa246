"""A task that waits: for time, for a signal, for whichever comes first."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Permanent, Recovery, StepFailed, now, race, sleep, start, wait_for
from backstay.client import Client
from backstay.errors import Conflict
from backstay.scheduler.run import Run
from tests.support.crashes import Crashes
from tests.support.gate import Gate
from tests.support.running import NEVER_STALE, LeapingClock, eventually, running, until
from tests.support.shop import ENDED, Family, Shop, is_parked, states

DAY = timedelta(days=1)


@pytest.fixture
def app() -> App:
    return App("waits")


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def sleepers_in_memory() -> int:
    """Of this test: what others logged of their runs may still be kept."""
    gc.collect()
    return sum(isinstance(one, Run) and one.task.id == "sleeper" for one in gc.get_objects())


# Sleep


async def test_a_sleeping_task_is_parked_and_nothing_of_it_stays_in_memory(app: App, crashes: Crashes):
    clock = LeapingClock()

    @app.workflow
    async def nap() -> str:
        await sleep("3d")
        return "rested"

    async with running(app, crashes.store(), clock=clock, **NEVER_STALE) as client:
        handle = await client.submit(nap, id="sleeper")
        assert is_parked(await until(client, "sleeper", "waiting"))
        await eventually(sleepers_in_memory, lambda runs: runs == 0)

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


async def test_a_task_that_wakes_up_in_time_again_and_again_has_not_overrun(app: App, crashes: Crashes):
    """However long it polls: each time it wakes up it has its whole complete-by before it."""

    @app.workflow(complete_by="600ms", recovery=Recovery(attempts=1))
    async def poll() -> str:
        for _ in range(2):
            await sleep("200ms")
            await sleep("450ms")
        return "enough"

    async with running(app, crashes.store()) as client:
        await client.submit(poll, id="t")
        task = await until(client, "t", *ENDED)

    assert (task.state, task.failure_count) == ("processed", 0), task.error


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


async def test_a_timeout_that_came_is_one_again_after_a_crash_at_every_point(crashes: Crashes):
    def build(gate: Gate) -> App:
        app = App("waits")
        shop = Shop(app, gate)

        async def careful(what: str) -> str:
            try:
                return await shop.reserve(what)
            finally:
                await shop.reserve(f"after {what}")

        @app.workflow
        async def hurry() -> list[Any]:
            first = await race(careful("a"), sleep("300ms"))
            return [first, await shop.reserve("b")]

        return app

    gate = Gate(closed=True)
    gate.let("after a", "b")
    async with running(build(gate), crashes.store()) as client:
        handle = await client.submit("hurry", id="t")
        assert await handle.result(timeout=10) == [None, "b reserved"]

    for crash in crashes.copies:
        timed_out = "sleep:1" in crash.completed("t")
        again = Gate()
        async with running(build(again), crash.store()) as client:
            task = await until(client, "t", *ENDED)
        assert task.state == "processed", task.error
        assert task.output[0] is None or not timed_out
        assert not (timed_out and "a" in again.ran)


async def test_a_branch_that_fails_breaks_off_the_other_and_both_are_undone_after_a_crash_at_every_point(
    crashes: Crashes,
):
    def build(gate: Gate) -> tuple[App, Shop]:
        app = App("waits")
        shop = Shop(app, gate, complete_by="1s")
        agent = app.agent("refusing")

        @agent.step
        async def refuse_late() -> None:
            await gate.came("slow")
            raise Permanent("sold out")

        @app.workflow
        async def both() -> None:
            await shop.reserve("first")
            await asyncio.gather(shop.reserve("slow"), refuse_late())

        return app, shop

    gate = Gate(closed=True)
    gate.let("first")
    app, shop = build(gate)
    async with running(app, crashes.store()) as client:
        await client.submit("both", id="t")
        assert (await until(client, "t", *ENDED)).state == "undone"
    assert shop.undone == [("slow", "unknown"), ("first", "completed")]

    for crash in crashes.copies:
        begun = crash.step_states("t").keys() & {"reserve:1", "reserve:2"}
        app, _ = build(Gate())
        async with running(app, crash.store()) as client:
            task = await until(client, "t", *ENDED)
            found = await states(client, "t")
        assert task.state == "undone", crash.name
        assert {found[key] for key in begun} <= {"undone"}, crash.name


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
        assert (end.state, end.output, child.state) == (task.state, task.output, task.state), crash.name
        assert not {f'"{what}"' for what in again.done} & {text.decode() for (text,) in completed}
        assert not {f'"{what}"' for what, _ in again.undone} & {text.decode() for (text,) in undone}
