"""A connection that writes, one transaction after the other, and knows of each whether it happened.

An answer to COMMIT may be lost with the connection. Each transaction therefore carries a number
into the row of its lane: on a new connection that row tells whether the number arrived. It is asked
for by an insert, which waits until the lost transaction has ended, one way or the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import asyncpg

from backstay.errors import Closed, StoreUnavailable
from backstay.observe import STORE_UNAVAILABLE, commit_seconds, emit
from backstay.store.base import Changes
from backstay.store.postgres.connection import LOST, REFUSALS, Server, told_as_lost
from backstay.store.postgres.news import notices
from backstay.store.postgres.tables import Queries, Tables

# So long a caller waits for a server that is away, or for a row that another transaction holds.
PATIENCE_SECONDS: Final = 5.0
FOREVER: Final = float("inf")

_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0
GOODBYE_SECONDS: Final = 2.0

# So long a transaction may stand still that its process left standing, stopped or cut off.
STANDING: Final = timedelta(seconds=5)

# Set per transaction, since a pooler may hand out another session each time. One that stands still must not
# hold what it locked for long; see also ``cut_off``. What is read behind a lock must be newer than the lock,
# whatever isolation the database has by default.
SETTINGS: Final = (
    # Whatever the server believes of a table that was empty a minute ago: we find rows by their keys.
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;"
    " SET LOCAL lock_timeout = '1s';"
    f" SET LOCAL idle_in_transaction_session_timeout = '{STANDING.total_seconds():.0f}s';"
)
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED;" + SETTINGS

Answer = TypeVar("Answer")
Operation = Callable[[Tables, Changes], Awaitable[Answer]]

#: Called around each commit with "before" or "after"; tests look at what it holds, and end the process.
Boundary = Callable[[str, Tables], Awaitable[None]]


class InDoubt(StoreUnavailable):
    """The answer to COMMIT was lost, and nobody could be asked whether it happened."""


class _NotCommitted(Exception):
    """The answer to COMMIT was lost, and nothing had happened."""


# Whatever the database says, but for a refusal, it may not say for long.
_AGAIN: Final = (*LOST, asyncpg.PostgresError, StoreUnavailable, _NotCommitted)


class Lane:
    """Owns one connection, which it opens when it is needed and again when it was lost."""

    def __init__(
        self,
        id: str,
        server: Server,
        queries: Queries,
        *,
        channel: str,
        inline_bytes_max: int,
        boundary: Boundary | None = None,
        first: str = "",
    ) -> None:
        """``first`` is said together with the beginning of each transaction, which saves a round trip."""
        self.id = id
        self._begin = BEGIN + first
        self._server = server
        self._queries = queries
        self._channel = channel
        self._inline_bytes_max = inline_bytes_max
        self._boundary = boundary
        self._tables: Tables | None = None
        self._number = 0
        self._turn = asyncio.Lock()
        self._closed = False

    async def transact(
        self, operation: Operation[Answer], *, patience: float = PATIENCE_SECONDS
    ) -> tuple[Answer, Changes]:
        """Run ``operation`` in a transaction; what it gave, once that is durable.

        Tried again after a lost connection or a conflict with another transaction, for ``patience``
        seconds; then raises StoreUnavailable. Nothing is done twice.
        """
        give_up_at = time.monotonic() + patience
        return await self._try(lambda: self._transaction(operation, give_up_at), give_up_at)

    async def look(self, read: Callable[[Tables], Awaitable[Answer]]) -> Answer:
        """Read without a transaction."""

        async def attempt() -> Answer:
            async with self._connected() as tables:
                return await read(tables)

        return await self._try(attempt, time.monotonic() + PATIENCE_SECONDS)

    async def close(self) -> None:
        """Let go of the connection; whoever still tries gives up."""
        self._closed = True
        if self._turn.locked():
            self._discard()  # or they would be told only when their patience is at its end
        tables, self._tables = self._tables, None
        if tables is not None:
            with contextlib.suppress(*LOST):
                await tables.connection.close(timeout=GOODBYE_SECONDS)

    async def _try(self, attempt: Callable[[], Awaitable[Answer]], give_up_at: float) -> Answer:
        async with self._turn:
            for pause in _pauses():
                try:
                    return await attempt()
                except InDoubt:
                    raise  # To try again what may have happened would be to do it twice.
                except REFUSALS as error:
                    raise self._server.translated(error) from error
                except _AGAIN as error:
                    failure = self._server.translated(error)
                    if time.monotonic() + pause >= give_up_at:
                        raise failure from error
                    self._check_open()
                    emit(STORE_UNAVAILABLE, error=failure)
                await asyncio.sleep(pause)
        raise AssertionError("the pauses never end")

    async def _transaction(self, operation: Operation[Answer], give_up_at: float) -> tuple[Answer, Changes]:
        changes = Changes(settled=[], touched=[])
        number = self._number + 1
        async with self._connected() as tables:
            began = time.monotonic()
            await self._start(tables.connection)
            tables.unmarked = self.id, number
            answer = await operation(tables, changes)
            await tables.mark()
            if told := notices(changes, self.id):
                await tables.run("notify", channel=self._channel, notices=told)
            await self._reach("before", tables)
            # From here on, the number is used up whatever happens.
            self._number = number
        await self._commit(tables.connection, number, give_up_at)
        commit_seconds.add(time.monotonic() - began)
        await self._reach("after", tables)
        return answer, changes

    async def _start(self, connection: asyncpg.Connection) -> None:
        await connection.execute(self._begin)

    async def _end(self, connection: asyncpg.Connection) -> None:
        await connection.execute("COMMIT")

    async def _commit(self, connection: asyncpg.Connection, number: int, give_up_at: float) -> None:
        try:
            await self._end(connection)
        except Exception as error:
            # Whatever it was, it says nothing about the commit.
            self._discard()
            if not await self._happened(number, give_up_at):
                raise _NotCommitted(str(error)) from error
        except BaseException:
            self._discard()
            raise

    async def _happened(self, number: int, give_up_at: float) -> bool:
        """Whether the transaction of this number was committed. Asks until it knows, or must give up."""
        for pause in _pauses():
            try:
                async with self._connected() as tables:
                    [[last]] = await tables.run("settle_mark", id=self.id)
                    return bool(last == number)
            except _AGAIN as error:
                failure = self._server.translated(error)
                if time.monotonic() + pause >= give_up_at:
                    raise InDoubt(
                        f"{failure}; whether the last write happened is not known: look, or do it again"
                    ) from error
                self._check_open()
                emit(STORE_UNAVAILABLE, error=failure)
            await asyncio.sleep(pause)
        raise AssertionError("the pauses never end")

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Tables]:
        """The connection; whatever goes wrong on it, nothing of it is left behind."""
        if self._tables is None:
            self._check_open()
            connection = await self._server.connect()
            self._tables = Tables(connection, self._queries, inline_bytes_max=self._inline_bytes_max)
        tables = self._tables
        try:
            with told_as_lost(tables.connection):
                yield tables
        except (*LOST, asyncpg.InterfaceError, asyncio.CancelledError):
            self._discard()
            raise
        except BaseException:
            await self._roll_back()
            raise

    async def _roll_back(self) -> None:
        if self._tables is None or not self._tables.connection.is_in_transaction():
            return
        try:
            await self._tables.connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001  What cannot be rolled back is rolled back by the server.
            self._discard()

    def _discard(self) -> None:
        if self._tables is not None:
            self._tables.connection.terminate()
        self._tables = None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"{self._server.address.label} is closed")

    async def _reach(self, moment: str, tables: Tables) -> None:
        if self._boundary is not None:
            await self._boundary(moment, tables)


class LendingLane(Lane):
    """A lane whose transactions are lent to others: the driver knows of them, so that others may nest."""

    _lent: Any = None

    async def _start(self, connection: asyncpg.Connection) -> None:
        self._lent = connection.transaction(isolation="read_committed")
        await self._lent.start()

    async def _end(self, connection: asyncpg.Connection) -> None:  # noqa: ARG002
        await self._lent.commit()

    async def _roll_back(self) -> None:
        if self._tables is None:
            return
        try:
            await self._lent.rollback()
        except Exception:  # noqa: BLE001  As above.
            self._discard()


class Lanes:
    """A few lanes that anybody may use; who comes when all are taken waits for a while."""

    def __init__(self, lanes: list[Lane]) -> None:
        self.all = lanes
        # Last in, first out: a quiet store keeps one connection busy instead of opening them all.
        self._free: asyncio.LifoQueue[Lane] = asyncio.LifoQueue()
        for lane in reversed(lanes):
            self._free.put_nowait(lane)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Lane]:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                lane = await self._free.get()
        except TimeoutError:
            raise StoreUnavailable(
                f"all {len(self.all)} connections to the store are busy; try again,"
                " or allow more of them (setting store_connections)"
            ) from None
        try:
            yield lane
        finally:
            self._free.put_nowait(lane)


def _pauses() -> Iterator[float]:
    for count in itertools.count():
        yield min(_FIRST_PAUSE_SECONDS * 2 ** min(count, 10), _LONGEST_PAUSE_SECONDS)
