"""How a connection is opened, and what SQLite's errors mean to us."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final

from backstay.errors import BackstayError, Conflict, InvalidSetting, StoreFull, StoreUnavailable

SCHEME: Final = "sqlite:///"
OLDEST_SQLITE: Final = (3, 38, 0)  # STRICT tables, RETURNING, and JSON taken apart by ->>

BUSY_TIMEOUT_MS: Final = 5_000
_WAL_PAUSE_SECONDS: Final = 0.01
# A larger log between checkpoints: a checkpoint is paid less often. 4,000 pages are 16 MiB.
CHECKPOINT_PAGES: Final = 4_000

#: Something is wrong with what is to be written, not with the database: a rule of the schema is broken,
#: or a value has no form in SQLite or JSON. Trying again would fail again.
REFUSALS: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    TypeError,
    ValueError,
    OverflowError,
)


def path_of(url: str, *, setting: str = "store") -> Path:
    """``sqlite:///relative.db`` and ``sqlite:////absolute/path.db``."""
    path = Path(url.removeprefix(SCHEME))
    if not url.startswith(SCHEME) or not path.name:
        raise InvalidSetting(
            f"{setting} is {url!r}; write sqlite:///relative.db or sqlite:////absolute/path.db"
        )
    return path


def connect(path: Path, *, readonly: bool, shrinks: bool = False) -> sqlite3.Connection:
    """A connection that commits only after the data reached the disk.

    A new file that ``shrinks`` can give pages back to the file system, when told to.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; 3.38 or newer is needed")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        _set_up(connection, readonly=readonly, shrinks=shrinks)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, *, readonly: bool, shrinks: bool) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    if shrinks:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # Before anything is written.
    if readonly:
        connection.execute("PRAGMA query_only = ON")
    else:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Wait for those who do the same to a new file: for this one lock SQLite itself does not."""
    give_up_at = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up_at:
                raise
            time.sleep(_WAL_PAUSE_SECONDS)
        else:
            return


def translated(error: sqlite3.Error, path: Path) -> BackstayError:
    """The error that our callers understand; the database's own words stay in the message."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"{path.name}: no room left ({error}); nothing was written: make room, then try again"
        )
    if primary == sqlite3.SQLITE_BUSY:
        return StoreUnavailable(
            f"{path.name}: another process held the write lock for more than"
            f" {BUSY_TIMEOUT_MS // 1000} s; try again"
        )
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(f"{path.name}: {error}{_in_the_way(path)}")
    if isinstance(error, REFUSALS):
        return Conflict(f"{path.name}: {error}")
    return StoreUnavailable(f"{path.name}: {error}")


def _in_the_way(path: Path) -> str:
    """Why a file cannot be opened, where that is plain to see."""
    if path.is_dir():
        return f"; {path} is a folder: name a file in it"
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}: make it, or name a file elsewhere"
    return ""
