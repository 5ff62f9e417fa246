"""Where stores are made: a folder of the working directory, or a PostgreSQL that is started for the bench."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from tests.support.postgres import PostgresServer, schema_name

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"

#: Not in the system's folder for temporary files: that may lie in memory, where a commit costs nothing.
FOLDER: Final = Path(".bench")


@dataclass(frozen=True, slots=True)
class Database:
    """A place for stores, as long as its context is open."""

    name: str
    version: str
    #: The file system that commits are written to.
    folder: Path
    #: Gives the URL of an empty store.
    new_store: Callable[[], str]


@contextmanager
def sqlite() -> Iterator[Database]:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as made:
        folder = Path(made)
        yield Database(
            name=SQLITE,
            version=sqlite3.sqlite_version,
            folder=folder,
            new_store=lambda: f"sqlite:///{folder / schema_name()}.db",
        )


@contextmanager
def postgres() -> Iterator[Database]:
    with PostgresServer() as server:
        with psycopg.connect(server.url()) as connection:
            version = connection.info.parameter_status("server_version") or ""
        yield Database(
            name=POSTGRESQL,
            version=version,
            folder=server.directory,
            new_store=lambda: server.url(schema=schema_name()),
        )


DATABASES: Final[dict[str, Callable[[], AbstractContextManager[Database]]]] = {
    SQLITE: sqlite,
    POSTGRESQL: postgres,
}
