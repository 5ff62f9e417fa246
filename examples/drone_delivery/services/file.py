"""The SQLite file of one service: transactions, the calls that came, and the fault dial.

In WAL mode with ``synchronous=NORMAL`` a commit survives the death of the process, by ``kill -9`` as well,
which is what matters here. It may not survive the loss of power; that would take an fsync at each commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_PRAGMAS: Final = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record (
    id TEXT PRIMARY KEY,
    content TEXT,  -- JSON; NULL: cancelled before anybody created it
    cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS call (
    key TEXT PRIMARY KEY,  -- the caller's idempotency key
    operation TEXT NOT NULL,
    id TEXT NOT NULL,
    times INTEGER NOT NULL DEFAULT 1
) STRICT;
-- Few calls come twice: whoever counts them reads these few.
CREATE INDEX IF NOT EXISTS call_repeated ON call (times) WHERE times > 1;
CREATE TABLE IF NOT EXISTS dial (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    content TEXT NOT NULL  -- JSON, with an absolute end: it holds across restarts
) STRICT;
"""

_BOOK: Final = """
INSERT INTO call (key, operation, id) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET times = times + 1
"""

_KEEP_DIAL: Final = """
INSERT INTO dial (only, content) VALUES (1, ?) ON CONFLICT (only) DO UPDATE SET content = excluded.content
"""


class FileUnusable(Exception):
    """The file cannot be opened as one of ours; says which and why."""


class ServiceFile:
    """Open from construction until the context is left; a file that exists is taken up as it is."""

    def __init__(self, path: Path, schema: str) -> None:
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.executescript(f"{_PRAGMAS} BEGIN; {_SCHEMA} {schema} COMMIT;")
        except sqlite3.Error as error:
            raise FileUnusable(f"cannot use {path}: {error}; give another --database") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is there afterwards, or, if it raises, nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows, so that no cursor outlives its transaction."""
        return self._connection.execute(statement, values).fetchall()

    def book(self, key: str, operation: str, *, id: str) -> None:
        """Count a call under its key."""
        self.execute(_BOOK, (key, operation, id))

    def read_dial(self) -> str | None:
        return next((content for (content,) in self.execute("SELECT content FROM dial")), None)

    def keep_dial(self, content: str) -> None:
        self.execute(_KEEP_DIAL, (content,))
