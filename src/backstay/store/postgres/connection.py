"""How a connection is opened and checked, and what PostgreSQL's errors mean to us."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import asyncpg

from backstay.clock import Clock, SystemClock
from backstay.errors import BackstayError, Conflict, StoreFull, StoreUnavailable
from backstay.store.postgres.tables import Queries
from backstay.store.postgres.url import Address

OLDEST_SERVER: Final = 14
CONNECT_SECONDS: Final = 5.0

# A statement without an answer for so long has no connection any more.
ANSWER_SECONDS: Final = 10.0

# Who no longer wants a connection waits no longer than this for the server to answer.
_BROKEN_OFF_SECONDS: Final = 0.5

# Two readings of the same clock over a network differ by as much as an answer may take.
CLOCK_STEP: Final = timedelta(milliseconds=50)

#: The connection is gone, or was refused, or leads to a server that cannot write. Another one may work.
LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    # The server's last words arrived before the connection was closed, or the driver has lost the thread.
    asyncpg.InternalClientError,
)

#: Something is wrong with what is to be written, not with the database: a rule of the schema is broken,
#: or a value has no form in PostgreSQL. Trying again would fail again.
REFUSALS: Final = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    TypeError,
    ValueError,
    OverflowError,
)


class Server:
    """One PostgreSQL server as it was last seen."""

    def __init__(
        self, address: Address, queries: Queries, *, accept_data_loss: bool, clock: Clock | None = None
    ) -> None:
        self.address = address
        self._queries = queries
        self._accept_data_loss = accept_data_loss
        self._clock = clock or SystemClock()
        self._ahead = timedelta(0)

    @property
    def ahead(self) -> timedelta:
        """How far its clock is ahead of this machine's."""
        return self._ahead

    def now(self) -> datetime:
        """What its clock says, as far as we know."""
        return self._clock.now() + self._ahead

    async def connect(self) -> asyncpg.Connection:
        """A connection to a server that keeps what it acknowledges.

        Raises as asyncpg does, and StoreUnavailable for a server that we refuse.
        """
        connection = await _opened(self.address.dsn)
        try:
            with told_as_lost(connection):
                await self._check(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _check(self, connection: asyncpg.Connection) -> None:
        asked_at = time.monotonic()
        version, fsync, synchronous, now = await connection.fetchrow(self._queries["server_facts"].sql)
        self.heard(now, took=time.monotonic() - asked_at)
        objection = why_refused(
            version=version,
            fsync=fsync,
            synchronous_commit=synchronous,
            accept_data_loss=self._accept_data_loss,
        )
        if objection is not None:
            raise StoreUnavailable(f"{self.address.label} {objection}")

    def heard(self, now: datetime, *, took: float) -> None:
        """The server's clock said ``now`` in an answer that took ``took`` seconds."""
        ahead = now - (self._clock.now() - timedelta(seconds=took / 2))
        if abs(ahead - self._ahead) > CLOCK_STEP + timedelta(seconds=took):
            self._ahead = ahead if abs(ahead) > CLOCK_STEP else timedelta(0)

    def translated(self, error: Exception) -> BackstayError:
        """The error that our callers understand; the database's own words stay in the message."""
        label = self.address.label
        match error:
            case BackstayError():
                return error
            case asyncpg.DiskFullError():
                return StoreFull(
                    f"{label}: no room left ({error}); nothing was written: make room, then try again"
                )
            case asyncpg.LockNotAvailableError():
                return StoreUnavailable(
                    f"{label}: another transaction holds what is to be written; try again once it has ended"
                )
            case asyncpg.TooManyConnectionsError():
                return StoreUnavailable(
                    f"{label}: {error}; raise max_connections there, or lower store_connections here"
                )
            case _ if isinstance(error, REFUSALS):
                return Conflict(f"{label}: {error}")
            case _:
                return StoreUnavailable(f"{label}: {str(error) or type(error).__name__}")


@contextmanager
def told_as_lost(connection: asyncpg.Connection) -> Iterator[None]:
    """Raise ConnectionError where the driver only says that the connection is closed already."""
    try:
        yield
    except asyncpg.InterfaceError as error:
        if connection.is_closed():
            raise ConnectionError(str(error)) from error
        raise


async def _opened(dsn: str) -> asyncpg.Connection:
    opening = asyncio.ensure_future(
        asyncpg.connect(dsn, timeout=CONNECT_SECONDS, command_timeout=ANSWER_SECONDS)
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # Broken off in the middle, the driver leaves an error behind that nobody asks for, and asyncio
        # prints it.
        await asyncio.wait([opening], timeout=_BROKEN_OFF_SECONDS)
        if opening.done() and not opening.cancelled() and opening.exception() is None:
            opening.result().terminate()
        opening.cancel()
        raise


def why_refused(*, version: int, fsync: str, synchronous_commit: str, accept_data_loss: bool) -> str | None:
    """What is wrong with a server, given what it says of itself; ``None`` when it can be used."""
    if version // 10_000 < OLDEST_SERVER:
        return f"runs PostgreSQL {version // 10_000}; {OLDEST_SERVER} or newer is needed"
    for name, value in (("fsync", fsync), ("synchronous_commit", synchronous_commit)):
        if value == "off" and not accept_data_loss:
            return (
                f"runs with {name} = off: a task that was acknowledged may be lost in a crash."
                f" Turn {name} on, or accept that with the setting accept_data_loss = true"
            )
    return None
