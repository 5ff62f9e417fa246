"""Brings the file's schema up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backstay.store.migrate import Migration, load_migrations, outstanding

_PACKAGE: Final = "backstay.store.sqlite"


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


def migrate(connection: sqlite3.Connection) -> int:
    """Apply what is missing, all of it or nothing; the number of migrations applied.

    SQLite's own write lock, held from the first statement on, keeps a second process out.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
        )
        applied = dict(connection.execute("SELECT number, checksum FROM migration").fetchall())
        missing = outstanding(load_migrations(_PACKAGE), applied)
        for migration in missing:
            _apply(connection, migration)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return len(missing)


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
