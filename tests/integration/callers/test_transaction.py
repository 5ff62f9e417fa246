"""An order and its task commit together or vanish together, whatever the driver of the caller."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Client, IdConflict
from backstay.clock import SystemClock
from backstay.domain.message import Queue
from backstay.errors import InvalidInput, UnknownTask
from tests.integration.callers.conftest import INLINE_BYTES_MAX
from tests.integration.callers.drivers import Caller
from tests.support.databases import Database

SOON = 20.0
LARGE = "x" * (10 * INLINE_BYTES_MAX)


def written(database: Database) -> tuple[list[str], list[str]]:
    """The orders and the tasks that are there."""
    orders = [name for (name,) in database.rows("SELECT name FROM orders ORDER BY name")]
    return orders, [task_id for (task_id,) in database.rows("SELECT id FROM task ORDER BY id")]


def what_belongs_to_tasks(database: Database) -> int:
    return sum(len(database.rows(f"SELECT task_key FROM {table}")) for table in ("step", "payload"))


def rows_of_task(database: Database, task_id: str) -> list[tuple[object, ...]]:
    """Every row of a task, but for its name, its number and when it was written."""
    task = (
        "SELECT workflow, version, state, input, output, error, complete_by, hard_end, locked_by,"
        " lock_number, failure_count, crash_count, wake_at, parked, request, reply_to, attributes,"
        " parent_key, parent_step FROM task WHERE id = ?"
    )
    step = "SELECT step.* FROM step JOIN task ON task.key = step.task_key WHERE task.id = ?"
    payload = "SELECT payload.* FROM payload JOIN task ON task.key = payload.task_key WHERE task.id = ?"
    told = "SELECT told.* FROM told JOIN task ON task.key = told.task_key WHERE task.id = ?"
    message = "SELECT message.sequence, state, priority FROM message WHERE id = ? || ':received:1'"
    queries = (step, payload, told, message)
    belongings = [row[1:] for query in queries for row in database.rows(query, task_id)]
    assert len(belongings) == 4
    return database.rows(task, task_id) + belongings


async def test_order_and_task_are_there_together_and_the_workflow_runs(
    app: App, client: Client, database: Database, caller: Caller
):
    async with app.run(database.url, inline_bytes_max=INLINE_BYTES_MAX):
        await caller.begin()
        await caller.order("drone")
        handle = await caller.submit(client, "deliver", "drone", id="delivery-1")
        with pytest.raises(UnknownTask):
            await client.task("delivery-1")
        await caller.commit()

        assert await handle.result(SOON) == "drone carried"
    assert written(database) == (["drone"], ["delivery-1"])


async def test_a_submission_may_be_the_first_thing_in_a_transaction(
    client: Client, database: Database, caller: Caller
):
    await caller.begin()
    await caller.submit(client, "deliver", "drone", id="delivery-1")
    await caller.order("drone")
    assert written(database) == ([], [])
    await caller.commit()

    assert written(database) == (["drone"], ["delivery-1"])


async def test_rolled_back_neither_is_there(client: Client, database: Database, caller: Caller):
    await caller.begin()
    await caller.submit(client, "deliver", LARGE, id="delivery-1")
    await caller.order("drone")
    await caller.roll_back()

    assert written(database) == ([], [])
    assert what_belongs_to_tasks(database) == 0
    await client.submit("deliver", "another", id="delivery-1")


async def test_a_connection_that_is_lost_before_the_commit_leaves_neither(
    client: Client, database: Database, caller: Caller
):
    await caller.begin()
    await caller.order("drone")
    await caller.submit(client, "deliver", "drone", id="delivery-1")
    await caller.vanish()

    # It waits for the server to see that nobody is there any more.
    await client.submit("deliver", "another", id="delivery-1")
    assert written(database) == ([], ["delivery-1"])


async def test_what_is_written_is_what_a_submission_without_a_transaction_writes(
    client: Client, database: Database, caller: Caller
):
    options: dict[str, Any] = {
        "complete_by": "2090-01-01T00:00:00Z",
        "reply_to": "queue:desk",
        "attributes": {"city": "Łódź"},
    }
    await client.exchange.queues.declare(Queue(name="desk"), now=SystemClock().now())
    await caller.begin()
    await caller.submit(client, "deliver", LARGE, id="within", **options)
    await caller.commit()
    await client.submit("deliver", LARGE, id="alone", **options)

    assert rows_of_task(database, "within") == rows_of_task(database, "alone")


async def test_that_a_task_was_received_is_told_once_the_caller_commits(
    client: Client, database: Database, caller: Caller
):
    desk = client.queue("desk")
    await client.exchange.queues.declare(Queue(name="desk"), now=SystemClock().now())
    await caller.begin()
    await caller.order("drone")
    await caller.submit(client, "deliver", "drone", id="rolled-back", reply_to="queue:desk")
    await caller.roll_back()
    await caller.begin()
    await caller.submit(client, "deliver", "drone", id="delivery-1", reply_to="queue:desk")
    await caller.commit()

    [message] = await desk.receive(max=10, wait=timedelta(seconds=SOON))
    assert (message.id, message.body["status"]) == ("delivery-1:received:1", "received")
    assert database.rows("SELECT status, sequence FROM told") == [("received", 1)]


async def test_who_cannot_be_told_is_refused_and_the_transaction_goes_on(
    client: Client, database: Database, caller: Caller
):
    await caller.begin()
    await caller.order("drone")
    with pytest.raises(InvalidInput, match="there is no queue 'nobodys'"):
        await caller.submit(client, "deliver", "drone", reply_to="queue:nobodys")
    await caller.commit()

    assert written(database) == (["drone"], [])


async def test_a_large_input_with_a_plan_runs(app: App, client: Client, database: Database, caller: Caller):
    await caller.begin()
    handle = await caller.submit(client, "deliver", LARGE)
    await caller.commit()

    async with app.run(database.url, inline_bytes_max=INLINE_BYTES_MAX):
        assert await handle.result(SOON) == f"{LARGE} carried"


@pytest.mark.parametrize("parcel", ["drone", LARGE], ids=["small", "large"])
async def test_the_same_again_is_the_same_task(
    client: Client, database: Database, caller: Caller, parcel: str
):
    await caller.begin()
    for _ in range(2):
        await caller.submit(client, "deliver", parcel, id="delivery-1")
    await caller.commit()
    await caller.begin()
    handle = await caller.submit(client, "deliver", parcel, id="delivery-1")
    await caller.commit()

    assert handle.id == "delivery-1"
    assert written(database) == ([], ["delivery-1"])


@pytest.mark.parametrize("parcel", ["kite", LARGE], ids=["small", "large"])
async def test_other_content_is_a_conflict_and_the_transaction_goes_on(
    client: Client, database: Database, caller: Caller, parcel: str
):
    await client.submit("deliver", "drone", id="delivery-1")
    await caller.begin()
    await caller.order("kite")
    with pytest.raises(IdConflict, match="'delivery-1' exists already with other content"):
        await caller.submit(client, "deliver", parcel, id="delivery-1")
    await caller.submit(client, "deliver", parcel, id="delivery-2")
    await caller.commit()

    assert written(database) == (["kite"], ["delivery-1", "delivery-2"])


async def test_many_tasks_can_be_part_of_one_transaction(client: Client, database: Database, caller: Caller):
    ids = [f"delivery-{number}" for number in range(10)]
    await caller.begin()
    for task_id in ids:
        await caller.submit(client, "deliver", "drone", id=task_id)
    await caller.commit()

    assert written(database) == ([], ids)
