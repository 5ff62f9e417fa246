"""What a process has open: the thread that writes, and the threads that read beside it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from backstay.sql.sqlite.readers import Readers
from backstay.store.base import Changes
from backstay.store.sqlite.accepting import Accepting
from backstay.store.sqlite.tables import Tables
from backstay.store.sqlite.writer import Boundary, Writer

Answer = TypeVar("Answer")


class Session:
    """From opening to closing. Whatever the process says to the file, it says through here."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        tables: Callable[[sqlite3.Connection], Tables],
        *,
        boundary: Boundary | None,
    ) -> None:
        # Who writes in this process: the writer, or a function of the application that was lent the file.
        gate = threading.Lock()
        reach = boundary or (lambda _moment: None)
        self.writer = Writer(tables(connection), path, gate=gate, boundary=reach)
        self.accepting = Accepting(path, tables, gate=gate, boundary=reach)
        self._readers = Readers(path, tables)

    async def write(self, operation: Callable[[Tables, Changes], Answer]) -> Answer:
        """What ``operation`` gave, once the commit that holds it is durable."""
        answer: Answer = await self.writer.call(operation)
        return answer

    async def read(self, look: Callable[[Tables], Answer]) -> Answer:
        return await self._readers.read(look)

    async def close(self) -> None:
        """Write what was handed in, then end all threads."""
        await self.writer.close()
        self.accepting.close()
        await self._readers.close()
