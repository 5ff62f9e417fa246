"""The floor on SQLite: one writer thread, one ``executemany`` per kind of write and transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from bench.floor.task import Row, Write, load_on, rows_by_kind
from bench.load import Size
from bench.points import Point

# As the store sets them: the floor must not be cheaper by being less durable.
_SET_UP: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 4000",
    "CREATE TABLE task (key INTEGER PRIMARY KEY, state TEXT, input BLOB, output BLOB, at INTEGER)",
    """
    CREATE TABLE step (task INTEGER, key INTEGER, state TEXT, input BLOB, output BLOB, at INTEGER,
                       PRIMARY KEY (task, key)) WITHOUT ROWID
    """,
)
_STATEMENTS: Final = {
    Write.INSERT_TASK: "INSERT INTO task (key, state, input, at) VALUES (?1, ?2, ?3, ?4)",
    Write.INSERT_STEP: "INSERT INTO step (task, key, state, input, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    Write.UPDATE_STEP: "UPDATE step SET state = ?3, output = ?4, at = ?5 WHERE task = ?1 AND key = ?2",
    Write.UPDATE_TASK: "UPDATE task SET state = ?2, output = ?3, at = ?4 WHERE key = ?1",
}

Answer = asyncio.Future[None]


async def measure(store: str, size: Size) -> Point:
    async with _committer(store.removeprefix("sqlite:///")) as committer:
        return await load_on(committer, size)


class _Committer:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in _SET_UP:
            self._connection.execute(statement)
        self._loop = asyncio.get_running_loop()
        # Bounded by the number of tasks: each has one write under way.
        self._inbox: deque[tuple[Write, Row, Answer]] = deque()
        self._called = threading.Event()
        self._closing = False

    def write(self, kind: Write, row: Row) -> Answer:
        answer = self._loop.create_future()
        self._inbox.append((kind, row, answer))
        if not self._called.is_set():  # Cheaper to ask than to do.
            self._called.set()
        return answer

    def close(self) -> None:
        self._closing = True
        self._called.set()

    def run(self) -> None:
        """Write what gathers, in a thread, until closed."""
        while not self._closing:
            self._called.wait()
            self._called.clear()
            gathered = [self._inbox.popleft() for _ in range(len(self._inbox))]
            if gathered:
                self._commit(gathered)
                self._loop.call_soon_threadsafe(_settle, [answer for _, _, answer in gathered])
        self._connection.close()

    def _commit(self, gathered: Sequence[tuple[Write, Row, Answer]]) -> None:
        rows = rows_by_kind(gathered)
        self._connection.execute("BEGIN IMMEDIATE")
        for kind, statement in _STATEMENTS.items():
            if rows[kind]:
                self._connection.executemany(statement, rows[kind])
        self._connection.execute("COMMIT")


@asynccontextmanager
async def _committer(path: str) -> AsyncIterator[_Committer]:
    committer = _Committer(path)
    async with asyncio.TaskGroup() as group:  # Whoever waits hears of it if the thread fails.
        group.create_task(asyncio.to_thread(committer.run))
        try:
            yield committer
        finally:
            committer.close()


def _settle(answers: Sequence[Answer]) -> None:
    for answer in answers:
        answer.set_result(None)
