"""A store's file, looked at and changed from outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from backstay.store.sqlite import SqliteStore

OpenStore = Callable[..., Awaitable[SqliteStore]]


def rows(path: Path) -> list[str]:
    """Everything in the file, as SQL."""
    database = sqlite3.connect(path)
    try:
        return list(database.iterdump())
    finally:
        database.close()


def change(path: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute(statement, values)
    database.close()
