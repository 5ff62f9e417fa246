"""After a crash the workflow runs again, and what it recorded happens to it again, in the same order."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

import pytest

from backstay import App, Permanent, StepFailed, now, race, random, uuid4
from backstay.client import Client
from backstay.views import Task
from tests.support.crashes import Crash, Crashes
from tests.support.gate import Gate
from tests.support.running import eventually, running, until

SEED = int(os.environ.get("BACKSTAY_TEST_SEED", "7"))
ROUNDS = 6

Function = Callable[..., Awaitable[Any]]


class Drawn:
    """An app whose steps give back their own key, so that every call has a result of its own."""

    def __init__(self, gate: Gate, *, concurrency: int | None = None) -> None:
        self.app = App("replay")
        agent = self.app.agent("agent", concurrency=concurrency)

        @agent.step
        async def draw(what: str) -> str:
            return await gate.enter()

        @agent.step
        async def take(what: str) -> str:
            return await gate.enter()

        @agent.step
        async def note(what: Any) -> Any:
            await gate.enter(held=False)
            return what

        @agent.step
        async def refuse() -> None:
            await gate.enter(held=False)
            raise Permanent("no")

        self.draw, self.take, self.note, self.refuse = draw, take, note, refuse


#: A workflow's code, given the steps that it may call.
Code = Callable[[Drawn], Function]


def with_workflow(code: Code, gate: Gate, *, concurrency: int | None = None, **options: Any) -> App:
    steps = Drawn(gate, concurrency=concurrency)
    steps.app.workflow(name="workflow", **options)(code(steps))
    return steps.app


async def recorded(client: Client, *keys: str) -> None:
    """Wait until these steps are recorded as ended."""

    async def ended() -> set[str]:
        return {step.key for step in await client.steps("t") if step.state in ("completed", "failed")}

    await eventually(ended, lambda found: set(keys) <= found, what=f"{keys} ended")


async def let_one_by_one(client: Client, gate: Gate, keys: Iterable[str]) -> None:
    """Let bodies go on in this order, each once the one before is recorded."""
    for key in keys:
        await gate.came(key)
        gate.let(key)
        await recorded(client, key)


async def crashed_at(crashes: Crashes, code: Code, key: str) -> Crash:
    """Run ``code`` until the body of step ``key`` has begun, and crash there."""
    gate = Gate(closed=True)
    async with running(with_workflow(code, gate), crashes.store()) as client:
        await client.submit("workflow", id="t")
        while key not in (waiting := await gate.waiting()):
            gate.let(*waiting)
        return crashes.now()


async def resumed(crash: Crash, code: Code) -> Task:
    """The task at its end, after ``code`` took over what the crash left. No completed step ran again."""
    gate = Gate()
    completed = crash.completed("t")
    async with running(with_workflow(code, gate), crash.store()) as client:
        task = await until(client, "t", "processed", "error", "undone")
    again = completed & set(gate.ran)
    assert not again, f"resumed from {crash.name}: {again} had been completed and ran again"
    return task


# Two branches that call the same step


def two_branches(steps: Drawn) -> Function:
    async def twice() -> list[str]:
        return [await steps.draw("a card"), await steps.draw("a card")]

    async def workflow() -> list[list[str]]:
        return list(await asyncio.gather(twice(), twice()))

    return workflow


@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
async def test_two_gathered_branches_get_their_own_results_back_after_a_crash_at_every_point(
    crashes: Crashes, seed: int
):
    print(f"seed {seed}")
    chance = Random(seed)
    gate = Gate(closed=True)
    each_its_own = [["1.draw:1", "1.draw:2"], ["2.draw:1", "2.draw:2"]]
    async with running(with_workflow(two_branches, gate), crashes.store()) as client:
        handle = await client.submit("workflow", id="t")
        for _ in range(4):
            await let_one_by_one(client, gate, [chance.choice(await gate.waiting())])
        assert await handle.result() == each_its_own

    points = {frozenset(crash.step_states("t").items()) for crash in crashes.copies}
    assert len(points) == 6, "nothing recorded, two running, and one more result with each commit"
    for crash in crashes.copies:
        assert (await resumed(crash, two_branches)).output == each_its_own


async def test_an_interrupted_step_that_must_wait_for_a_slot_is_pending_and_has_no_complete_by(
    crashes: Crashes,
):
    crash = await crashed_at(crashes, two_branches, "2.draw:1")
    assert crash.step_states("t") == {"1.draw:1": "running", "2.draw:1": "running"}

    gate = Gate(closed=True)
    async with running(with_workflow(two_branches, gate, concurrency=1), crash.store()) as client:
        [began] = await gate.waiting()
        steps = {step.key: step for step in await client.steps("t")}
        [queued] = steps.keys() - {began}

    assert steps[began].state == "running"
    assert (steps[queued].state, steps[queued].complete_by) == ("pending", None)


# The order of results


def gathered(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        order: list[str] = []

        async def one(what: str) -> None:
            order.append(await steps.draw(what))
            await steps.note(list(order))

        await asyncio.gather(one("a"), one("b"), one("c"))
        return order

    return workflow


def in_a_task_group(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        order: list[str] = []

        async def one(what: str) -> None:
            order.append(await steps.draw(what))
            await steps.note(list(order))

        async with asyncio.TaskGroup() as group:
            for what in "abc":
                group.create_task(one(what))
        return order

    return workflow


def as_completed(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        order: list[str] = []
        for first in asyncio.as_completed([steps.draw(what) for what in "abc"]):
            order.append(await first)
            await steps.note(list(order))
        return order

    return workflow


def waited_for(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        order: list[str] = []
        pending = {asyncio.ensure_future(steps.draw(what)) for what in "abc"}
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            order += sorted(one.result() for one in done)
            await steps.note(list(order))
        return order

    return workflow


@pytest.mark.parametrize(
    ("code", "order"),
    [
        (gathered, ["3.draw:1", "1.draw:1", "2.draw:1"]),
        (in_a_task_group, ["3.draw:1", "1.draw:1", "2.draw:1"]),
        (as_completed, ["draw:3", "draw:1", "draw:2"]),
        (waited_for, ["draw:3", "draw:1", "draw:2"]),
    ],
)
async def test_results_reach_the_workflow_again_in_the_order_in_which_they_came(
    crashes: Crashes, code: Code, order: list[str]
):
    gate = Gate(closed=True)
    async with running(with_workflow(code, gate), crashes.store()) as client:
        handle = await client.submit("workflow", id="t")
        await let_one_by_one(client, gate, order)
        assert await handle.result() == order

    for crash in crashes.copies:
        certain = len(crash.completed("t") & set(order))
        task = await resumed(crash, code)
        assert task.state == "processed", task.error
        assert task.output[:certain] == order[:certain]


def raced(steps: Drawn) -> Function:
    async def workflow() -> str:
        first: str = await race(steps.draw("a"), steps.take("b"))
        await steps.note(first)
        return first

    return workflow


@pytest.mark.parametrize("winner", ["draw:1", "take:1"])
async def test_a_race_has_the_same_winner_again(crashes: Crashes, winner: str):
    gate = Gate(closed=True)
    async with running(with_workflow(raced, gate), crashes.store()) as client:
        handle = await client.submit("workflow", id="t")
        await gate.came("draw:1", "take:1")
        gate.let(winner)
        assert await handle.result() == winner

    certain = 0
    for crash in crashes.copies:
        had_won = winner in crash.completed("t")
        task = await resumed(crash, raced)
        assert task.state == "processed", task.error
        assert task.output == winner or not had_won
        certain += had_won
    assert certain > 0


def changes_its_mind(steps: Drawn) -> Function:
    async def in_the_same_breath() -> None:
        dropped = asyncio.ensure_future(steps.draw("never"))
        await asyncio.sleep(0)
        dropped.cancel()

    async def workflow() -> list[str]:
        await in_the_same_breath()
        first = await steps.take("a")
        await in_the_same_breath()
        return [first, await steps.take("b")]

    return workflow


async def test_a_step_that_is_called_and_dropped_in_the_same_breath_is_never_done(crashes: Crashes):
    gate = Gate()
    async with running(with_workflow(changes_its_mind, gate), crashes.store()) as client:
        assert await (await client.submit("workflow", id="t")).result() == ["take:1", "take:2"]
    assert gate.ran == ["take:1", "take:2"]

    for crash in crashes.copies:
        assert (await resumed(crash, changes_its_mind)).output == ["take:1", "take:2"]


def with_the_tools_of_asyncio(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        two_at_a_time = asyncio.Semaphore(2)
        drawn: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        all_drawn = asyncio.Event()

        async def produce(what: str) -> None:
            async with two_at_a_time:
                await drawn.put(await steps.draw(what))

        async def consume() -> list[str]:
            taken = [await steps.note(await drawn.get()) for _ in range(5)]
            all_drawn.set()
            return taken

        async with asyncio.TaskGroup() as group:
            for what in "abcde":
                group.create_task(produce(what))
            consumer = group.create_task(consume())
            await all_drawn.wait()
        return sorted(consumer.result())

    return workflow


async def test_semaphores_queues_events_and_groups_replay_as_they_ran(crashes: Crashes):
    gate = Gate(closed=True)
    order = ["2.draw:1", "1.draw:1", "4.draw:1", "3.draw:1", "5.draw:1"]
    async with running(with_workflow(with_the_tools_of_asyncio, gate), crashes.store()) as client:
        handle = await client.submit("workflow", id="t")
        await let_one_by_one(client, gate, order)
        assert await handle.result() == sorted(order)

    for crash in crashes.copies:
        task = await resumed(crash, with_the_tools_of_asyncio)
        assert task.output == sorted(order), task.error


# What came from outside beside the steps


def with_values(steps: Drawn) -> Function:
    async def workflow() -> list[Any]:
        values: list[Any] = [now(), uuid4(), random(), random()]
        await steps.note(values)
        await steps.draw("a")
        values += [now(), uuid4()]
        await steps.note(values)
        return values

    return workflow


async def test_now_uuid4_and_random_are_the_same_again(crashes: Crashes):
    gate = Gate()
    async with running(with_workflow(with_values, gate), crashes.store()) as client:
        values = await (await client.submit("workflow", id="t")).result()
    assert datetime.fromisoformat(values[0]) <= datetime.fromisoformat(values[4])
    assert UUID(values[1]) != UUID(values[5])
    assert values[2] != values[3]

    for crash in crashes.copies:
        states = crash.step_states("t")
        certain = 6 if "note:2" in states else 4 if "note:1" in states else 0
        task = await resumed(crash, with_values)
        assert task.state == "processed", task.error
        assert task.output[:certain] == values[:certain]


def around_a_failure(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        try:
            await steps.refuse()
        except StepFailed as failed:
            return [failed.step, failed.error["message"], await steps.draw("a"), await steps.draw("b")]
        return []

    return workflow


async def test_a_failure_that_the_workflow_went_around_fails_again_and_leads_the_same_way(crashes: Crashes):
    gate = Gate()
    expected = ["refuse:1", "no", "draw:1", "draw:2"]
    async with running(with_workflow(around_a_failure, gate), crashes.store()) as client:
        assert await (await client.submit("workflow", id="t")).result() == expected

    for crash in crashes.copies:
        failed = crash.step_states("t").get("refuse:1") == "failed"
        gate = Gate()
        async with running(with_workflow(around_a_failure, gate), crash.store()) as client:
            assert (await until(client, "t", "processed", "error")).output == expected
        assert not (failed and "refuse:1" in gate.ran), "it had failed for good and ran again"


# A workflow that no longer matches


def original(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.take("b"), await steps.draw("c")]

    return workflow


def removed(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.draw("c")]

    return workflow


def added(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        first = await steps.draw("a")
        await steps.note("x")
        return [first, await steps.take("b"), await steps.draw("c")]

    return workflow


def reordered(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.take("b"), await steps.draw("a"), await steps.draw("c")]

    return workflow


def renamed(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.note("b"), await steps.draw("c")]

    return workflow


def other_input(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.take("z"), await steps.draw("c")]

    return workflow


def ended_early(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a")]

    return workflow


def fails_early(steps: Drawn) -> Function:
    async def workflow() -> None:
        failure = StepFailed(await steps.draw("a"), {"type": "Refused", "message": "no"})
        raise ExceptionGroup("of a task group", [failure])

    return workflow


def last_removed(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.take("b")]

    return workflow


def last_renamed(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.take("b"), await steps.note("c")]

    return workflow


def last_with_other_input(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.take("b"), await steps.draw("z")]

    return workflow


def added_before_the_last(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        first = [await steps.draw("a"), await steps.take("b")]
        await steps.note("x")
        return [*first, await steps.draw("c")]

    return workflow


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        (removed, "take:1"),
        (added, "note:1"),
        (reordered, "draw:1"),
        (renamed, "note:1"),
        (other_input, "take:1"),
        (ended_early, "take:1"),
        (fails_early, "take:1"),
        (last_removed, "draw:2"),
        (last_renamed, "draw:2"),
        (last_with_other_input, "draw:2"),
        (added_before_the_last, "draw:2"),
    ],
)
async def test_a_changed_workflow_is_refused_at_the_right_step_and_resumed_by_the_code_that_matches(
    crashes: Crashes, changed: Code, step: str
):
    crash = await crashed_at(crashes, original, "draw:2")
    journal = crash.journal()

    refused = await resumed(crash, changed)
    assert refused.state == "error"
    assert refused.error is not None
    assert (refused.error.type, refused.error.step) == ("JournalMismatch", step)
    assert crash.journal() == journal, "nothing that was recorded is lost or changed"

    await resubmitted(crash)
    finished = await resumed(crash, original)
    assert (finished.state, finished.output) == ("processed", ["draw:1", "take:1", "draw:2"])


async def resubmitted(crash: Crash) -> None:
    async with App("operator").client(crash.store()) as client:
        await client.resubmit("t")


def around_a_failure_without_it(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        return [await steps.draw("a"), await steps.draw("b")]

    return workflow


async def test_a_failure_that_a_changed_workflow_no_longer_meets_stays_recorded(crashes: Crashes):
    crash = await crashed_at(crashes, around_a_failure, "draw:2")
    journal = crash.journal()

    refused = await resumed(crash, around_a_failure_without_it)
    await resubmitted(crash)
    assert refused.error is not None
    assert (refused.error.type, refused.error.step) == ("JournalMismatch", "refuse:1")
    assert crash.journal() == journal

    assert (await resumed(crash, around_a_failure)).output == ["refuse:1", "no", "draw:1", "draw:2"]


def original_with_a_number(steps: Drawn) -> Function:
    """Like ``original``, but what ``draw`` gave back is now declared to be a number."""
    agent = steps.app.registry.agents["agent"]
    del steps.app.registry.steps["draw"]

    @agent.step
    async def draw(what: str) -> int:
        return 1

    steps.draw = draw  # type: ignore[assignment]  # The other type is the point.
    return original(steps)


async def test_a_recorded_result_that_no_longer_fits_its_type_is_refused_at_its_step(crashes: Crashes):
    crash = await crashed_at(crashes, original, "draw:2")
    journal = crash.journal()

    refused = await resumed(crash, original_with_a_number)

    assert refused.error is not None
    assert (refused.error.type, refused.error.step) == ("JournalMismatch", "draw:1")
    assert crash.journal() == journal


def with_one_more_value(steps: Drawn) -> Function:
    async def workflow() -> list[str]:
        results = [await steps.draw("a"), await steps.take("b")]
        assert isinstance(now(), datetime)
        assert isinstance(uuid4(), UUID)
        return [*results, await steps.draw("c")]

    return workflow


@pytest.mark.parametrize(
    ("before", "after"), [(original, with_one_more_value), (with_one_more_value, original)]
)
async def test_values_may_come_and_go_with_the_code(crashes: Crashes, before: Code, after: Code):
    crash = await crashed_at(crashes, before, "draw:2")

    assert (await resumed(crash, after)).output == ["draw:1", "take:1", "draw:2"]


# What a workflow must not do


async def nap() -> None:
    await asyncio.sleep(1)


async def within_a_timeout() -> None:
    async with asyncio.timeout(1):
        pass


async def wait_a_second() -> None:
    await asyncio.wait_for(asyncio.get_running_loop().create_future(), 1)


async def in_a_thread() -> None:
    await asyncio.to_thread(len, "abc")


@pytest.mark.parametrize("call", [nap, within_a_timeout, wait_a_second, in_a_thread])
async def test_what_does_not_replay_is_refused_with_a_pointer_to_sleep_and_race(
    crashes: Crashes, call: Function
):
    def code(steps: Drawn) -> Function:
        async def workflow() -> None:
            await steps.draw("a")
            await call()

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store()) as client:
        await client.submit("workflow", id="t")
        task = await until(client, "t", "error", "processed")

    assert task.error is not None
    assert task.error.type == "NotInWorkflow"
    assert "sleep" in task.error.message
    assert "race" in task.error.message


async def test_asyncio_sleep_of_nothing_only_lets_other_branches_go_first(crashes: Crashes):
    def code(steps: Drawn) -> Function:
        async def workflow() -> str:
            await asyncio.sleep(0)
            return await steps.draw("a")

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store()) as client:
        assert await (await client.submit("workflow", id="t")).result() == "draw:1"


async def test_a_workflow_that_exits_is_an_error_of_its_own_and_no_neighbours(crashes: Crashes):
    def code(steps: Drawn) -> Function:
        async def workflow() -> None:
            await steps.draw("a")
            sys.exit("enough")

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store()) as client:
        await client.submit("workflow", id="t")
        task = await until(client, "t", "error", "processed")

    assert task.error is not None
    assert (task.error.type, task.error.message) == ("SystemExit", "enough")


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def for_an_event() -> None:
    await asyncio.Event().wait()


async def for_an_empty_queue() -> None:
    await asyncio.Queue[int]().get()


@pytest.mark.parametrize("call", [for_ever, for_an_event, for_an_empty_queue])
@pytest.mark.parametrize("beside", [False, True])
async def test_a_workflow_that_can_never_go_on_says_so(crashes: Crashes, call: Function, beside: bool):
    def code(steps: Drawn) -> Function:
        async def workflow() -> None:
            if beside:
                await asyncio.gather(call(), steps.draw("a"))
            else:
                await call()

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store()) as client:
        await client.submit("workflow", id="t")
        task = await until(client, "t", "error", "processed")

    assert task.error is not None
    assert "neither a step nor a sleep, signal or child" in task.error.message


# Versions


async def test_a_task_waits_for_a_scheduler_with_its_own_version_and_why_says_so(crashes: Crashes):
    crash = await crashed_at(crashes, original, "draw:2")
    gate = Gate()

    async with running(with_workflow(removed, gate, version=2), crash.store()) as client:
        newer = await client.submit("workflow", id="newer")
        assert await newer.result() == ["draw:1", "draw:2"]
        # Its process died; that may be known only after the newer task has ended.
        task = await until(client, "t", "pending")
        why = await client.why("t")
    assert (task.state, task.version) == ("pending", 1)
    assert "version 1" in why.reason
    assert "no live scheduler" in why.reason

    steps = Drawn(gate)
    steps.app.workflow(name="workflow", version=1)(original(steps))
    steps.app.workflow(name="workflow", version=2)(removed(steps))
    async with running(steps.app, crash.store()) as client:
        assert (await until(client, "t", "processed", "error")).output == ["draw:1", "take:1", "draw:2"]


# Plans


async def test_the_steps_of_a_plan_are_recorded_as_pending_with_the_submission(crashes: Crashes):
    steps = Drawn(Gate())
    plan = [steps.draw, steps.take, steps.draw]
    steps.app.workflow(name="workflow", plan=plan)(original(steps))

    async with steps.app.client(crashes.store()) as client:
        await client.submit("workflow", id="t")
        planned = await client.steps("t")
    assert [(step.key, step.state, step.input) for step in planned] == [
        ("draw:1", "pending", None),
        ("draw:2", "pending", None),
        ("take:1", "pending", None),
    ]

    async with running(steps.app, crashes.store()) as client:
        assert await client.handle("t").result() == ["draw:1", "take:1", "draw:2"]
    for crash in crashes.copies:
        gate = Gate()
        again = Drawn(gate)
        again.app.workflow(name="workflow", plan=[again.draw, again.take, again.draw])(original(again))
        completed = crash.completed("t")
        async with running(again.app, crash.store()) as client:
            assert await client.handle("t").result() == ["draw:1", "take:1", "draw:2"]
        assert not completed & set(gate.ran)


async def test_a_planned_step_that_is_never_called_is_skipped_at_the_end(crashes: Crashes):
    steps = Drawn(Gate())
    steps.app.workflow(name="workflow", plan=[steps.draw, steps.note])(ended_early(steps))

    async with running(steps.app, crashes.store()) as client:
        await (await client.submit("workflow", id="t")).result()
        found = {step.key: step.state for step in await client.steps("t")}

    assert found == {"draw:1": "completed", "note:1": "skipped"}


# The limit of a journal


async def test_a_journal_has_a_limit_and_the_task_says_which(crashes: Crashes):
    def code(steps: Drawn) -> Function:
        async def workflow() -> None:
            while True:
                await steps.draw("a")

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store(), journal_max=10) as client:
        await client.submit("workflow", id="t")
        task = await until(client, "t", "error", "processed")
        steps = await client.steps("t")

    assert task.error is not None
    assert "journal_max" in task.error.message
    assert [step.state for step in steps] == ["completed"] * 10


async def test_values_count_towards_the_limit_of_the_journal(crashes: Crashes):
    def code(steps: Drawn) -> Function:
        async def workflow() -> None:
            for _ in range(11):
                random()

        return workflow

    async with running(with_workflow(code, Gate()), crashes.store(), journal_max=10) as client:
        await client.submit("workflow", id="t")
        task = await until(client, "t", "error", "processed")

    assert task.error is not None
    assert "journal_max" in task.error.message
