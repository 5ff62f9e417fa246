"""Enters tasks in transactions of callers, through connections of theirs.

Nothing here begins, commits or rolls back: the caller does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import asyncpg

from backstay.domain.task import NewTask
from backstay.errors import BackstayError
from backstay.store.base import Submitted
from backstay.store.callers import (
    Accepted,
    Kind,
    Way,
    drivers_own,
    is_sqlalchemys_refusal,
    recognised,
    unusable,
)
from backstay.store.postgres.connection import Server
from backstay.store.postgres.drivers import AsyncDriver, Driver, Wordings, async_driver_of, driver_of
from backstay.store.postgres.entering import Entering, Entrance
from backstay.store.postgres.statuses import Statuses

ACCEPTED: Final[Accepted] = {
    Way.SUBMIT: (
        Kind.ASYNCPG,
        Kind.PSYCOPG_ASYNC,
        Kind.SQLALCHEMY_ASYNC,
        Kind.SQLALCHEMY_ASYNC_SESSION,
    ),
    Way.SUBMIT_IN: (Kind.PSYCOPG, Kind.SQLALCHEMY, Kind.SQLALCHEMY_SESSION),
}

_FAILED_TRANSACTION: Final = "25P02"


class Callers:
    """The ways into callers' transactions on one store."""

    def __init__(
        self,
        server: Server,
        named_queries: Mapping[str, str],
        *,
        channel: str,
        inline_bytes_max: int,
        statuses: Statuses,
    ) -> None:
        self._server = server
        self._label = server.address.label
        self._wordings = Wordings(named_queries)
        self._entrance = Entrance(
            server.address,
            self._wordings.numbered,
            channel=channel,
            inline_bytes_max=inline_bytes_max,
            statuses=statuses,
        )

    async def submit_within(self, connection: object, new: NewTask, *, now: datetime) -> Submitted:
        kind = recognised(connection, Way.SUBMIT, accepted=ACCEPTED, store=self._label)
        with self._translating():
            driver = await async_driver_of(connection, kind, wordings=self._wordings, store=self._label)
            entering = self._entrance.enter(new, now, is_in_transaction=driver.is_in_transaction)
            return await _run_async(entering, driver)

    def submit_in(self, connection: object, new: NewTask, *, now: datetime) -> Submitted:
        kind = recognised(connection, Way.SUBMIT_IN, accepted=ACCEPTED, store=self._label)
        with self._translating():
            driver = driver_of(connection, kind, wordings=self._wordings, store=self._label)
            entering = self._entrance.enter(new, now, is_in_transaction=driver.is_in_transaction)
            return _run(entering, driver)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except BackstayError:
            raise
        except Exception as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> BackstayError:
        """The error that our callers understand, whichever driver raised it."""
        said = drivers_own(error)
        sqlstate: str | None = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        if sqlstate == _FAILED_TRANSACTION:
            return unusable("its transaction has failed before; roll it back first")
        if sqlstate is not None:
            return self._server.translated(_as_asyncpgs(said, sqlstate))
        if _is_drivers_refusal(said):
            return unusable(said)
        return self._server.translated(said)


def _run(entering: Entering, driver: Driver) -> Submitted:
    try:
        statement = next(entering)
        while True:
            statement = entering.send(driver.run(statement))
    except StopIteration as end:
        answer: Submitted = end.value
        return answer


async def _run_async(entering: Entering, driver: AsyncDriver) -> Submitted:
    try:
        statement = next(entering)
        while True:
            statement = entering.send(await driver.run(statement))
    except StopIteration as end:
        answer: Submitted = end.value
        return answer


def _as_asyncpgs(error: Exception, sqlstate: str) -> Exception:
    """The error as our own driver would have raised it: what it means is written down for that one."""
    kind: type[Exception] = asyncpg.PostgresError.get_message_class_for_sqlstate(sqlstate)
    return kind(str(error) or type(error).__name__)


def _is_drivers_refusal(error: Exception) -> bool:
    """Whether the driver itself refused: the connection is busy, was given back, is in no state for this."""
    # One that is a ValueError as well is about a value.
    is_asyncpgs = isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError)
    return is_asyncpgs or is_sqlalchemys_refusal(error)
