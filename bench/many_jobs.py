"""Many jobs in a store on SQLite, made of one in bulk: what is measured is how they are looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final

from backstay.domain.jobs.records import CollectionId, EntryStatus, HistoryEntry, Occurrence
from backstay.runtime import open_store
from backstay.settings import Settings
from backstay.store.jobs import Attempt
from bench.load import in_fresh_loop
from tests.support.jobs import Calendar

#: As many as a collection of the largest SKU holds.
COLLECTION_JOBS: Final = 1_000
#: As long as a history grows.
ENTRIES: Final = 1_000
#: The collection, and the job in it, of which the others are copies.
COLLECTION: Final = "first"
JOB: Final = "job"

_WORKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday"]
_PROPERTIES: Final[Mapping[str, Any]] = {
    "startTime": "2100-01-01",
    "action": {"type": "Http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}},
    "recurrence": {
        "frequency": "week",
        "schedule": {"weekDays": _WORKDAYS, "hours": [5], "minutes": [0, 30]},
    },
}
_NUMBERS: Final = (
    "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :times)"
)


def fill_with_jobs(url: str, jobs: int) -> None:
    """So many jobs in full collections, one of which has a full history."""
    in_fresh_loop(_one(url))
    within = min(jobs, COLLECTION_JOBS)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        _copy(connection, "job", within - 1, name="'j' || n", name_folded="'j' || n", uid="'u' || n")
        others = -(-jobs // COLLECTION_JOBS) - 1
        _copy(connection, "job_collection", others, name="'c' || n", name_folded="'c' || n")
        rest = [name for name in _columns(connection, "job") if name not in ("collection_key", "uid")]
        kept = ", ".join(f"job.{name}" for name in rest)
        connection.execute(
            f"INSERT INTO job (collection_key, uid, {', '.join(rest)})"
            f" SELECT collection.key, job.uid || '-' || collection.key, {kept}"
            " FROM job_collection AS collection CROSS JOIN job WHERE collection.name <> ?",
            (COLLECTION,),
        )
        _copy(connection, "job_history", ENTRIES - 1, started_at="started_at - n", at="at - n")


async def _one(url: str) -> None:
    """One collection with one job in it, which was tried once."""
    store, now = open_store(Settings(store=url)), datetime.now(UTC)
    await store.open()
    calendar = Calendar(store, CollectionId("default", "default", COLLECTION))
    await calendar.open(now)
    job = await calendar.put(JOB, _PROPERTIES, now=now)
    occurrence = Occurrence(job_key=job.key, uid=job.uid, generation=job.generation, at=now, number=1)
    entry = HistoryEntry(
        status=EntryStatus.COMPLETED, expected_at=now, started_at=now, ended_at=now, message="OK " * 100
    )
    await store.jobs.record([Attempt(occurrence=occurrence, entry=entry)], now=now)
    await store.close()


def _copy(connection: sqlite3.Connection, table: str, times: int, **others: str) -> None:
    """Every row of a table so many times more, with other values in these columns."""
    if times < 1:
        return
    columns = _columns(connection, table)
    names, values = ", ".join(columns), ", ".join(others.get(name, name) for name in columns)
    connection.execute(
        f"{_NUMBERS} INSERT INTO {table} ({names}) SELECT {values} FROM {table} CROSS JOIN number",
        {"times": times},
    )


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """All but the key, which is the store's own."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return [name for (name,) in found if name not in ("key", "number")]
