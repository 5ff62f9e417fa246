"""Copies a live store on SQLite, and the streams beside it.

A checkpoint in the copy must lie within the log in the copy: an event beyond its end would be skipped, and
one that the log has forgotten, and of which the store knows no task, would be lost. So the store is taken
first and the log right after it, whose ends only grow; and if what was forgotten in between reaches into
what a group had yet to read, both are taken again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from backstay.errors import InvalidRequest, StoreUnavailable
from backstay.messaging.logs import log_url, streams_beside
from backstay.settings import Settings
from backstay.sql.queries import load_queries
from backstay.sql.sqlite.backup import Progress, Snapshot, snapshot, write_copies
from backstay.sql.sqlite.connection import SCHEME, path_of
from backstay.sql.sqlite.schema import is_store

# So often both are taken; what is forgotten between the two of them is rare already.
TRIES: Final = 10


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store backup`` answers."""

    store: str
    # None: there are no streams.
    streams: str | None
    bytes: int


def back_up(settings: Settings, file: Path, progress: Progress) -> BackedUp:
    """Copy the store into ``file``, and the streams into a file beside it, where that one will look for them.

    Raises Conflict where one of them is there already, and InvalidRequest for a store that is not a file.
    """
    if not settings.store.startswith(SCHEME):
        raise InvalidRequest(
            "`store backup` copies a store on SQLite; a PostgreSQL database is backed up by its own tools:"
            " pg_dump --schema=backstay, or a base backup with its write-ahead log"
        )
    path = path_of(settings.store)
    if not is_store(path):
        raise StoreUnavailable(f"there is no store in {path}")
    beside = streams_beside(file)
    with _moment(path, path_of(log_url(settings), setting="streams")) as (store, log):
        # The store last: where it is, all of it is.
        write_copies([*([] if log is None else [(log, beside)]), (store, file)], progress)
    written = [file] if log is None else [file, beside]
    return BackedUp(
        store=str(file),
        streams=None if log is None else str(beside),
        bytes=sum(one.stat().st_size for one in written),
    )


@contextlib.contextmanager
def _moment(path: Path, log_path: Path) -> Iterator[tuple[Snapshot, Snapshot | None]]:
    """Both files as they stood when nothing in the store lay outside of the log."""
    for _ in range(TRIES):
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(snapshot(path))
            log = stack.enter_context(snapshot(log_path)) if is_store(log_path) else None
            if log is None or fits(store, log):
                yield store, log
                return
    raise StoreUnavailable(
        "what groups had yet to read was forgotten by the streams each time that both were looked at;"
        " `backstay store check` says whether something is wrong with them"
    )


def fits(store: Snapshot, log: Snapshot) -> bool:
    """Whether every checkpoint in ``store`` that is one of this ``log`` lies within it."""
    if not store.has("checkpoint"):
        return True
    ends = {
        (row[0], row[1], row[2]): (row[3], row[4])
        for row in log.rows(load_queries("backstay.messaging.embedded")["partition_bounds"])
    }
    for stream, identity, partition, checkpoint in store.rows(
        load_queries("backstay.store.sqlite")["lowest_checkpoints"]
    ):
        first, end = ends.get((stream, identity, partition), (None, None))
        if checkpoint is not None and first is not None and not first <= checkpoint <= end:
            return False
    return True
