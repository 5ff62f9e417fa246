"""A store of every schema that there ever was is brought up to date, with what is in it, and goes on."""

from __future__ import annotations

import asyncio

import pytest

from backstay import App
from backstay.sql.migrations import Migration
from backstay.store.checking import check_store
from tests.migration.stores import dialect_of, migrations, run_script, today
from tests.support.databases import Database

SCHEMAS = [(dialect, one.number) for dialect in ("sqlite", "postgres") for one in migrations(dialect)]
OLDEST_AND_NEWEST = [
    (dialect, number) for dialect in ("sqlite", "postgres") for number in (1, len(migrations(dialect)))
]

#: Where the two databases write the same otherwise.
WORDS = {
    "sqlite": {
        "7": "x'37'",
        "8": "x'38'",
        "go": "x'31'",
        "error": "CAST('{}' AS BLOB)",
        "then": "1",
        "no": "0",
    },
    "postgres": {
        "7": "'7'",
        "8": "'8'",
        "go": "'1'",
        "error": "'{}'",
        "then": "to_timestamp(1)",
        "no": "false",
    },
}
MIGRATION_TABLE = {
    "sqlite": "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " checksum TEXT NOT NULL) STRICT",
    "postgres": "CREATE SCHEMA {schema}; SET search_path = {schema};"
    "CREATE TABLE migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)",
}

# As the first release would have written them: every column that it knew, none that it did not.
CONTENT = """
INSERT INTO task (id, workflow, version, state, input, output, attributes, created_at, updated_at)
VALUES ('waits', 'deliver', 1, 'pending', <7>, NULL, '{}', <then>, <then>),
       ('done', 'deliver', 1, 'processed', <7>, <7>, '{}', <then>, <then>),
       ('gone', 'deliver', 1, 'cancelled', <7>, NULL, '{}', <then>, <then>);
INSERT INTO task (id, workflow, version, state, input, error, attributes, created_at, updated_at)
VALUES ('stuck', 'deliver', 1, 'error', <7>, <error>, '{}', <then>, <then>);
INSERT INTO step (task_key, key, kind, agent, operation, state, attempt, failure_count, output, position,
                  undo_attempt, undo_failures, pivot, unsure)
VALUES (2, 'schedule:1', 'step', 'drone', 'schedule', 'completed', 1, 0, <7>, 1, 0, 0, <no>, <no>);
INSERT INTO signal (task_key, number, name, payload, received_at) VALUES (1, 1, 'go', <go>, <then>);
"""
# What a process of the first release goes on doing, whoever has brought the schema up to date meanwhile.
OLD_WRITES = """
INSERT INTO task (id, workflow, version, state, input, attributes, created_at, updated_at)
VALUES ('late', 'deliver', 1, 'pending', <8>, '{}', <then>, <then>);
"""
ERROR = '{"type": "Refused", "message": "no"}'


def deliveries() -> App:
    app = App("deliveries")
    drone = app.agent("drone")

    @drone.step
    async def schedule(number: int) -> int:
        return number

    @app.workflow
    async def deliver(number: int) -> int:
        return await schedule(number)

    return app


@pytest.fixture(params=SCHEMAS, ids=lambda one: f"{one[0]}-{one[1]}")
def old(request: pytest.FixtureRequest) -> Database:
    """A database as a release left it that knew so many migrations."""
    dialect, number = request.param
    database: Database = request.getfixturevalue(f"{dialect}_database")
    applied = [_applied(one) for one in migrations(dialect)[:number]]
    run_script(database, ";\n".join([MIGRATION_TABLE[dialect], *applied]))
    run_script(database, in_words_of(database, CONTENT))
    return database


def _applied(one: Migration) -> str:
    return f"{one.sql}\nINSERT INTO migration VALUES ({one.number}, '{one.name}', '{one.checksum}')"


def in_words_of(database: Database, script: str) -> str:
    for name, word in WORDS[dialect_of(database)].items():
        script = script.replace(f"<{name}>", word.replace("{}", ERROR))
    return script


async def test_it_is_all_there_breaks_no_rule_and_goes_on(old: Database):
    app = deliveries()

    async with app.run(store=old.url):
        assert await app.handle("waits").result(timeout=20) == 7
        assert await app.handle("done").result(timeout=20) == 7
        run_script(old, in_words_of(old, OLD_WRITES))
        assert await app.handle("late").result(timeout=20) == 8
        assert (await app.task("stuck")).state == "error"
        assert [step.key for step in await app.steps("done")] == ["schedule:1"]

    store = today(old)
    await store.open()
    assert await check_store(store) == []
    await store.close()


@pytest.mark.parametrize("old", OLDEST_AND_NEWEST, indirect=True, ids=lambda one: f"{one[0]}-{one[1]}")
async def test_of_two_that_bring_it_up_to_date_at_once_both_find_it_so(old: Database):
    stores = [today(old) for _ in range(3)]

    await asyncio.gather(*[store.open() for store in stores])

    assert {(await store.task("done")).output for store in stores} == {b"7"}
    for store in stores:
        await store.close()
    assert old.rows("SELECT count(*) FROM migration") == [(len(migrations(dialect_of(old))),)]
