"""What becomes of messages that are to become tasks, on every database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from backstay import App, IdConflict, InvalidRequest, Message, Submission
from backstay.client import Client
from backstay.domain.message import TOO_MANY_DELIVERIES
from backstay.ingest.queues.keeper import Held
from backstay.ingest.queues.submitter import Submitter
from backstay.runtime import connected
from backstay.settings import Settings
from backstay.store import accepting
from backstay.store.records import AlertFilter
from backstay.submit import Door
from tests.support.databases import Database, PostgresDatabase
from tests.support.order_desk import desk, execute, make_orders, orders_of, table_of, tasks_of
from tests.support.running import FASTER, SOON, eventually


@pytest.fixture
def table(database: Database) -> str:
    make_orders(database)
    return table_of(database)


class Desk:
    """One turn of the submission process at a time."""

    def __init__(self, app: App, client: Client) -> None:
        self.client = client
        self.queue = client.queue("incoming")
        [declared] = app.registry.submissions.values()
        store, clock = client._store, client._clock
        door = Door(store, app.registry, settings=client.settings, clock=clock)
        self._submitter = Submitter(declared, client.exchange, store=store, door=door, clock=clock)

    async def send(self, name: str = "a", cents: int = 5, **more: Any) -> None:
        await self.queue.send({"name": name, "cents": cents, **more}, id=more.pop("id", None))

    async def turn(self) -> int:
        return await self._submitter.run_once()

    async def counts(self) -> dict[str, int]:
        [found] = await self.client.exchange.queues.standings(names=["incoming"], limit=1, counted=1000)
        states = {one: getattr(found, one) for one in ("ready", "behind", "waiting", "locked", "dead")}
        return {state: number for state, number in states.items() if number}

    async def dead(self) -> list[Any]:
        return await self.client.exchange.queues.dead("incoming", limit=100)


async def at(app: App, database: Database, **options: Any) -> AsyncIterator[Desk]:
    settings = Settings.load(options, environment={})
    async with connected(app.registry, settings, store=database.store()) as client:
        await client.exchange.declare_all()
        yield Desk(app, client)


@pytest.fixture
async def counter(database: Database, table: str) -> AsyncIterator[Desk]:
    async for one in at(desk(table), database):
        yield one


# As it should be


async def test_a_message_becomes_a_row_and_a_task_that_runs(database: Database, table: str):
    """IC-2."""
    app = desk(table, concurrency=4)
    async with app.run(database.store(), **FASTER):
        for number in range(10):
            await app.queue("incoming").send({"name": f"order-{number}", "cents": number + 1})
        for number in range(10):

            async def is_there(name: str = f"order-{number}") -> bool:
                return name in tasks_of(database)

            await eventually(is_there, bool)
            assert await app.handle(f"order-{number}").result(SOON) == f"order-{number} for {number + 1}"

    assert orders_of(database) == tasks_of(database) == [f"order-{number}" for number in range(10)]


async def test_the_same_order_twice_is_one_task_and_both_messages_are_done(database: Database, counter: Desk):
    """IC-3, IC-4."""
    await counter.send("a")
    await counter.send("a")

    assert await counter.turn() + await counter.turn() == 2

    assert tasks_of(database) == ["a"]
    assert await counter.counts() == {}


async def test_without_an_id_the_task_is_called_as_its_message(database: Database):
    """IC-5."""
    app = App("desk")

    @app.workflow
    async def count(number: int) -> int:
        return number

    @app.submission(app.queue("incoming"))
    async def accept(message: Message, connection: Any) -> Submission:
        return Submission("count", message.body)

    async for counter in at(app, database):
        await counter.queue.send(7, id="seven")
        await counter.turn()
        assert (await counter.client.task("seven")).input == 7


async def test_a_submission_may_say_whom_to_tell_and_until_when(database: Database):
    app = App("desk")
    app.queue("told")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        return Submission(
            idle, id="t", complete_by="1h", reply_to="queue:told", attributes={"queue": message.queue}
        )

    async for counter in at(app, database):
        await counter.queue.send()
        await counter.turn()
        task = await counter.client.task("t")
        [message] = await counter.client.queue("told").receive()
        assert task.hard_end is not None
        assert task.attributes == {"queue": "incoming"}
        assert message.body["status"] == "received"


# What cannot be


async def test_what_is_refused_for_good_is_set_aside_and_leaves_no_row(database: Database, counter: Desk):
    await counter.send("a", cents=0)

    await counter.turn()

    [dead] = await counter.dead()
    assert (dead.reason, dead.delivery_count) == ("not worth a cent", 1)
    assert (orders_of(database), tasks_of(database)) == ([], [])


async def test_what_does_not_fit_the_workflow_is_set_aside_with_the_reason(database: Database, counter: Desk):
    await counter.queue.send({"name": "a", "cents": "many"})

    await counter.turn()

    [dead] = await counter.dead()
    assert dead.reason.startswith("InvalidInput: ")
    assert "cents" in dead.reason
    assert (orders_of(database), tasks_of(database)) == ([], [])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "it must return a Submission"),
        (Submission("nobodys"), "there is no workflow 'nobodys'"),
        (Submission("idle", id="no id"), "an id has 1 to 200"),
        (Submission("idle", reply_to="queue:nobodys"), "there is no queue 'nobodys'"),
    ],
)
async def test_a_submission_that_is_none_sets_the_message_aside(
    database: Database, table: str, given: Any, reason: str
):
    app = App("desk")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        await execute(connection, f"INSERT INTO {table} VALUES ('a')")
        return given

    async for counter in at(app, database):
        await counter.queue.send()
        await counter.turn()
        [dead] = await counter.dead()
        assert reason in dead.reason
    assert (orders_of(database), tasks_of(database)) == ([], [])


async def test_an_id_with_other_content_is_set_aside_with_an_alert_and_overwrites_nothing(
    database: Database, counter: Desk, caplog: pytest.LogCaptureFixture
):
    """SAS-26."""
    await counter.send("a", cents=5)
    await counter.send("a", cents=6)

    await counter.turn()
    await counter.turn()

    [dead] = await counter.dead()
    [alert] = await counter.client._store.records.alerts(AlertFilter())
    assert dead.reason.startswith("IdConflict: task 'a' exists already with other content")
    assert (alert.kind, alert.target, alert.task_id) == ("submission_conflict", "queue:incoming", "a")
    assert dead.id in alert.message
    assert "alert=submission_conflict task_id=a" in caplog.text
    assert (await counter.client.task("a")).input == {"name": "a", "cents": 5}
    assert orders_of(database) == ["a"]


async def test_a_function_that_finds_a_row_with_other_content_says_so_with_an_alert(
    database: Database, table: str
):
    """SAS-26, also when the task of that row has been removed long ago."""
    app = App("desk")

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        await execute(connection, f"INSERT INTO {table} VALUES ('a')")
        raise IdConflict("a")

    async for counter in at(app, database):
        await counter.queue.send()
        await counter.turn()
        [dead] = await counter.dead()
        [alert] = await counter.client._store.records.alerts(AlertFilter())
        assert dead.reason.startswith("IdConflict: task 'a' exists already with other content")
        assert (alert.kind, alert.target, alert.task_id) == ("submission_conflict", "queue:incoming", "a")
    assert orders_of(database) == []


async def test_whatever_else_it_raises_the_message_comes_again_and_at_last_is_set_aside(
    database: Database, table: str
):
    app = desk(table)
    app.queue("incoming")
    async for counter in at(app, database, max_deliveries=2):
        await counter.send("a", trouble=True)

        await counter.turn()
        assert await counter.counts() == {"ready": 1}
        await counter.turn()

        [dead] = await counter.dead()
        assert (dead.reason, dead.delivery_count) == (TOO_MANY_DELIVERIES, 2)
        assert "the scales are broken" in dead.detail
    assert (orders_of(database), tasks_of(database)) == ([], [])


async def test_a_lock_that_is_lost_rolls_everything_back(database: Database, table: str):
    app = App("desk")
    app.queue("incoming", lock="1s")
    stolen: list[Message] = []

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        await execute(connection, f"INSERT INTO {table} VALUES ('a')")
        return Submission(idle, id="a")

    async for counter in at(app, database):
        await counter.queue.send()
        [held] = await counter._submitter._keeper.take("incoming", 1)
        # Somebody else has it by the time that it is handled.
        stolen += await counter.queue.receive(wait="10s")
        await counter._submitter._handle(held)
        assert held.lost
        assert (orders_of(database), tasks_of(database)) == ([], [])
        await counter._submitter._accept(Held(stolen[0], until=0.0))
    assert (orders_of(database), tasks_of(database)) == (["a"], ["a"])


async def test_a_function_that_does_not_come_to_its_end_is_stopped_and_nothing_waits_for_it_any_longer(
    database: Database, table: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(accepting, "LENT_SECONDS", 0.2)
    app = App("desk")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        await execute(connection, f"INSERT INTO {table} VALUES ('{message.id}')")
        if message.delivery_count == 1:
            await asyncio.Event().wait()
        return Submission(idle)

    async for counter in at(app, database):
        await counter.queue.send(id="a")
        await counter.turn()
        await counter.turn()
        assert await counter.counts() == {}
    assert (orders_of(database), tasks_of(database)) == (["a"], ["a"])


async def test_a_function_that_ends_its_transaction_is_told_not_to(database: Database, table: str):
    app = App("desk")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        await execute(connection, "COMMIT")
        return Submission(idle)

    async for counter in at(app, database):
        await counter.queue.send()
        await counter.turn()
        await counter.queue.send()
        await counter.turn()
        assert {dead.reason.partition(";")[0] for dead in await counter.dead()} == {
            "InvalidRequest: the function ended the transaction that it was given"
        }
    assert tasks_of(database) == []


async def test_a_function_may_nest_transactions_of_its_own(postgres_database: PostgresDatabase):
    make_orders(postgres_database)
    table = table_of(postgres_database)
    app = App("desk")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: asyncpg.Connection) -> Submission:
        await connection.execute(f"INSERT INTO {table} VALUES ('kept')")
        with contextlib.suppress(LookupError):
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {table} VALUES ('dropped')")
                raise LookupError
        return Submission(idle)

    async for counter in at(app, postgres_database):
        for _ in range(2):
            await counter.queue.send()
            await counter.turn()
        assert await counter.counts() == {}
    assert orders_of(postgres_database) == ["kept", "kept"]


async def test_a_failed_statement_that_the_function_hides_sets_the_message_aside(
    postgres_database: PostgresDatabase,
):
    app = App("desk")

    @app.workflow
    async def idle() -> None: ...

    @app.submission("incoming")
    async def accept(message: Message, connection: asyncpg.Connection) -> Submission:
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT nothing")
        return Submission(idle)

    async for counter in at(app, postgres_database):
        await counter.queue.send()
        await counter.turn()
        [dead] = await counter.dead()
        assert "its transaction has failed before" in dead.reason


# Declared


def test_a_queue_has_a_consumer_or_a_submission_and_not_both():
    app = App("desk")

    @app.submission("incoming")
    async def accept(message: Message, connection: Any) -> Submission:
        return Submission("idle")

    for declare in (app.consumer("incoming"), app.submission("incoming")):
        with pytest.raises(InvalidRequest, match="queue 'incoming' has a submission already"):
            declare(accept)


def test_a_submission_is_an_async_def():
    with pytest.raises(InvalidRequest, match="must be an async def"):
        App("desk").submission("incoming")(lambda message, connection: None)  # type: ignore[type-var]
