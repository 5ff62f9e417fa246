"""Steps that are done by agents in other processes."""

from __future__ import annotations

import asyncio

from backstay import App, Permanent, Recovery, Retry, StepFailed, current_step
from tests.support.databases import Database
from tests.support.gate import Gate
from tests.support.running import SOON, ends, eventually, until
from tests.support.split import apart, hosting, scheduling

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_workflow_of_five_steps_runs_through_with_nobody_beside_its_scheduler(database: Database):
    app = App("split")
    agent = app.agent("agent")

    @agent.step
    async def add(one: int, other: int) -> int:
        return one + other

    @app.workflow
    async def count() -> int:
        first, second = await asyncio.gather(add(1, 2), add(3, 4))
        total = await add(first, second)
        return await add(await add(total, 1), 1)

    async with apart(app, database) as client:
        handle = await client.submit(count, id="t")
        assert await handle.result(SOON) == 12
        steps = await client.steps("t")

    assert [(step.state, step.attempt) for step in steps] == [("completed", 1)] * 5
    assert database.rows("SELECT * FROM agent_request") == []


async def test_a_body_elsewhere_knows_of_its_step_what_one_here_would(database: Database):
    app = App("split")
    agent = app.agent("agent", complete_by="5s")
    seen = []

    @agent.step
    async def look(what: str) -> str:
        seen.append(current_step())
        return what

    @app.workflow
    async def one() -> str:
        return await look("x" * 100_000)

    async with apart(app, database) as client:
        handle = await client.submit(one, id="t", attributes={"traceparent": TRACE})
        assert await handle.result(SOON) == "x" * 100_000

    [step] = seen
    assert (step.task_id, step.key, step.attempt) == ("t", "look:1", 1)
    assert (step.idempotency_key, step.traceparent) == ("t/look:1", TRACE)
    assert 0 <= step.remaining.total_seconds() <= 5


async def test_failures_retries_and_undo_travel_as_well(database: Database):
    app = App("split")
    agent = app.agent("agent", retry=Retry(attempts=1))
    undone = []
    messages = []
    tries = 0

    @agent.step
    async def reserve(what: int) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("not this time")
        return what + 1

    @reserve.undo
    async def release(what: int, *, result: int | None) -> None:
        undone.append((what, result, current_step().outcome, current_step().idempotency_key))

    @agent.step
    async def refuse() -> None:
        raise Permanent("never")

    @app.workflow(recovery=Recovery(attempts=2))
    async def order() -> None:
        await reserve(1)
        try:
            await refuse()
        except StepFailed as error:
            messages.append(error.error["message"])
            raise

    async with apart(app, database) as client:
        await client.submit(order, id="t")
        failed = await ends(client, "t")
        [reserved, refused] = await client.steps("t")

    assert (failed.state, failed.step) == ("undone", "refuse:1")
    assert (reserved.state, reserved.attempt, reserved.failure_count) == ("undone", 2, 1)
    assert refused.error is not None
    assert refused.error.permanent
    assert messages == ["never"]
    assert undone == [(1, 2, "completed", "t/reserve:1/undo")]
    assert database.rows("SELECT * FROM agent_request") == []


async def test_without_a_host_a_step_waits_without_a_complete_by_and_why_names_the_remedy(
    database: Database,
):
    app = App("split")
    agent = app.agent("bank")

    @agent.step
    async def charge() -> str:
        return "receipt"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with scheduling(app, database) as client:
        handle = await client.submit(order, id="t")
        await until(client, "t", "waiting")
        [step] = await client.steps("t")
        why = await client.why("t")

        assert (step.state, step.complete_by, step.attempt) == ("pending", None, 0)
        assert why.reason == (
            "step charge:1 waits for agent 'bank', which no live process has; start one with the role agents"
        )
        assert why.command == "backstay serve MODULE:APP --roles agents"
        assert [one.name for one in await client.agents()] == []

        async with hosting(app, database):
            assert await handle.result(SOON) == "receipt"
            [view] = await client.agents()
            assert (view.name, len(view.instances)) == ("bank", 1)


async def test_no_more_is_sent_than_hosts_have_slots_for(database: Database):
    app = App("split")
    agent = app.agent("narrow", concurrency=2)
    gate = Gate(closed=True)

    @agent.step
    async def work(number: int) -> int:
        await gate.enter()
        return number

    @app.workflow
    async def many() -> list[int]:
        return list(await asyncio.gather(*(work(number) for number in range(6))))

    async with apart(app, database) as client:
        handle = await client.submit(many, id="t")
        await gate.came("work:1", "work:2")
        states = [step.state for step in await client.steps("t")]
        assert sorted(states) == ["pending"] * 4 + ["running"] * 2
        [view] = await eventually(
            client.agents, lambda seen: seen and seen[0].instances[0].in_flight == 2, what="a report"
        )
        assert view.instances[0].breaker == "closed"
        gate.closed = False
        gate.let("work:1", "work:2")
        assert await handle.result(SOON) == [0, 1, 2, 3, 4, 5]
