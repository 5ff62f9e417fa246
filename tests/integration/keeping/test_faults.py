"""Every rule of ``store check``: a fault that was planted past the store is found, and named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from backstay.domain.states import StepState, TaskState
from backstay.domain.stream import NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from backstay.store.base import Store
from backstay.store.checking import OTHER_RULES, TASK_RULES, Fault, check_store
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar
from backstay.testing.promises.holder import Holder, submitted
from backstay.testing.promises.mail import Mail
from backstay.testing.promises.payloads import INPUT
from backstay.testing.records import a_step
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase

# What is planted, in SQL that both databases understand, and what it is found as.
PLANTED = {
    "task_columns": ("UPDATE task SET locked_by = 'alice' WHERE id = 'done'", "done"),
    "task_holder": ("UPDATE task SET locked_by = 'nobody' WHERE id = 'held'", "held"),
    "task_wait": (
        "UPDATE task SET state = 'waiting', locked_by = NULL, parked = {true} WHERE id = 'bare'",
        "bare",
    ),
    "open_step": (
        (
            "UPDATE step SET state = 'running', position = NULL, complete_by = {instant}"
            " WHERE task_key = (SELECT key FROM task WHERE id = 'done')"
        ),
        "done",
    ),
    "undo_incomplete": ("UPDATE task SET state = 'undone' WHERE id = 'done'", "done"),
    "step_columns": (
        "UPDATE step SET output = NULL WHERE task_key = (SELECT key FROM task WHERE id = 'done')",
        "done",
    ),
    "step_order": (
        (
            "INSERT INTO step (task_key, key, kind, agent, operation, state, attempt, failure_count, output,"
            " position, undo_attempt, undo_failures, pivot, unsure)"
            " SELECT task_key, 'again:1', kind, agent, operation, state, attempt, failure_count, output,"
            " position, undo_attempt, undo_failures, pivot, unsure FROM step"
            " WHERE task_key = (SELECT key FROM task WHERE id = 'done')"
        ),
        "done",
    ),
    "without_task": ("DELETE FROM task WHERE id = 'done'", "key 1"),
    "payload_missing": ("DELETE FROM payload", "large"),
    "child_without_parent": ("UPDATE task SET parent_key = 4711 WHERE id = 'bare'", "bare"),
    "parent_without_child": (
        (
            "UPDATE step SET kind = 'child', agent = NULL, state = 'running', position = NULL"
            " WHERE task_key = (SELECT key FROM task WHERE id = 'held')"
        ),
        "held",
    ),
    "message": ("DELETE FROM queue WHERE name = 'orders'", "message 1"),
    "message_number": ("UPDATE message SET sequence = 99", "message 99"),
    "subscription": (
        "INSERT INTO subscription (topic, name, queue_key, filter) VALUES ('no', 'one', 1, '{}')",
        "no/one",
    ),
    "job": ("UPDATE job SET armed_at = NULL", "j"),
    "job_uid": (
        (
            "INSERT INTO job (collection_key, name, name_folded, uid, generation, state, catch_up, overlap,"
            " created_at, updated_at, occurrences, executions, failures, faults, definition)"
            " SELECT collection_key, 'twin', 'twin', uid, 1, 'disabled', catch_up, overlap, created_at,"
            " updated_at, 0, 0, 0, 0, definition FROM job"
        ),
        None,
    ),
    "job_entries": ("UPDATE job SET entries = 7", "j"),
    "without_job": (
        "INSERT INTO job_secret (job_key, place, secret) VALUES (4711, 'password', 'x')",
        "key 4711",
    ),
    "job_task": (
        "INSERT INTO job_task (job_key, task_id) SELECT 4711, task_id FROM job_task",
        None,
    ),
    "leader": ("DELETE FROM leader", "supervisor"),
}


def plant(database: Database, statement: str) -> None:
    """Write past the store, its constraints and its triggers."""
    if isinstance(database, SqliteDatabase):
        filled = statement.replace("{true}", "1").replace("{instant}", "1")
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(filled)
        return
    assert isinstance(database, PostgresDatabase)
    database.look.execute(f"SET search_path = {database.schema}")
    for table, constraint in database.rows(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        " JOIN pg_namespace ON pg_namespace.oid = connamespace WHERE contype = 'c' AND nspname = ?",
        database.schema,
    ):
        database.look.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{constraint}"')
    database.look.execute("SET session_replication_role = replica")
    try:
        database.look.execute(statement.replace("{true}", "true").replace("{instant}", "now()"))
    finally:
        database.look.execute("SET session_replication_role = origin")


async def filled(store: Store, clock: ManualClock) -> None:
    """A store with something of everything, as it is while it is in use."""
    alice = await Holder.joined(store, clock, "alice")
    await alice.leave(await alice.hold("done"), TaskState.PROCESSED, steps=[a_step(undo="automatic")])
    await alice.write(await alice.hold("held"), steps=[a_step()])
    await submitted(store, clock, "bare")
    await submitted(store, clock, "large", input=INPUT)
    mail = Mail(store.queues, clock)
    await mail.declare()
    await mail.send("a")
    calendar = Calendar(store, clock, alice.owner)
    await calendar.collect()
    await calendar.put()
    await calendar.fired()


async def faults_of(database: Database) -> list[Fault]:
    store = database.store()
    await store.open()
    try:
        return await check_store(store)
    finally:
        await store.close()


@pytest.fixture
async def in_use(database: Database) -> Database:
    store = database.store()
    await store.open()
    await filled(store, ManualClock())
    await store.close()
    return database


async def test_a_store_in_use_breaks_no_rule(in_use: Database):
    assert await faults_of(in_use) == []


def test_every_rule_has_a_fault_that_is_planted():
    assert {rule.kind for rule in (*TASK_RULES, *OTHER_RULES)} == {*PLANTED}


@pytest.mark.parametrize("kind", PLANTED)
async def test_a_planted_fault_is_found_and_named(in_use: Database, kind: str):
    statement, name = PLANTED[kind]
    plant(in_use, statement)

    found = await faults_of(in_use)

    named = [fault for fault in found if fault.kind == kind]
    assert named, found
    assert name is None or name in [fault.id for fault in named]
    assert all(fault.wrong and fault.remedy and "{}" not in fault.wrong for fault in found)


@pytest.mark.parametrize(("checkpoint", "said"), [(3, "ends at 2"), (0, "begins at 1"), (2, None)])
async def test_a_group_that_is_not_where_its_stream_is_is_named(
    sqlite_database: SqliteDatabase, checkpoint: int, said: str | None
):
    clock = ManualClock()
    log = EmbeddedLog(f"sqlite:///{sqlite_database.path.with_name('log.db')}")
    await log.open()
    retention = timedelta(days=1)
    stream = Stream(name="s", partitions=1, retention=retention, bytes_max=10**9, dedup=timedelta(0))
    await log.declare(stream, now=clock.now())
    await log.append("s", [NewEvent(body=b"1")], now=clock.now())
    clock.pass_time(retention * 2)
    await log.append("s", [NewEvent(body=b"2")], now=clock.now())
    await log.trim("s", {0: 1}, now=clock.now(), limit=9)
    store = sqlite_database.store()
    await store.open()
    identity = await log.identity("s")
    with closing(sqlite3.connect(sqlite_database.path)) as connection, connection:
        connection.execute(
            "INSERT INTO checkpoint (stream, grp, partition, checkpoint, log, epoch, updated_at)"
            " VALUES ('s', 'g', 0, ?, ?, 1, 0)",
            (checkpoint, identity),
        )

    found = await check_store(store, log)
    await store.close()
    await log.close()

    assert [fault.id for fault in found] == (["s/g/0"] if said else [])
    assert all(said is not None and said in fault.wrong for fault in found)


async def test_a_file_whose_pages_are_damaged_is_named(sqlite_database: SqliteDatabase):
    store = sqlite_database.store()
    await store.open()
    await filled(store, ManualClock())
    await store.close()
    with closing(sqlite3.connect(sqlite_database.path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'parent_key IS NOT NULL', 'parent_key IS NULL')"
            " WHERE name = 'task_parent'"
        )

    assert "integrity" in {fault.kind for fault in await faults_of(sqlite_database)}


async def test_of_many_faults_so_many_are_named_and_progress_is_told(
    sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.store.checking.PAGE", 50)
    store = sqlite_database.store()
    await store.open()
    await submitted(store, ManualClock(), *(f"t{number}" for number in range(300)))
    plant(sqlite_database, "UPDATE task SET parent_key = 4711")
    told: list[tuple[int, int]] = []

    found = await check_store(store, progress=lambda looked, last: told.append((looked, last)))
    await store.close()

    assert 100 <= len(found) <= 150
    assert told[-1] == (300, 300)
    assert len(told) >= 5


def test_the_state_of_a_step_is_one_of_those_that_there_are():
    assert len(StepState) == 8, "a new state of a step needs a line in faulty_step_columns"
    assert len(TaskState) == 9, "a new state of a task needs a line in faulty_task_columns"
