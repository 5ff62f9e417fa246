"""Copies files that others write to, as they stand at one moment.

A copy is taken out of one read transaction, so that whoever writes meanwhile is neither held up nor half in
it. It is made under another name, readable by its owner alone, and gets its own name once it is whole and
on the disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from backstay.errors import Conflict, StoreUnavailable
from backstay.sql.sqlite.connection import BUSY_TIMEOUT_MS, translated

# Pages of one step, after which somebody is told how far it has got: 4 MiB.
PAGES: Final = 1_024
PARTIAL: Final = ".partial"

#: Told now and then: which file is copied, how many of its bytes there are, and how many in all.
Progress = Callable[[Path, int, int], None]


class Snapshot:
    """A file as it stood when this was opened, until it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            # The first read decides at which moment.
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def has(self, table: str) -> bool:
        """Whether there is such a table: a release before may have made the file."""
        return bool(self._connection.execute(f"PRAGMA table_info({table})").fetchall())

    def rows(self, query: str) -> list[Any]:
        return self._connection.execute(query).fetchall()

    def copy(self, target: Path, progress: Progress) -> None:
        """Into ``target``, which is there and empty."""
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
            # Nobody has to recover a copy that was broken off: it is thrown away.
            copy.execute("PRAGMA synchronous = OFF")
            [size] = self._connection.execute("PRAGMA page_size").fetchone()

            def told(_status: int, remaining: int, total: int) -> None:
                progress(self.path, (total - remaining) * size, total * size)

            self._connection.backup(copy, pages=PAGES, progress=told)
            # One file: without a log of writes beside it, which somebody might forget.
            copy.execute("PRAGMA journal_mode = DELETE")

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def snapshot(path: Path) -> Iterator[Snapshot]:
    with _translating(path):
        taken = Snapshot(path)
    try:
        yield taken
    finally:
        taken.close()


def write_copies(copies: Sequence[tuple[Snapshot, Path]], progress: Progress) -> None:
    """All of them, or none; the last one gets its name last. Raises Conflict for a file that is there."""
    partial = [target.with_name(target.name + PARTIAL) for _, target in copies]
    named: list[Path] = []
    made: list[Path] = []
    try:
        for (taken, target), file in zip(copies, partial, strict=True):
            _check_free(target)
            _make(file)
            made.append(file)
            with _translating(file):
                taken.copy(file, progress)
            _sync(file)
        for (_, target), file in zip(copies, partial, strict=True):
            _give_name(file, target)
            named.append(target)
    except BaseException:
        for file in named:
            file.unlink(missing_ok=True)
        raise
    finally:
        for file in made:
            file.unlink(missing_ok=True)
    for folder in {target.absolute().parent for _, target in copies}:
        _sync(folder)


def _check_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise Conflict(f"there is a file {target} already; name another, or move that one away")


def _make(file: Path) -> None:
    """For its owner alone, from the first byte on: it holds whatever the store does."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise Conflict(
            f"there is a file {file} already: another backup is under way, or was broken off;"
            " remove it if none is"
        ) from error
    except OSError as error:
        raise StoreUnavailable(f"{file}: {error.strerror}") from error


def _give_name(file: Path, target: Path) -> None:
    try:
        # Unlike renaming, this never takes the place of another file.
        os.link(file, target)
    except FileExistsError as error:
        raise Conflict(f"there is a file {target} already; name another, or move that one away") from error
    except OSError as error:
        raise StoreUnavailable(f"{target}: {error.strerror}") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translating(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error
