"""What happened to the rows of a store, in order: the database itself writes it down.

Triggers beside the tables of the store note each change of a task, a step, an instance, the lead, a round of
a supervisor and a checkpoint, in the transaction of that change. Nobody has to believe what the store says
of itself at the end: the history shows how it came to be.

The number of a change is given while its row is locked. So the changes of one row are in order, and those of
rows that one must have locked to write another, as a batch does with its instance.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final, NamedTuple, TypeVar

from tests.support.databases import Database, PostgresDatabase, SqliteDatabase

Value = TypeVar("Value")

#: More than any run of the matrix writes; who has more looks at the newest.
CHANGES_MAX: Final = 2_000_000


class Change(NamedTuple):
    number: int
    #: In microseconds since 1970, by the clock of the database; on SQLite of the millisecond that had begun.
    at: int
    what: str
    #: Of a task or an instance its id; of a checkpoint stream, group, partition and slot.
    id: str
    #: Of a step, within its task.
    key: str | None
    before: str | None
    after: str | None
    #: Who held the task, or leads.
    holder: str | None
    #: The lock number, the attempt or the epoch under which it was written.
    fence: int
    #: How far a checkpoint is.
    place: int | None
    #: Of a step that ended, by how many microseconds it did so after its complete-by.
    late: int | None


_TABLE = """
    CREATE TABLE {schema}history (
        number {number} PRIMARY KEY, at bigint NOT NULL, what text NOT NULL, id text NOT NULL, key text,
        before text, after text, holder text, fence bigint NOT NULL, place bigint, late bigint){strict};
"""

#: For each trigger: the table, on what, when, and the values from ``what`` to ``late``.
_TASK = "'task', NEW.id, NULL, {before}, NEW.state, NEW.locked_by, NEW.lock_number, NULL, NULL"
_STEP = (
    "'step', (SELECT id FROM {schema}task WHERE task.key = NEW.task_key), NEW.key, {before}, NEW.state,"
    " (SELECT locked_by FROM {schema}task WHERE task.key = NEW.task_key), NEW.attempt, NULL,"
    " CASE WHEN NEW.kind = 'step' THEN {late} END"
)
_CHECKPOINT = (
    "'checkpoint', NEW.stream || '/' || NEW.grp || '/' || NEW.partition || '/' || NEW.slot, NULL, NULL, NULL,"
    " NEW.holder, NEW.epoch, NEW.checkpoint, NULL"
)
_ROUND = "'round', 'supervisor', NULL, NULL, NULL, NULL, NEW.epoch, NULL, NULL"
_DIFFERS = "OLD.{0} IS DISTINCT FROM NEW.{0}"


def _differ(*columns: str) -> str:
    return " OR ".join(_DIFFERS.format(column) for column in columns)


_TRIGGERS: Final = (
    ("task", "INSERT", "", _TASK.replace("{before}", "NULL")),
    ("task", "UPDATE", _differ("state", "locked_by", "lock_number"), _TASK.replace("{before}", "OLD.state")),
    ("step", "INSERT", "", _STEP.replace("{before}", "NULL")),
    ("step", "UPDATE", _differ("state", "attempt", "output"), _STEP.replace("{before}", "OLD.state")),
    (
        "instance",
        "UPDATE",
        _differ("epoch"),
        "'instance', NEW.id, NULL, 'live', 'dead', NEW.id, NEW.epoch, NULL, NULL",
    ),
    (
        "leader",
        "UPDATE",
        _differ("epoch"),
        "'leader', 'supervisor', NULL, NULL, NULL, NEW.holder, NEW.epoch, NULL, NULL",
    ),
    ("supervisor_round", "INSERT", "", _ROUND),
    ("supervisor_round", "UPDATE", "", _ROUND),
    ("checkpoint", "INSERT", "", _CHECKPOINT),
    ("checkpoint", "UPDATE", _differ("checkpoint", "epoch"), _CHECKPOINT),
)

_INSERT = "INSERT INTO {schema}history (at, what, id, key, before, after, holder, fence, place, late)"
_NOW_OF_SQLITE = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
_NOW_OF_POSTGRES = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LATE_ON_SQLITE = "NEW.ended_at - NEW.complete_by"
_LATE_ON_POSTGRES = "(extract(epoch FROM NEW.ended_at - NEW.complete_by) * 1000000)::bigint"


def lay_history(database: Database) -> None:
    """Make the tables of a store, unless they are there, and have every change written down from now on."""
    apart(_made(database))
    if isinstance(database, PostgresDatabase):
        for statement in _on_postgres(f"{database.schema}."):
            database.look.execute(statement)
    else:
        assert isinstance(database, SqliteDatabase)
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript("\n".join(_on_sqlite()))


def apart(work: Coroutine[Any, Any, Value]) -> Value:
    """What ``work`` returns, done in a thread: a test may have an event loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _made(database: Database) -> None:
    store = database.store()
    await store.open()
    await store.close()


def _on_sqlite() -> Iterable[str]:
    yield _TABLE.format(schema="", number="INTEGER", strict="")
    for number, (table, event, when, values) in enumerate(_TRIGGERS):
        # Its older versions know the same by another name.
        condition = f"WHEN {when.replace('IS DISTINCT FROM', 'IS NOT')}" if when else ""
        noted = values.replace("{schema}", "").replace("{late}", _LATE_ON_SQLITE)
        yield (
            f"CREATE TRIGGER history_{number} AFTER {event} ON {table} {condition} BEGIN"
            f" {_INSERT.format(schema='')} VALUES ({_NOW_OF_SQLITE}, {noted}); END;"
        )


def _on_postgres(schema: str) -> Iterable[str]:
    yield _TABLE.format(schema=schema, number="bigserial", strict="")
    for number, (table, event, when, values) in enumerate(_TRIGGERS):
        condition = f"WHEN ({when})" if when else ""
        noted = values.replace("{schema}", schema).replace("{late}", _LATE_ON_POSTGRES)
        yield (
            f"CREATE FUNCTION {schema}note_{number}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" {_INSERT.format(schema=schema)}"
            f" VALUES ({_NOW_OF_POSTGRES}, {noted}); RETURN NULL; END $$"
        )
        yield (
            f"CREATE TRIGGER history_{number} AFTER {event} ON {schema}{table} FOR EACH ROW {condition}"
            f" EXECUTE FUNCTION {schema}note_{number}()"
        )


def history_of(database: Database) -> list[Change]:
    """Everything that happened, oldest first."""
    columns = ", ".join(Change._fields)
    query = f"SELECT {columns} FROM history ORDER BY number DESC LIMIT {CHANGES_MAX}"
    return [Change(*row) for row in reversed(database.rows(query))]
