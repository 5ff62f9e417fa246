"""Rows in bulk: what is measured is how a store fares with them, not how they came there.

The schema is the real one, made by opening a store. Only columns without a default are named, and only here.
"""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec
import psycopg

from backstay.domain.step import Failure
from backstay.runtime import open_store
from backstay.settings import Settings
from backstay.store.postgres.url import address_of
from bench.load import in_fresh_loop

CHUNK_TASKS: Final = 50_000

_NEWEST: Final = "SELECT coalesce(max(key), 0) FROM task"
_TASK_COLUMNS: Final = (
    "id, workflow, version, state, input, output, error, attributes, created_at, updated_at"
)
_STEP_COLUMNS: Final = (
    "task_key, key, kind, agent, operation, state, attempt, failure_count, input, output,"
    " started_at, ended_at, position, undo_attempt, undo_failures, pivot, unsure"
)

# Ids as the client makes them, so that their index is as wide, and as scattered, as in real use.
_SQLITE_ID: Final = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2))"
    " || '-' || hex(randomblob(2)) || '-' || hex(randomblob(6)))"
)
_SQLITE_TASKS: Final = f"""
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :tasks)
INSERT INTO task ({_TASK_COLUMNS})
SELECT {_SQLITE_ID}, :workflow, 1, :state, CAST('0' AS BLOB), :output, :error, '{{}}', :now, :now FROM number
"""
# CROSS JOIN: in the order of the tasks, which is the order in which the steps are stored.
_SQLITE_STEPS: Final = f"""
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :steps)
INSERT INTO step ({_STEP_COLUMNS})
SELECT task.key, 'work:' || n, 'step', 'nothing', 'work', 'completed', 1, 0, CAST(n - 1 AS BLOB),
       CAST(n AS BLOB), :now, :now, n, 0, 0, 0, 0
  FROM task CROSS JOIN number WHERE task.key > :after
"""
_SQLITE_CACHE_KIB: Final = 256 * 1024

_POSTGRES: Final = f"""
WITH entered AS (
    INSERT INTO task ({_TASK_COLUMNS})
    SELECT gen_random_uuid()::text, %(workflow)s, 1, %(state)s, '0', %(output)s, %(error)s, '{{}}',
           now(), now()
      FROM generate_series(1, %(tasks)s)
    RETURNING key)
INSERT INTO step ({_STEP_COLUMNS})
SELECT entered.key, 'work:' || n, 'step', 'nothing', 'work', 'completed', 1, 0, (n - 1)::text::bytea,
       n::text::bytea, now(), now(), n, 0, 0, false, false
  FROM entered CROSS JOIN generate_series(1, %(steps)s) AS n
"""


@dataclass(frozen=True, slots=True)
class Alike:
    """Tasks that differ only in their ids: how they stand, and how many completed steps each has."""

    workflow: str
    state: str
    output: bytes | None = None
    error: bytes | None = None
    steps: int = 0


def finished(workflow: str = "five", *, steps: int) -> Alike:
    return Alike(workflow, "processed", output=b"5", steps=steps)


def pending(workflow: str) -> Alike:
    return Alike(workflow, "pending")


def stopped(workflow: str = "five") -> Alike:
    """In error."""
    return Alike(workflow, "error", error=msgspec.json.encode(Failure("Permanent", "it is out of order")))


class Bulk(ABC):
    """A connection to the tables of one store."""

    def put(self, tasks: Alike, number: int, *, progress: Callable[[int], None] = lambda _: None) -> None:
        """Enter so many of them; ``progress`` hears after each transaction how many there are."""
        for done in range(0, number, CHUNK_TASKS):
            chunk = min(CHUNK_TASKS, number - done)
            self._put(asdict(tasks) | {"tasks": chunk})
            progress(done + chunk)

    @abstractmethod
    def newest_key(self) -> int: ...

    @abstractmethod
    def remove_newer_than(self, key: int) -> None:
        """Tasks without steps."""

    @abstractmethod
    def settle(self) -> None:
        """Do now what the database would otherwise do behind the back of a measurement."""

    @abstractmethod
    def _put(self, values: dict[str, Any]) -> None: ...


@contextmanager
def bulk(url: str) -> Iterator[Bulk]:
    """The tables of the store at ``url``, which is made if it is not there."""
    in_fresh_loop(_migrated(url))
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield _SqliteBulk(connection)
        return
    address = address_of(url)
    options = f"-c search_path={address.schema} -c synchronous_commit=off"
    with psycopg.connect(address.dsn, autocommit=True, options=options) as server:
        yield _PostgresBulk(server)


async def _migrated(url: str) -> None:
    store = open_store(Settings(store=url))
    await store.open()
    await store.close()


class _SqliteBulk(Bulk):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA cache_size = -{_SQLITE_CACHE_KIB}")

    def newest_key(self) -> int:
        [key] = self._connection.execute(_NEWEST).fetchone()
        return int(key)

    def remove_newer_than(self, key: int) -> None:
        self._connection.execute("DELETE FROM task WHERE key > ?", (key,))

    def settle(self) -> None:
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA wal_checkpoint (TRUNCATE)")

    def _put(self, values: dict[str, Any]) -> None:
        now, after = time.time_ns() // 1000, self.newest_key()
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(_SQLITE_TASKS, values | {"now": now})
            if values["steps"]:
                self._connection.execute(_SQLITE_STEPS, values | {"now": now, "after": after})


class _PostgresBulk(Bulk):
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def newest_key(self) -> int:
        [[key]] = self._connection.execute(_NEWEST).fetchall()
        return int(key)

    def remove_newer_than(self, key: int) -> None:
        self._connection.execute("DELETE FROM task WHERE key > %s", (key,))

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE task, step")
        self._connection.execute("CHECKPOINT")

    def _put(self, values: dict[str, Any]) -> None:
        self._connection.execute(_POSTGRES, values)
