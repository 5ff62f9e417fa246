"""What a process has open: the thread that writes, and the threads that read beside it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from backstay.sql.sqlite.connection import connect, translated
from backstay.store.base import Changes
from backstay.store.sqlite.accepting import Accepting
from backstay.store.sqlite.tables import Tables
from backstay.store.sqlite.writer import Boundary, Writer

READERS: Final = 2

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
        self._path = path
        self._tables = tables
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="backstay-reader")
        self._reading = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def write(self, operation: Callable[[Tables, Changes], Answer]) -> Answer:
        """What ``operation`` gave, once the commit that holds it is durable."""
        answer: Answer = await self.writer.call(operation)
        return answer

    async def read(self, look: Callable[[Tables], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, look)

    async def close(self) -> None:
        """Write what was handed in, then end all threads."""
        await self.writer.close()
        self.accepting.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()

    def _look(self, look: Callable[[Tables], Answer]) -> Answer:
        try:
            return look(self._reader())
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _reader(self) -> Tables:
        """The reading connection of the thread that asks."""
        tables: Tables | None = getattr(self._reading, "tables", None)
        if tables is None:
            connection = connect(self._path, readonly=True)
            self._connections.append(connection)
            tables = self._reading.tables = self._tables(connection)
        return tables
