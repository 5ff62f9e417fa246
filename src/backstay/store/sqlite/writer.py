"""The one thread that writes.

Everything that changes the store is handed in here and gathers while a commit is under way; the
next commit then carries all of it. A caller hears of its own part only after the commit that
holds it, on the event loop, one wake-up for the whole batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backstay.errors import BackstayError, Closed, StoreUnavailable
from backstay.observe import log
from backstay.store.base import Changes, Listener, Settle, Transition
from backstay.store.commit import Posted, settle_all
from backstay.store.sqlite.batch import write_transitions
from backstay.store.sqlite.connection import REFUSALS, translated
from backstay.store.sqlite.tables import Tables

BATCH_MAX: Final = 5_000

# While the store cannot write, transitions are kept and tried again after this pause.
STALL_SECONDS: Final = 0.2

# How often the writer asks whether another process wrote; asking costs some ten microseconds.
FOREIGN_POLL_SECONDS: Final = 0.05

_NOTHING: Final = Changes()

Operation = Callable[[Tables, Changes], Any]

#: Called around each commit with "before" or "after"; tests end the process there.
Boundary = Callable[[str], None]


@dataclass(slots=True)
class _Call:
    operation: Operation
    future: asyncio.Future[Any]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(self, tables: Tables, path: Path, *, boundary: Boundary | None = None) -> None:
        self._tables = tables
        self._connection = tables.connection
        self._path = path
        self._boundary = boundary or (lambda _moment: None)
        self._inbox: deque[_Call | Posted] = deque()
        self._kept: list[Posted] = []
        self._wake = threading.Event()
        self._closing = False
        self._seen_version = _data_version(self._connection)
        self._look_again_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Listener] = []
        self._thread = threading.Thread(target=self._work, name=f"backstay-writer-{path.name}", daemon=True)
        self._thread.start()

    # On the event loop

    def post(self, transition: Transition, settle: Settle) -> None:
        self._check_open()
        self._hand_in((transition, settle))

    async def call(self, operation: Operation) -> Any:
        """Run ``operation`` within the next commit; its result, or its error, comes back from here."""
        self._check_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._hand_in(_Call(operation, future))
        return await future

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, changes: Changes) -> None:
        for listener in tuple(self._listeners):
            listener(changes)

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join)

    def _check_open(self) -> None:
        if self._closing:
            raise Closed(f"{self._path.name} is closed")

    def _hand_in(self, entry: _Call | Posted) -> None:
        self._inbox.append(entry)
        if not self._wake.is_set():
            self._wake.set()

    # In the thread

    def _work(self) -> None:
        while True:
            if not self._inbox:
                # We wake up by ourselves as well: there may be room again, or another process wrote.
                self._wake.wait(STALL_SECONDS if self._kept else FOREIGN_POLL_SECONDS)
                self._wake.clear()
            if self._inbox or self._kept:
                self._write(self._take())
            self._look_around()
            if self._closing and not self._inbox:
                break
        self._connection.close()
        self._report(self._give_up)

    def _take(self) -> list[_Call | Posted]:
        inbox = self._inbox
        return [inbox.popleft() for _ in range(min(len(inbox), BATCH_MAX))]

    def _write(self, batch: list[_Call | Posted]) -> None:
        calls = [entry for entry in batch if isinstance(entry, _Call)]
        posted = self._kept + [entry for entry in batch if not isinstance(entry, _Call)]
        self._kept = []
        changes = Changes(settled=[], touched=[])
        try:
            refusals, answers = self._transaction(posted, calls, changes)
        except sqlite3.Error as error:
            self._abandon()
            self._kept = posted
            failure = translated(error, self._path)
            self._report(lambda: _answer_all(calls, failure))
            return
        except Exception as error:  # noqa: BLE001
            # A mistake of ours in one batch must not end the thread that all others depend on.
            self._abandon()
            log.exception("a batch could not be written")
            failure = StoreUnavailable(f"{self._path.name}: {error!r}")
            refusals, answers = [failure] * len(posted), [failure] * len(calls)
        self._report(lambda: self._settle(posted, refusals, calls, answers, changes))

    def _transaction(
        self, posted: list[Posted], calls: list[_Call], changes: Changes
    ) -> tuple[list[BackstayError | None], list[Any]]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        refusals = write_transitions(self._tables, posted, changes) if posted else []
        answers = [self._run(call.operation, changes) for call in calls]
        self._boundary("before")
        connection.execute("COMMIT")
        self._boundary("after")
        return refusals, answers

    def _run(self, operation: Operation, changes: Changes) -> Any:
        """One operation, undone alone when it refuses; a failure of the database itself fails the batch."""
        connection = self._connection
        connection.execute("SAVEPOINT operation")
        try:
            answer = operation(self._tables, changes)
        except sqlite3.Error as error:
            if not isinstance(error, REFUSALS):
                raise
            connection.execute("ROLLBACK TO operation")
            answer = translated(error, self._path)
        except Exception as error:  # noqa: BLE001  One caller's mistake must not end the thread of all.
            connection.execute("ROLLBACK TO operation")
            answer = error
        connection.execute("RELEASE operation")
        return answer

    def _look_around(self) -> None:
        """Tell listeners when another process wrote. SQLite does not count this connection's own commits."""
        now = time.monotonic()
        if now < self._look_again_at:
            return
        self._look_again_at = now + FOREIGN_POLL_SECONDS
        with contextlib.suppress(sqlite3.Error):
            version = _data_version(self._connection)
            if version != self._seen_version:
                self._seen_version = version
                self._report(lambda: self.tell(Changes(settled=[], touched=[], foreign=True)))

    def _abandon(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _report(self, report: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(report)
        except RuntimeError:
            # The event loop is gone, and with it everybody who waited. What was committed stays.
            self._closing = True

    def _give_up(self) -> None:
        """Nobody writes any more what could not be written until now."""
        for _, settle in self._kept:
            settle(Closed(f"{self._path.name} was closed before this could be written"))

    def _settle(
        self,
        posted: list[Posted],
        refusals: list[BackstayError | None],
        calls: list[_Call],
        answers: list[Any],
        changes: Changes,
    ) -> None:
        settle_all(zip(posted, refusals, strict=True))
        for call, answer in zip(calls, answers, strict=True):
            _answer(call, answer)
        if changes != _NOTHING:
            self.tell(changes)


def _data_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version


def _answer_all(calls: list[_Call], failure: BackstayError) -> None:
    for call in calls:
        _answer(call, failure)


def _answer(call: _Call, answer: Any) -> None:
    if call.future.done():
        return  # The caller no longer waits.
    if isinstance(answer, Exception):
        call.future.set_exception(answer)
    else:
        call.future.set_result(answer)
