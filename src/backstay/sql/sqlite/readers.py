"""The threads that read a file beside the one that writes it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Generic, TypeVar

from backstay.sql.sqlite.connection import connect, translated

READERS: Final = 2

Tables = TypeVar("Tables")
Answer = TypeVar("Answer")


class Readers(Generic[Tables]):
    """A few threads, each with a connection of its own, behind which ``tables`` puts what reads it."""

    def __init__(self, path: Path, tables: Callable[[sqlite3.Connection], Tables]) -> None:
        self._path = path
        self._tables = tables
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="backstay-reader")
        self._reading = threading.local()
        self._connections: list[sqlite3.Connection] = []

    async def read(self, look: Callable[[Tables], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._look, look)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    def _look(self, look: Callable[[Tables], Answer]) -> Answer:
        try:
            return look(self._own())
        except sqlite3.Error as error:
            raise translated(error, self._path) from error

    def _own(self) -> Tables:
        """What the thread that asks reads through."""
        tables: Tables | None = getattr(self._reading, "tables", None)
        if tables is None:
            connection = connect(self._path, readonly=True)
            self._connections.append(connection)
            tables = self._reading.tables = self._tables(connection)
        return tables
