"""Brings the file's schema up to date."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from backstay.errors import StoreUnavailable
from backstay.sql.migrations import Migration, load_migrations, outstanding

NOTHING: Final[Mapping[int, Callable[[], None]]] = {}

_TABLE: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_COLUMNS: Final = {"number", "name", "checksum"}
_MIGRATION_TABLE: Final = (
    "CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
)


def is_store(path: Path) -> bool:
    """Whether there is a store of ours in this file. Looks without touching anything."""
    if not path.is_file():
        return False
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migration'")
        return found.fetchone() is not None
    finally:
        connection.close()


def migrate(
    connection: sqlite3.Connection, package: str, *, beside: Mapping[int, Callable[[], None]] = NOTHING
) -> int:
    """Apply what is missing of a package's migrations, all of it or nothing; the number of those applied.

    ``beside`` is what has to be done with migrations that SQL alone cannot do.
    SQLite's own write lock, held from the first statement on, keeps a second process out.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        applied = _applied(connection)
        missing = outstanding(load_migrations(package), applied or {})
        if applied is None:
            _check_free(connection, {"migration"})
            connection.execute(_MIGRATION_TABLE)
        _check_free(connection, set(_TABLE.findall("".join(one.sql for one in missing))))
        for migration in missing:
            _apply(connection, migration)
            if (more := beside.get(migration.number)) is not None:
                more()
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return len(missing)


def _applied(connection: sqlite3.Connection) -> dict[int, str] | None:
    """What was applied to this store, by number; ``None`` where there is no store yet."""
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(migration)")}
    if not columns >= _COLUMNS:
        return None
    return dict(connection.execute("SELECT number, checksum FROM migration").fetchall())


def _check_free(connection: sqlite3.Connection, wanted: set[str]) -> None:
    """The file may be the application's own. A table of its is not to be taken for one of ours."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    if taken := sorted(wanted.intersection(name for (name,) in tables)):
        raise StoreUnavailable(
            f"this file has tables of the application's own with names that the store needs:"
            f" {', '.join(taken)}; keep the store in a file of its own, or rename them"
        )


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    # Not executescript: it would commit what we hold open.
    for statement in _statements(migration.sql):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO migration VALUES (?, ?, ?)", (migration.number, migration.name, migration.checksum)
    )


def _statements(script: str) -> Iterator[str]:
    """A script cut where SQLite itself sees the end of a statement (a trigger holds semicolons)."""
    current = ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            yield current
            current = ""
