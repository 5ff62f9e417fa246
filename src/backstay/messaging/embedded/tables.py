"""One connection with its named queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from backstay.sql.sqlite.chunks import Chunks


class Tables:
    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self.connection = connection
        self._queries = queries
        self._chunks = Chunks(connection, queries)

    def run(self, query: str, **values: Any) -> sqlite3.Cursor:
        return self.connection.execute(self._queries[query], values)

    def run_at_once(self, query: str, **values: Any) -> None:
        """Run what gives nothing. The interpreter lock is given up once less than by ``run``.

        That looks for the key of the row that was inserted last, and lets others in meanwhile.
        """
        self.connection.executemany(self._queries[query], (values,))

    def one(self, query: str, **values: Any) -> Any:
        """The row that a query gives, or None."""
        return self.run(query, **values).fetchone()

    def run_rows(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a query whose ``{rows}`` stands for many rows."""
        self._chunks.run(query, rows)
