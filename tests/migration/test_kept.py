"""A store that a release left opens with the code of today: all of it is there, and it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backstay import App, Message, sleep, start, wait_for
from backstay.client import Client
from backstay.domain.states import StepState, TaskState
from backstay.store.base import Store, TaskFilter
from backstay.store.checking import check_store
from backstay.store.records import AlertFilter
from backstay.testing import ManualClock
from backstay.testing.promises.mail import Mail
from tests.migration.content import INLINE_BYTES_MAX, LARGE, PLACE, SECOND, SECRET, fill
from tests.migration.dumps import dump_postgres, dump_sqlite, kept, writes_of
from tests.migration.stores import dialect_of, migrations, restore, rows_of, run_script, tables, today
from tests.support.databases import SECRET_KEY, Database, PostgresDatabase, SqliteDatabase
from tests.support.running import eventually, running, until

KEPT = [(dialect, number) for dialect in ("sqlite", "postgres") for number in kept(dialect)]

#: Which a migration may change, or a process writes for itself alone. The first three are looked at below.
CHANGED = {"migration", "alert", "job_secret", "writer"}
#: In which there is nothing.
EMPTY = {"recovery", "job_gone", "alert_delivery", "job_secret"}


@pytest.fixture(params=KEPT, ids=lambda one: f"{one[0]}-{one[1]}")
def left(request: pytest.FixtureRequest) -> tuple[Database, int]:
    """Where a release left its store, and the number of its schema."""
    dialect, number = request.param
    database: Database = request.getfixturevalue(f"{dialect}_database")
    restore(database, number)
    return database, number


@pytest.fixture
def old(left: tuple[Database, int]) -> Database:
    return left[0]


async def kept_today(database: Database) -> Database:
    """What `keep` would write now, read again."""
    made = database.another()
    async with opened(made, inline_bytes_max=INLINE_BYTES_MAX, **by_our_clock(made)) as store:
        await fill(store)
    if isinstance(made, SqliteDatabase):
        run_script(database, dump_sqlite(made.path))
    elif isinstance(made, PostgresDatabase):
        run_script(database, dump_postgres(made.server, made.schema))
    return database


def by_our_clock(database: Database) -> dict[str, Any]:
    return {"server_clock": False} if isinstance(database, PostgresDatabase) else {}


@asynccontextmanager
async def opened(database: Database, **options: Any) -> AsyncIterator[Store]:
    store = today(database, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def shop() -> App:
    """The application whose tasks were kept."""
    app = App("shop")
    bank = app.agent("bank")

    @bank.step
    async def charge(order: int) -> str:
        return f"receipt {order}"

    @charge.undo
    async def refund(order: int, *, result: str) -> None:
        pass

    @app.workflow
    async def ship(order: int) -> str:
        return await charge(order)

    @app.workflow
    async def nap(order: int) -> str:
        await sleep("10s")
        return f"rested {order}"

    @app.workflow
    async def approve(_order: int) -> object:
        return await wait_for("approved")

    @app.workflow
    async def pack(order: int) -> str:
        return f"packed {order}"

    @app.workflow
    async def order(number: int) -> str:
        return await start(pack, number)

    app.queue("orders", max_deliveries=2)
    app.queue("rings")
    return app


# What is there


async def test_every_row_is_there_and_says_what_it_said(old: Database):
    await _opens_with_every_row(old)


async def test_so_it_is_with_what_would_be_kept_of_the_release_to_come(database: Database):
    await _opens_with_every_row(await kept_today(database))


async def _opens_with_every_row(old: Database) -> None:
    columns = tables(old)
    before = rows_of(old, columns)
    assert all(before[table] for table in columns.keys() - CHANGED - EMPTY)

    async with opened(old) as store:
        after = rows_of(old, columns)
        assert await check_store(store) == []

    assert {table: after[table] for table in columns.keys() - CHANGED} == {
        table: before[table] for table in columns.keys() - CHANGED
    }
    assert after["migration"] == sorted(
        ((one.number, one.name, one.checksum) for one in migrations(dialect_of(old))), key=repr
    )


async def test_it_means_what_it_meant(old: Database):
    async with opened(old) as store:
        found = await store.tasks(TaskFilter(limit=100))
        assert {one.state for one in found} == set(TaskState)
        steps = [step for one in found for step in await store.steps(one.id)]
        assert {step.state for step in steps} == set(StepState)
        large = await store.task("large")
        assert (large.input, large.output) == (LARGE, LARGE)
        assert (await store.task("processed")).attributes == {"customer": "ann"}

        alerts = await store.records.alerts(AlertFilter(open_only=True))
        assert {(one.kind.value, one.target) for one in alerts} == {
            ("dead_letter", "queue:orders"),
            ("submission_conflict", "queue:orders"),
            ("agent_paused", "agent:slow"),
        }
        assert {one.count for one in alerts if one.kind == "submission_conflict"} == {2}
        assert len(await store.records.alerts(AlertFilter())) == 5

        nightly = await store.jobs.job(PLACE, "nightly")
        secrets = await store.jobs.secrets(nightly.key, uid=nightly.uid)
        assert list(secrets.values()) == [SECRET]
        assert old.rows("SELECT * FROM job_secret") == []

        standings = await store.groups.standings("telemetry")
        assert [(one.unit, one.checkpoint) for one in standings] == [((0, 0), 5), ((1, 0), 9)]


# It goes on


@asynccontextmanager
async def running_shop(database: Database) -> AsyncIterator[Client]:
    settings: dict[str, Any] = {**database.heir(), "secret_key": SECRET_KEY}
    async with running(shop(), today(database), **settings) as client:
        yield client


async def test_what_was_under_way_comes_to_its_end(old: Database):
    async with running_shop(old) as client:
        for task_id in ("pending", "processing", "told", "from-stream"):
            assert await client.handle(task_id).result(timeout=20) == "receipt 7"
        assert await client.handle("sleeping").result(timeout=20) == "rested 7"
        assert await client.handle("parent").result(timeout=20) == "packed 7"
        await until(client, "asked", "cancelled")
        await until(client, "undoing", "undone")
        assert (await client.task("approving")).state == "waiting"
        await client.signal("approving", "approved", {"by": "ann"})
        assert await client.handle("approving").result(timeout=20) == {"by": "ann"}

    async with opened(old) as store:
        assert await check_store(store) == []


async def test_a_job_fires_and_messages_are_received(old: Database):
    async with running_shop(old) as client:
        ring = await _ring(client, of="job:uid-hourly:")
        [ready] = await client.exchange.receive("orders")
        prices = await client.exchange.receive("prices:all", max=10)

    assert ring.body == "it is time"
    assert (ready.id, ready.body) == ("ready", "ready")
    assert [one.body for one in prices] == [{"price": 7}, {"price": 8}]
    async with opened(old) as store:
        assert (await store.jobs.job(PLACE, "hourly")).occurrences == 2
        mail = Mail(store.queues, ManualClock())
        assert {one.id for one in await mail.dead()} == {"dead", "conflict"}
        assert await check_store(store) == []


async def _ring(client: Client, *, of: str) -> Message:
    """The message that an occurrence of a job has sent."""
    rings: list[Message] = []

    async def look() -> list[Message]:
        rings.extend(await client.exchange.receive("rings", max=10))
        return [one for one in rings if one.id.startswith(of)]

    [ring] = await eventually(look, bool, what=f"a ring of {of}")
    return ring


# Others are still at work


async def test_a_process_of_that_release_goes_on_writing_after_the_schema_is_newer(
    left: tuple[Database, int],
):
    """With the statements of its release: what is new is only ever added."""
    old, number = left
    async with opened(old):
        run_script(old, writes_of(dialect_of(old), number).read_text("utf-8"))
    async with running_shop(old) as client:
        assert await client.handle("by-the-old").result(timeout=20) == "receipt 7"
        assert await client.handle("for-the-new").result(timeout=20) == "receipt 7"

    async with opened(old) as store:
        assert await check_store(store) == []
        alerts = await store.records.alerts(AlertFilter(open_only=True))
        counted = {(one.kind.value, one.target): (one.count, one.last_at - one.at) for one in alerts}
        assert counted["task_error", "task:by-the-old"] == (2, SECOND)
        assert counted["queue_full", "queue:rings"] == (2, SECOND)
        assert counted["submission_conflict", "queue:orders"][0] == 3
        assert [one.checkpoint for one in await store.groups.standings("telemetry")] == [6, 9]
