"""The databases that a test runs on: the same body, once on each.

A ``Database`` is one place where a store may be: a file, or a schema of a server. The test gets its
stores from it, and looks with it at the rows that they left.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import psycopg

from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.store.sqlite import SqliteStore
from backstay.vault import Vault
from tests.support.postgres import PostgresServer, schema_name

if TYPE_CHECKING:
    AnyStore = SqliteStore
else:

    class AnyStore:
        """What a store with a twist derives from; ``Database.store_as`` puts a real one under it."""


Kind = TypeVar("Kind", bound=Store)
Row = tuple[Any, ...]

#: What seals secrets of jobs on a server, where no file of keys is made by itself.
SECRET_KEY = b64encode(b"a key that every test may know!!").decode()

#: Where everything is that a task consists of, and who works on it.
TABLES = ("task", "step", "signal", "payload", "instance")


class Database(ABC):
    """One place for a store; there is nothing in it before a store is opened."""

    url: str

    _kind: ClassVar[type[Any]]

    def store(self, **options: Any) -> Store:
        """A store, not yet opened."""
        store: Store = self._kind(self.url, **options)
        return store

    def store_as(self, kind: type[Kind]) -> Kind:
        """A store that does what ``kind`` says, and everything else as always."""
        store: Kind = type(kind.__name__, (kind, self._kind), {})(self.url)
        return store

    #: Settings with which an application on it can keep secrets of jobs.
    sealing: ClassVar[dict[str, str]] = {}

    @property
    def sealing_variables(self) -> dict[str, str]:
        """The same, for the environment of a process."""
        return {f"BACKSTAY_{name.upper()}": value for name, value in self.sealing.items()}

    @abstractmethod
    def heir(self, *, lease: str = "1s") -> dict[str, str]:
        """Settings with which an application soon finds a process dead that said nothing to anybody.

        One that lives may be slow as well: where another must not be taken for dead, the lease is longer.
        """

    @abstractmethod
    def another(self) -> Database:
        """Another place of the same sort."""

    @abstractmethod
    def nowhere(self) -> str:
        """The URL of a store that cannot be opened."""

    @abstractmethod
    def is_untouched(self) -> bool:
        """Whether nothing at all was made here."""

    @abstractmethod
    def has_tables(self) -> bool:
        """Whether a store got so far as to make its tables."""

    @abstractmethod
    def rows(self, query: str, *values: Any) -> list[Row]:
        """Ask in SQL that every database understands; each ``?`` stands for a value."""

    @abstractmethod
    def moment(self) -> AbstractContextManager[Database]:
        """The same place as it stands now, for whoever asks more than once; from any thread."""

    def content(self) -> dict[str, list[Row]]:
        """Every row of every table."""
        return {table: self.rows(f"SELECT * FROM {table}") for table in TABLES}


class SqliteDatabase(Database):
    """A file, in a folder that the test has to itself."""

    _kind: ClassVar = SqliteStore

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._others = 0
        self._connection: sqlite3.Connection | None = None

    def heir(self, *, lease: str = "1s") -> dict[str, str]:
        return {}  # The lock of a dead process is free at once.

    def another(self) -> SqliteDatabase:
        self._others += 1
        return SqliteDatabase(self.path.with_name(f"{self.path.stem}-{self._others}.db"))

    def nowhere(self) -> str:
        return f"sqlite:///{self.path.parent / 'no' / 'such' / 'folder.db'}"

    def is_untouched(self) -> bool:
        return not self.path.exists()

    def has_tables(self) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'step'"))

    def rows(self, query: str, *values: Any) -> list[Row]:
        if self._connection is not None:
            return self._connection.execute(query, values).fetchall()
        # Who opens or closes a store may have the file to himself for a moment.
        with closing(sqlite3.connect(self.path, timeout=0.5)) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def moment(self) -> Iterator[SqliteDatabase]:
        now = SqliteDatabase(self.path)
        with closing(sqlite3.connect(self.path, timeout=0.5, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            now._connection = connection
            yield now


class PostgresDatabase(Database):
    """A schema of a server that others use, too."""

    sealing: ClassVar = {"secret_key": SECRET_KEY}

    _kind: ClassVar = PostgresStore

    def __init__(self, server: PostgresServer, look: psycopg.Connection) -> None:
        self.server = server
        self.schema = schema_name()
        self.url = server.url(schema=self.schema)
        #: To ask and to prepare with; not one of the store's own.
        self.look = look
        self._others: list[PostgresDatabase] = []

    def store(self, **options: Any) -> Store:
        return super().store(**{"vault": Vault(SECRET_KEY), **options})

    def heir(self, *, lease: str = "1s") -> dict[str, str]:
        return {"heartbeat": "250ms", "lease": lease, "supervisor_period": "100ms"}

    def another(self) -> PostgresDatabase:
        self._others.append(PostgresDatabase(self.server, self.look))
        return self._others[-1]

    def nowhere(self) -> str:
        return self.server.url(database="no_such_database")

    def is_untouched(self) -> bool:
        return not self.rows("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.schema)

    def has_tables(self) -> bool:
        return bool(
            self.rows("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'step'", self.schema)
        )

    def rows(self, query: str, *values: Any) -> list[Row]:
        self.look.execute(f"SET search_path = {self.schema}")
        return self.look.execute(query.replace("?", "%s"), values or None).fetchall()

    @contextmanager
    def moment(self) -> Iterator[PostgresDatabase]:
        now = PostgresDatabase(self.server, connect(self.server))
        now.schema = self.schema
        with closing(now.look):
            # As on a file: who cannot look soon does not look.
            now.look.execute("SET lock_timeout = '500ms'")
            now.look.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield now

    def drop(self) -> None:
        """Remove it, and all others that came of it; an error when somebody does not let go of one."""
        for other in self._others:
            other.drop()
        self.look.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


def connect(server: PostgresServer) -> psycopg.Connection:
    """A connection to look and to prepare with: what is written with it need not outlive the server."""
    options = "-c synchronous_commit=off -c lock_timeout=10s"
    return psycopg.connect(server.url(), autocommit=True, options=options)
