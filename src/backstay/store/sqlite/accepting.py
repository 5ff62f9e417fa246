"""A message, what a function writes for it, and the task that it asks for: one transaction on the file.

The function has a connection of its own, and with it the write lock of the file: from the first moment on,
so that nothing it has read can change before it writes. Within this process nobody polls for that lock; the
thread that writes everything else waits at a gate.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from backstay.domain.message import Lock
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, StoreUnavailable
from backstay.sql.sqlite.connection import BUSY_TIMEOUT_MS, connect, translated
from backstay.store.accepting import Accept, check_still_open, completed, lent
from backstay.store.base import Changes, Submitted
from backstay.store.sqlite.messages import settle_messages
from backstay.store.sqlite.statuses import enter
from backstay.store.sqlite.tables import Tables

Answer = TypeVar("Answer")


class Accepting:
    """Lends the file to one function after the other."""

    def __init__(
        self,
        path: Path,
        tables: Callable[[sqlite3.Connection], Tables],
        *,
        gate: threading.Lock,
        boundary: Callable[[str], None],
    ) -> None:
        self._path = path
        self._tables = tables
        self._gate = gate
        self._boundary = boundary
        self._turn = asyncio.Lock()
        self._connection: sqlite3.Connection | None = None
        self._holds_gate = False

    async def accept(self, lock: Lock, function: Accept, *, now: datetime) -> Submitted:
        """See ``Store.accept``."""
        async with self._turn:
            try:
                connection = await _to_its_end(self._begin)
                task = await lent(function, connection)
                return await _to_its_end(partial(self._commit, connection, task, lock, now))
            finally:
                await _to_its_end(self._let_go)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # In a thread

    def _begin(self) -> sqlite3.Connection:
        self._holds_gate = self._gate.acquire(timeout=BUSY_TIMEOUT_MS / 1000)
        if not self._holds_gate:
            raise StoreUnavailable(f"{self._path.name}: something else is being written; try again")
        try:
            self._connection = self._connection or connect(self._path, readonly=False)
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return self._connection

    def _commit(self, connection: sqlite3.Connection, task: NewTask, lock: Lock, now: datetime) -> Submitted:
        check_still_open(is_open=connection.in_transaction)
        # It may have chosen rows and texts of another form; we read tuples of str.
        connection.row_factory, connection.text_factory = None, str
        # Whoever listens sees by itself that another connection wrote.
        tables, changes = self._tables(connection), Changes()
        try:
            submitted = enter(tables, changes, task, now)
            if isinstance(submitted, BackstayError):
                raise submitted
            [lost] = settle_messages(tables, changes, [completed(lock)], now).answers()
            if lost is not None:
                raise lost
            self._boundary("before")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        self._boundary("after")
        return submitted

    def _let_go(self) -> None:
        """Whatever was not committed is undone, and the next may write."""
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()
        finally:
            if self._holds_gate:
                self._holds_gate = False
                self._gate.release()


async def _to_its_end(work: Callable[[], Answer]) -> Answer:
    """What ``work`` gives, in a thread. Who is cancelled meanwhile waits for it all the same."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.exception()  # Nobody else asks for it.
        raise
