"""Enters tasks in transactions of callers, through connections of theirs to the store's file.

Nothing here begins, commits or rolls back: the caller does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from backstay.domain.task import NewTask
from backstay.errors import BackstayError, InvalidRequest, StoreUnavailable
from backstay.sql.sqlite.connection import translated
from backstay.store.base import Changes, Submitted
from backstay.store.callers import (
    Accepted,
    Kind,
    Way,
    check_dialect,
    drivers_own,
    is_sqlalchemys_refusal,
    no_transaction,
    recognised,
    refusal,
    unusable,
)
from backstay.store.sqlite.statuses import enter
from backstay.store.sqlite.tables import Tables

ACCEPTED: Final[Accepted] = {
    Way.SUBMIT: (),
    Way.SUBMIT_IN: (Kind.SQLITE3, Kind.SQLALCHEMY, Kind.SQLALCHEMY_SESSION),
}

# Changes nothing. The driver begins a transaction with the first write, unless told not to; a savepoint
# is none in its eyes, and outside of a transaction the release of ours would be a commit.
_FIRST_WRITE: Final = "UPDATE task SET key = key WHERE false"


class Callers:
    """The ways into callers' transactions on one file."""

    def __init__(self, path: Path, tables: Callable[[sqlite3.Connection], Tables]) -> None:
        self._path = path
        self._tables = tables

    def no_way_within(self, connection: object) -> InvalidRequest:
        """What there is to say to a caller with an asynchronous connection: none leads into a file."""
        return refusal(connection, Way.SUBMIT, accepted=ACCEPTED, store=self._path.name)

    def submit_in(self, connection: object, new: NewTask, *, now: datetime) -> Submitted:
        kind = recognised(connection, Way.SUBMIT_IN, accepted=ACCEPTED, store=self._path.name)
        with self._translating(), _plain_rows(self._sqlite3s(connection, kind)) as own:
            self._check_file(own)
            own.execute(_FIRST_WRITE)
            if not own.in_transaction:
                raise no_transaction()
            with _all_or_nothing(own):
                # What this changes, the process sees by itself: it is another connection that writes.
                answer = enter(self._tables(own), Changes(), new, now)
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    def _sqlite3s(self, connection: Any, kind: Kind) -> sqlite3.Connection:
        """The connection itself, or the one that SQLAlchemy's stands for."""
        if kind is Kind.SQLITE3:
            own: sqlite3.Connection = connection
            return own
        outer = connection.connection() if kind is Kind.SQLALCHEMY_SESSION else connection
        check_dialect(outer.dialect, "sqlite", store=self._path.name)
        # With its first statement SQLAlchemy begins; of one that goes past it, it would know nothing.
        outer.exec_driver_sql("SELECT 1").close()
        inner = outer.connection.driver_connection
        if not isinstance(inner, sqlite3.Connection):
            raise unusable(f"SQLAlchemy reaches the file by {outer.dialect.driver}, not by sqlite3")
        return inner

    def _check_file(self, connection: sqlite3.Connection) -> None:
        [file] = [file for _, name, file in connection.execute("PRAGMA database_list") if name == "main"]
        if not file or not Path(file).samefile(self._path):
            other = Path(file).name if file else "a database in memory"
            raise InvalidRequest(
                f"this connection leads to {other}, not to the file of this store, {self._path}"
            )

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except BackstayError:
            raise
        except Exception as error:
            raise self._translated(drivers_own(error)) from error

    def _translated(self, error: Exception) -> BackstayError:
        """The error that our callers understand, whichever of the two libraries raised it."""
        if isinstance(error, sqlite3.ProgrammingError) or is_sqlalchemys_refusal(error):
            return unusable(error)
        if not isinstance(error, sqlite3.Error):
            return StoreUnavailable(f"{self._path.name}: {error!r}")
        # Its connection, and so its patience, is the caller's.
        match getattr(error, "sqlite_errorcode", None):
            case sqlite3.SQLITE_BUSY_SNAPSHOT:
                why = "another connection wrote since this transaction began to read"
            case sqlite3.SQLITE_BUSY:
                why = "another connection holds the write lock for longer than this one waits"
            case _:
                return translated(error, self._path)
        return StoreUnavailable(f"{self._path.name}: {why}; roll back, and try again")


@contextmanager
def _plain_rows(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The caller may have rows and texts in any form; we read tuples of str."""
    row_factory, text_factory = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield connection
    finally:
        connection.row_factory, connection.text_factory = row_factory, text_factory


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    """A statement that fails leaves the transaction open, and the caller could commit half a task."""
    connection.execute("SAVEPOINT backstay_submission")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # A full disk, among others, has ended it already.
            connection.execute("ROLLBACK TO backstay_submission")
            connection.execute("RELEASE backstay_submission")
        raise
    connection.execute("RELEASE backstay_submission")
