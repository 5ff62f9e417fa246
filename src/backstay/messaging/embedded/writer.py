"""The one thread that writes.

What is appended gathers while a commit is under way; the next one then carries all of it, up to a limit. A
caller hears of its own part after the commit that holds it, on the event loop, one wake-up for all of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from backstay.errors import BackstayError, Closed, Conflict, StoreUnavailable
from backstay.messaging.embedded.batch import Batches
from backstay.messaging.embedded.placing import Answers, Append
from backstay.messaging.embedded.room import Room
from backstay.messaging.embedded.tables import Tables
from backstay.messaging.stream import Caller
from backstay.observe import log
from backstay.sql.sqlite.connection import REFUSALS, translated
from backstay.sql.sqlite.others import Others

# So much may wait to be written; who has more to append waits.
INBOX_EVENTS_MAX: Final = 100_000
INBOX_BYTES_MAX: Final = 64 * 1024 * 1024

# As long as fewer appends wait, more of them make the commit no longer: it writes a page for each partition.
# Those of a whole turn would be too many: event loop and writer would work in turns, not side by side.
WORTH_A_COMMIT: Final = 32

# Of one commit. What is more goes into the next one, so that nobody waits behind it for long.
COMMIT_EVENTS_MAX: Final = 20_000
COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024

Result = TypeVar("Result")

#: Called around each commit with "before" or "after"; tests end the process there.
Boundary = Callable[[str], None]


@dataclass(slots=True)
class Call:
    operation: Callable[[Tables], Any]
    within: bool  # A transaction.
    future: asyncio.Future[Any]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(
        self, tables: Tables, path: Path, *, listeners: Sequence[Caller], boundary: Boundary | None
    ) -> None:
        self._tables = tables
        self._connection = tables.connection
        self._path = path
        self._boundary = boundary or (lambda _moment: None)
        self._listeners = listeners
        self._room = Room(events_max=INBOX_EVENTS_MAX, bytes_max=INBOX_BYTES_MAX)
        #: Whether there is room for more; asked for every append.
        self.has_room = self._room.is_there
        self._appends: deque[Append] = deque()
        self._calls: deque[Call] = deque()
        self._batches = Batches(tables, self._transaction, self._boundary)
        self._wake = threading.Event()
        self._asleep = False
        # It will be called when the event loop turns.
        self._calling = False
        self._closing = False
        self._others = Others(self._connection)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name=f"backstay-writer-{path.name}", daemon=True)
        self._thread.start()

    # On the event loop

    async def room(self) -> None:
        """Come back when there is room for more."""
        await self._room.wait()

    def post(self, append: Append) -> None:
        """Append with the next commit. There is always a place for it; who can wait asks for room before."""
        if self._closing:
            raise self._closed()
        self._room.take(len(append.events), append.bytes)
        self._appends.append(append)
        if self._asleep:
            self._call_for(len(self._appends))

    async def call(self, operation: Callable[[Tables], Result], *, within: bool = True) -> Result:
        """Run ``operation``, within a transaction unless told otherwise; its result or error comes back."""
        if self._closing:
            raise self._closed()
        future: asyncio.Future[Result] = self._loop.create_future()
        self._calls.append(Call(operation, within, future))
        self._call()
        return await future

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join)

    def attend(self) -> None:
        """Somebody listens now: look from now on whether others write."""
        self._wake.set()

    def _closed(self) -> Closed:
        return Closed(f"{self._path.name} is closed")

    def _call_for(self, waiting: int) -> None:
        """Call for so many, or at the end of this turn of the event loop for whatever else it brings."""
        if waiting >= WORTH_A_COMMIT:
            self._call()
        elif not self._calling:
            self._calling = True
            self._loop.call_soon(self._call_for_few)

    def _call_for_few(self) -> None:
        self._calling = False
        self._call()

    def _call(self) -> None:
        if self._asleep:
            self._asleep = False
            self._wake.set()

    # In the thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            # Said before we look: what is handed in after that look finds us asleep, and calls.
            self._asleep = True
            if not (self._appends or self._calls or self._closing):
                self._wake.wait(self._others.poll_seconds if self._listeners else None)
            self._asleep = False
            if self._calls:
                self._run(self._calls.popleft())
            if self._appends:
                self._append(self._take())
            self._look_around()
            if self._closing and not (self._appends or self._calls):
                break
        self._connection.close()

    def _take(self) -> list[Append]:
        """What goes into the next commit: the first, whatever its size, and as much more as may."""
        appends = self._appends
        taken = [appends.popleft()]
        events, size = len(taken[0].events), taken[0].bytes
        while appends:
            events += len(appends[0].events)
            size += appends[0].bytes
            if events > COMMIT_EVENTS_MAX or size > COMMIT_BYTES_MAX:
                break
            taken.append(appends.popleft())
        return taken

    def _append(self, appends: list[Append]) -> None:
        answers: Sequence[Answers | BackstayError]
        try:
            answers = self._batches.append(appends)
        except REFUSALS as error:
            if len(appends) > 1:
                # One of them breaks a rule of the schema. The others must not suffer: each by itself.
                for append in appends:
                    self._append([append])
                return
            answers = [Conflict(f"{self._path.name}: {error}")]
        except sqlite3.Error as error:
            answers = [translated(error, self._path)] * len(appends)
        except Exception as error:  # noqa: BLE001
            # A mistake of ours in one commit must not end the thread that all others depend on.
            log.exception("a commit of the log failed")
            answers = [StoreUnavailable(f"{self._path.name}: {error!r}")] * len(appends)
        self._report(partial(self._settle, appends, answers))

    def _run(self, call: Call) -> None:
        self._batches.forget()
        try:
            answer = self._transaction(call.operation) if call.within else call.operation(self._tables)
        except sqlite3.Error as error:
            answer = translated(error, self._path)
        except Exception as error:  # noqa: BLE001  One caller's mistake must not end the thread of all.
            answer = error
        self._report(partial(_answer, call.future, answer))

    def _transaction(self, work: Callable[[Tables], Result]) -> Result:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._tables)
            self._boundary("before")
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite may have rolled back by itself, as it does when the disk is full.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._boundary("after")
        return result

    def _look_around(self) -> None:
        """Call listeners when another process wrote; who writes once is soon to write again."""
        if self._listeners and self._others.wrote():
            self._others.expect()
            self._report(partial(self._tell, None))

    def _report(self, report: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(report)
        except RuntimeError:
            # The event loop is gone, and with it everybody who waited. What was committed stays.
            self._closing = True

    # On the event loop again

    def _settle(self, appends: list[Append], answers: Sequence[Answers | BackstayError]) -> None:
        self._room.give_back(
            events=sum([len(one.events) for one in appends]), size=sum([one.bytes for one in appends])
        )
        names = set()
        for append, answer in zip(appends, answers, strict=True):
            try:
                append.settle(answer)
            except Exception:  # noqa: BLE001  One caller's trouble must not leave its neighbours waiting.
                log.exception("what follows an append failed")
            if not isinstance(answer, BackstayError):
                names.add(append.stream)
        if names:
            self._tell(frozenset(names))

    def _tell(self, names: frozenset[str] | None) -> None:
        for caller in tuple(self._listeners):
            caller(names)


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return  # The caller no longer waits.
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
