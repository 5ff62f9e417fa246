"""What supervisors wrote, and under which epoch, in the order in which it was committed.

A trail beside the tables of the store: the database itself notes each change of the lead, and each write of a
supervisor leaves a line in its own transaction. Nobody has to believe the fence: the trail shows what came to
be, with it or without it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from backstay.domain.lease import Leader
from backstay.store.base import Changes, Store
from backstay.store.postgres import PostgresStore
from backstay.store.sqlite import SqliteStore
from tests.chaos.workload import append
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase

TAKEN = "taken"
WRITTEN = "written"

#: For the server: it keeps the time of every commit. Who waited for a lock has a later one than who held it.
COMMIT_TIMES = {"track_commit_timestamp": "on"}

_ON_SQLITE = """
    CREATE TABLE trail (number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, what TEXT NOT NULL);
    CREATE TRIGGER lead_is_noted AFTER UPDATE OF epoch ON leader WHEN NEW.epoch <> OLD.epoch
    BEGIN INSERT INTO trail (epoch, what) VALUES (NEW.epoch, 'taken'); END;
"""
_ON_POSTGRES = """
    CREATE TABLE {schema}.trail (epoch bigint NOT NULL, what text NOT NULL);
    CREATE FUNCTION {schema}.note_lead() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {schema}.trail (epoch, what) VALUES (NEW.epoch, 'taken'); RETURN NULL; END $$;
    CREATE TRIGGER lead_is_noted AFTER UPDATE OF epoch ON {schema}.leader FOR EACH ROW
    WHEN (NEW.epoch <> OLD.epoch) EXECUTE FUNCTION {schema}.note_lead();
"""
_NOTE = "INSERT INTO {schema}trail (epoch, what) VALUES ({epoch}, 'written')"

#: There is one writer at a time: they were committed as they were written.
_LINES_OF_SQLITE = "SELECT epoch, what FROM trail ORDER BY number"
_LINES_OF_POSTGRES = "SELECT epoch, what FROM trail ORDER BY pg_xact_commit_timestamp(xmin), epoch, what"

Line = tuple[int, str]


def lay_trail(database: Database) -> None:
    """Once the tables of the store are there, and before the first supervisor."""
    if isinstance(database, PostgresDatabase):
        database.look.execute(_ON_POSTGRES.replace("{schema}", database.schema))
    elif isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript(_ON_SQLITE)


def trail_of(database: Database) -> list[Line]:
    on_postgres = isinstance(database, PostgresDatabase)
    return [
        (row[0], row[1]) for row in database.rows(_LINES_OF_POSTGRES if on_postgres else _LINES_OF_SQLITE)
    ]


def strays(trail: list[Line]) -> list[int]:
    """The places at which somebody wrote who did not lead any more, or not yet."""
    found, current = [], 0
    for place, (epoch, what) in enumerate(trail):
        if what == TAKEN:
            current = epoch
        elif epoch != current:
            found.append(place)
    return found


class Stalls:
    """Has a process stand still once in its life, in the middle of writing as a supervisor.

    Either it has decided to write and has not begun, or it has written and not committed. Whoever reads the
    file has it go on.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        chance = Random(f"{seed} {os.getpid()}")
        self._place = chance.choice(["before", "inside"])
        self._writes_left = chance.randint(1, 12)

    def reached(self, place: str) -> None:
        if place != self._place:
            return
        self._writes_left -= 1
        if self._writes_left == 0:
            append(self._path, str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)


def noting_store(url: str, stalls: Stalls) -> Store:
    """A store whose supervisor leaves the trail, and stands still once."""
    if url.startswith("sqlite:"):
        return _noting_sqlite(SqliteStore(url), stalls)
    return _noting_postgres(PostgresStore(url), stalls)


def _noting_sqlite(store: SqliteStore, stalls: Stalls) -> SqliteStore:
    fenced = store.supervision._fenced

    async def noted(leader: Leader, now: Any, operation: Any) -> Any:
        def with_a_line(tables: Any, changes: Changes) -> Any:
            tables.connection.execute(_NOTE.format(schema="", epoch=leader.epoch))
            stalls.reached("inside")
            return operation(tables, changes)

        stalls.reached("before")
        return await fenced(leader, now, with_a_line)

    store.supervision._fenced = noted  # type: ignore[method-assign]
    return store


def _noting_postgres(store: PostgresStore, stalls: Stalls) -> PostgresStore:
    fenced = store.supervision._fenced
    schema = f"{store._address.schema}."

    async def noted(leader: Leader, now: Any, operation: Any) -> Any:
        async def with_a_line(tables: Any, changes: Changes) -> Any:
            await tables.connection.execute(_NOTE.format(schema=schema, epoch=leader.epoch))
            stalls.reached("inside")
            return await operation(tables, changes)

        stalls.reached("before")
        return await fenced(leader, now, with_a_line)

    store.supervision._fenced = noted  # type: ignore[method-assign]
    return store
