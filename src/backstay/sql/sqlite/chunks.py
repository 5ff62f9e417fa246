"""Many rows with few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

# Rows per statement. The largest keeps below the 32,766 parameters that SQLite allows.
CHUNKS: Final = (1024, 256, 64, 16, 4, 1)


class Chunks:
    """Runs queries whose ``{rows}`` stands for many rows, through one connection."""

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self._connection = connection
        self._queries = queries
        self._sqls: dict[tuple[str, int], str] = {}

    def run(self, query: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a query for all rows, as few times as possible; how many it changed.

        ``executemany`` gives up the interpreter lock and begs for it back once per row; beside a
        busy event loop that is what a row costs. Chunks of a few sizes keep the statements cached.
        """
        done = changed = 0
        for size in CHUNKS:
            while len(rows) - done >= size:
                chunk = rows[done : done + size]
                sql = self._sql(query, size, len(chunk[0]))
                changed += self._connection.execute(sql, [*chain.from_iterable(chunk)]).rowcount
                done += size
        return changed

    def _sql(self, query: str, size: int, width: int) -> str:
        known = self._sqls.get((query, size))
        if known is None:
            row = f"({', '.join('?' * width)})"
            known = self._queries[query].replace("{rows}", ", ".join([row] * size))
            self._sqls[query, size] = known
        return known
