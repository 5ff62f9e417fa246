"""A store of every schema that there ever was is brought up to date, with what is in it, and goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backstay import App
from backstay.sql.migrations import load_migrations
from backstay.sql.sqlite import schema
from backstay.sql.sqlite.connection import connect
from backstay.store.checking import check_store
from backstay.store.sqlite import SqliteStore

PACKAGE = "backstay.store.sqlite"
NUMBERS = [one.number for one in load_migrations(PACKAGE)]

# As the first release would have written them: every column that it knew, none that it did not.
CONTENT = """
INSERT INTO task (id, workflow, version, state, input, output, attributes, created_at, updated_at)
VALUES ('waits', 'deliver', 1, 'pending', x'37', NULL, '{}', 1, 1),
       ('done', 'deliver', 1, 'processed', x'37', x'37', '{}', 1, 1),
       ('gone', 'deliver', 1, 'cancelled', x'37', NULL, '{}', 1, 1);
INSERT INTO task (id, workflow, version, state, input, error, attributes, created_at, updated_at)
VALUES ('stuck', 'deliver', 1, 'error', x'37',
        CAST('{"type": "Refused", "message": "no"}' AS BLOB), '{}', 1, 1);
INSERT INTO step (task_key, key, kind, agent, operation, state, attempt, failure_count, output, position,
                  undo_attempt, undo_failures, pivot, unsure)
VALUES (2, 'schedule:1', 'step', 'drone', 'schedule', 'completed', 1, 0, x'37', 1, 0, 0, 0, 0);
INSERT INTO signal (task_key, number, name, payload, received_at) VALUES (1, 1, 'go', x'31', 1);
"""
# What a process of the first release goes on doing, whoever has brought the schema up to date meanwhile.
OLD_WRITES = """
INSERT INTO task (id, workflow, version, state, input, attributes, created_at, updated_at)
VALUES ('late', 'deliver', 1, 'pending', x'38', '{}', 2, 2);
"""


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


@pytest.fixture(params=NUMBERS)
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file as a release left it that knew so many migrations."""
    path = tmp_path / "old.db"
    known = load_migrations(PACKAGE)[: request.param]
    with monkeypatch.context() as before:
        before.setattr(schema, "load_migrations", lambda _package: known)
        with closing(connect(path, readonly=False)) as connection:
            schema.migrate(connection, PACKAGE)
            connection.executescript(CONTENT)
    return path


async def test_it_is_all_there_breaks_no_rule_and_goes_on(old: Path):
    app = deliveries()

    async with app.run(store=f"sqlite:///{old}"):
        assert await app.handle("waits").result(timeout=20) == 7
        assert await app.handle("done").result(timeout=20) == 7
        with closing(sqlite3.connect(old)) as connection:
            connection.executescript(OLD_WRITES)
        assert await app.handle("late").result(timeout=20) == 8
        assert (await app.task("stuck")).state == "error"
        assert [step.key for step in await app.steps("done")] == ["schedule:1"]

    store = SqliteStore(f"sqlite:///{old}")
    await store.open()
    assert await check_store(store) == []
    await store.close()


async def test_of_two_that_bring_it_up_to_date_at_once_both_find_it_so(old: Path):
    stores = [SqliteStore(f"sqlite:///{old}") for _ in range(3)]

    await asyncio.gather(*[store.open() for store in stores])

    assert {(await store.task("done")).output for store in stores} == {b"7"}
    for store in stores:
        await store.close()
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("SELECT count(*) FROM migration").fetchone() == (len(NUMBERS),)
