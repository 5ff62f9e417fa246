"""A process dies: another goes on from where it stood, unless the task itself is what kills."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest

from backstay import App, Recovery
from tests.support.databases import Database
from tests.support.mail_order import Shop, record
from tests.support.running import FASTER, ONCE, SOON, ends
from tests.support.stores import DyingStore, StalledStore


async def test_a_dead_instances_task_is_finished_by_another_from_where_it_stood(database: Database):
    """Promises 2 and 5: the completed step is not run again, the interrupted one is, under its own key."""
    shop = Shop()
    await shop.crash(database)
    assert record(database)["state"] == "processing"

    shop.open.set()
    async with shop.app.run(database.url, **FASTER | database.heir()):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 2"
        steps = {step.key: step for step in await shop.app.steps("t")}

    assert shop.paid == ["t/pay:1"]
    assert shop.sent == [1, 2]
    assert (steps["send:1"].attempt, steps["send:1"].failure_count) == (2, 0)
    assert record(database)["failure_count"] == 0


async def test_an_app_that_runs_beside_it_takes_over(database: Database):
    """At once on SQLite, where the operating system's lock tells of the death; else after the lease."""
    shop, heir, store = Shop(), Shop(), database.store_as(StalledStore)
    heir.open.set()
    store.awake.clear()  # Not before the other has the task.
    async with heir.app.run(store, **{**FASTER, "lease": "1h", "heartbeat": "20m", **database.heir()}):
        await shop.crash(database)
        store.awake.set()
        assert await heir.app.handle("t").result(SOON) == "sent at attempt 2"

    assert (len(shop.paid), len(heir.paid)) == (1, 0)


CHILD = """
import asyncio
from backstay import App, Retry, current_step

app = App("child")
agent = app.agent("shop")
calls = []
hang = True


@agent.step
async def pay() -> str:
    calls.append(f"pay {current_step().attempt}")
    return "paid"


@agent.step
async def send() -> str:
    calls.append(f"send {current_step().attempt}")
    if hang:
        print("at work", flush=True)
        await asyncio.sleep(3600)
    return f"sent at attempt {current_step().attempt}"


@app.workflow
async def order() -> str:
    await pay()
    return await send()
"""


RUN_CHILD = """
import sys

async def main():
    async with app.run(sys.argv[1], **dict(setting.split("=") for setting in sys.argv[2:])):
        await app.submit(order, id="t")
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_a_killed_process_loses_nothing(database: Database):
    """Promise 5: kill -9 in the middle of a step; the work goes on here, without a person."""
    # It leads as well: its lead is taken over when its own lease is over.
    settings = [f"{name}={value}" for name, value in (FASTER | database.heir()).items()]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD + RUN_CHILD, database.url, *settings, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert await asyncio.wait_for(child.stdout.readline(), 30) == b"at work\n"
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()

    here: dict[str, Any] = {}
    exec(CHILD, here)
    here["hang"] = False
    async with here["app"].run(database.url, **FASTER | database.heir()) as app:
        assert await app.handle("t").result(SOON) == "sent at attempt 2"

    assert here["calls"] == ["send 2"]


async def test_crashes_are_counted_apart_and_compared_with_their_own_limit(database: Database):
    """DESIGN §4: a few kill -9 never undo an innocent task, whatever Recovery.attempts says."""
    shop = Shop(attempts=1, crashes=4)
    for _ in range(3):
        await shop.crash(database)

    shop.open.set()
    async with shop.app.run(database.url, **FASTER | database.heir()):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 4"

    assert record(database)["failure_count"] == 0
    assert len(shop.paid) == 1


async def test_a_task_that_comes_further_each_time_outlives_any_number_of_processes(database: Database):
    """Nothing that it does kills a process, so it is not blamed for those that were killed around it."""
    app, hangs, done = App("long"), asyncio.Queue[int](), set[int]()

    @app.agent("worker", retry=ONCE).step
    async def work(number: int) -> None:
        if number not in done:
            hangs.put_nowait(number)
            await asyncio.Event().wait()

    @app.workflow(recovery=Recovery(crashes=2))
    async def long() -> str:
        for number in range(4):
            await work(number)
        return "done"

    for number in range(4):
        async with app.run(database.store_as(DyingStore), **FASTER | database.heir()):
            await app.submit(long, id="t")
            assert await asyncio.wait_for(hangs.get(), SOON) == number
        done.add(number)

    async with app.run(database.url, **FASTER | database.heir()):
        assert await app.handle("t").result(SOON) == "done"


@pytest.mark.parametrize(("then", "state"), [("undo", "undone"), ("error", "error"), ("wait", "error")])
async def test_a_task_that_kills_too_many_processes_is_not_run_again(
    database: Database, then: str, state: str
):
    """Whatever then says: waiting would only kill the next one."""
    shop = Shop(crashes=2, then=then)
    for _ in range(2):
        await shop.crash(database)

    async with shop.app.run(database.url, **FASTER | database.heir()):
        failed = await ends(shop.app, "t")

    assert failed.state == state
    assert failed.error is not None
    assert failed.error["type"] == "Crashes"
    assert shop.sent == [1, 2]
    assert shop.refunded == (["paid"] if state == "undone" else [])


async def test_a_step_that_is_not_idempotent_is_not_repeated_after_a_crash(database: Database):
    """RT-4: nobody knows what it did, so it goes to then."""
    shop = Shop(idempotent=False, then="undo")
    await shop.crash(database)

    async with shop.app.run(database.url, **FASTER | database.heir()):
        failed = await ends(shop.app, "t")

    assert (failed.state, failed.step) == ("undone", "send:1")
    assert failed.error is not None
    assert failed.error["type"] == "Interrupted"
    assert shop.sent == [1]
    assert shop.refunded == ["paid"]
