"""A store that leaves a copy of itself behind at every commit.

Each copy is what a crash right after that commit would have left: an application that opens it finds
the tasks of a process that died. One that is resumed from every copy has been crashed at every point.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from backstay.sql.migrations import load_migrations
from backstay.store.base import Store
from backstay.store.postgres.tables import Tables
from backstay.store.sqlite import SqliteStore
from tests.support.databases import TABLES, Database, PostgresDatabase, Row, SqliteDatabase


def store_at(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore(f"sqlite:///{path}", **options)


class Crash:
    """What is left of a store after a crash."""

    def __init__(self, name: str, restore: Callable[[], Database], options: Mapping[str, Any]) -> None:
        self.name = name
        self._restore = restore
        self._options = options

    @cached_property
    def _database(self) -> Database:
        return self._restore()

    def store(self) -> Store:
        return self._database.store(**self._options)

    def rows(self, query: str, *values: Any) -> list[Row]:
        """As ``Database.rows``."""
        return self._database.rows(query, *values)

    def step_states(self, task_id: str) -> dict[str, str]:
        """The state of each entry of a task's journal, by key."""
        query = (
            "SELECT step.key, step.state FROM step JOIN task ON task.key = step.task_key WHERE task.id = ?"
        )
        return dict(self.rows(query, task_id))

    def completed(self, task_id: str) -> set[str]:
        return {key for key, state in self.step_states(task_id).items() if state == "completed"}

    def journal(self) -> list[Row]:
        """Everything that is recorded of steps and signals, field by field."""
        steps = self.rows("SELECT * FROM step ORDER BY task_key, key")
        return steps + self.rows("SELECT * FROM signal ORDER BY task_key, number")

    def content(self) -> list[Row]:
        """Everything that a resumed application goes by."""
        groups = self.rows("SELECT * FROM checkpoint")
        jobs = self.rows("SELECT * FROM job ORDER BY key") + self.rows("SELECT * FROM job_history ORDER BY 1")
        return self.rows("SELECT * FROM task ORDER BY key") + self.journal() + groups + jobs


class Crashes(ABC):
    """Collects a copy of one store after each commit that changed something."""

    def __init__(self) -> None:
        self.copies: list[Crash] = []
        self._numbers = itertools.count()
        self._kept: object = None

    @abstractmethod
    def store(self) -> Store:
        """The store to run on. It goes by the time that it is told."""

    @abstractmethod
    def now(self) -> Crash:
        """What a crash at this very moment would leave."""

    def _name(self) -> str:
        return f"crash-{next(self._numbers)}"

    def _keep(self, crash: Crash, content: object) -> None:
        """Keep a copy, unless it holds nothing, or only what the one before it holds."""
        if content and content != self._kept:
            self._kept = content
            self.copies.append(crash)


class SqliteCrashes(Crashes):
    """Copies the file."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__()
        self._database = database

    def store(self) -> Store:
        return self._database.store(boundary=self._committed)

    def now(self) -> Crash:
        name = self._name()
        original = self._database.path
        copy = original.with_name(f"{name}.db")
        with closing(sqlite3.connect(original)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        # The lock files come along, the locks do not: the holders of the copy are found dead at once.
        locks = original.with_name(original.name + "-instances")
        if locks.exists():
            shutil.copytree(locks, copy.with_name(copy.name + "-instances"))
        return Crash(name, lambda: SqliteDatabase(copy), {})

    def _committed(self, moment: str) -> None:
        if moment == "after":
            crash = self.now()
            self._keep(crash, crash.content())


#: What each table held, as COPY writes it down.
Snapshot = dict[str, bytes]


class PostgresCrashes(Crashes):
    """Notes what the tables hold; a schema is made of that once somebody wants to see it.

    Several connections write. They commit one at a time, so that none of the commits is passed over.
    Who wrote is found dead at once: the copy is so old that every lease has run out.
    """

    # By the server's own clock a lease counts from the start of the server, which is not so old.
    _OPTIONS: ClassVar = {"server_clock": False}
    _TABLES: ClassVar = (
        *TABLES,
        *("writer", "migration", "told", "queue", "message", "message_id", "checkpoint", "quarantine"),
        *("job_collection", "job", "job_secret", "job_task", "job_history"),
    )

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__()
        self._database = database
        self._one_at_a_time = asyncio.Lock()
        #: The connection whose turn it is.
        self._committing: object = None

    def store(self) -> Store:
        return self._database.store(boundary=self._reached, **self._OPTIONS)

    def now(self) -> Crash:
        return self._crash(self._snapshot())

    async def _reached(self, moment: str, tables: Tables) -> None:
        connection = tables.connection
        if moment == "before":
            await self._one_at_a_time.acquire()
            self._committing = connection
            # One that is given up does not come to "after". Its connection is dropped then; the task that
            # gave it up may still live, and await another commit.
            connection.add_termination_listener(self._over)
            if connection.is_closed():  # while it waited for its turn
                self._over(connection)
        else:
            self._committed()
            connection.remove_termination_listener(self._over)
            self._over(connection)

    def _over(self, connection: object) -> None:
        if self._committing is connection:
            self._committing = None
            self._one_at_a_time.release()

    def _committed(self) -> None:
        snapshot = self._snapshot()
        looked_at = ("task", "step", "signal", "checkpoint", "job", "job_history")
        content = b"".join(snapshot[table] for table in looked_at)
        self._keep(self._crash(snapshot), content)

    def _crash(self, snapshot: Snapshot) -> Crash:
        return Crash(self._name(), lambda: self._restored(snapshot), self._OPTIONS)

    def _snapshot(self) -> Snapshot:
        connection, schema = self._database.look, self._database.schema
        found: Snapshot = {}
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for table in self._TABLES:
                with cursor.copy(f"COPY (SELECT * FROM {schema}.{table} ORDER BY 1, 2) TO STDOUT") as copied:
                    found[table] = b"".join(bytes(part) for part in copied)
        return found

    def _restored(self, snapshot: Snapshot) -> Database:
        copy = self._database.another()
        connection, schema = copy.look, copy.schema
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {schema}")
            cursor.execute(
                f"CREATE TABLE {schema}.migration (LIKE {self._database.schema}.migration INCLUDING ALL)"
            )
            for migration in load_migrations("backstay.store.postgres"):
                cursor.execute(migration.sql.replace("{schema}", schema))
            for table, rows in snapshot.items():
                with cursor.copy(f"COPY {schema}.{table} FROM STDIN") as copying:
                    copying.write(rows)
            cursor.execute(f"UPDATE {schema}.instance SET heartbeat_at = 'epoch'")
            for table, column in (("task", "key"), ("job_history", "number")):
                numbers = f"pg_get_serial_sequence('{schema}.{table}', '{column}')"
                cursor.execute(
                    f"SELECT setval({numbers}, max({column})) FROM {schema}.{table} HAVING count(*) > 0"
                )
            messages = f"SELECT max(sequence) FROM {schema}.message HAVING count(*) > 0"
            cursor.execute(f"SELECT setval('{schema}.message_sequence', ({messages}))")
        return copy


def crashes_on(database: Database) -> Crashes:
    if isinstance(database, PostgresDatabase):
        return PostgresCrashes(database)
    assert isinstance(database, SqliteDatabase)
    return SqliteCrashes(database)
