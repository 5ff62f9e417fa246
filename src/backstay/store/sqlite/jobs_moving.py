"""Jobs that fire, and what became of it, within a commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from backstay.domain.instants import instant, micros
from backstay.domain.jobs.outcomes import abandoned
from backstay.domain.task import NewTask
from backstay.store.base import Changes
from backstay.store.firing import Firings, has_new
from backstay.store.job_rows import JobShape, Kept
from backstay.store.recording import Asked, Recording
from backstay.store.rows import Row, as_json
from backstay.store.sqlite.entering import enter_tasks
from backstay.store.sqlite.tables import Tables

SHAPE: Final = JobShape(stored=micros, instant=instant, flag=int)


def write_firings(tables: Tables, changes: Changes, firings: Firings) -> list[bool]:
    """All of them, or nothing: raises why a task cannot be entered."""
    if firings.compare(_kept(tables, firings.keys)):
        put_standings(tables, firings.standings, firings.now)
        insert_entries(tables, firings.gaps)
        tables.put_alerts(firings.alerts)
        cut_histories(tables, firings.excess)
        enter_occurrences(tables, changes, firings.job_tasks, firings.tasks)
    return firings.answers


def write_attempts(tables: Tables, asked: Sequence[tuple[Asked, datetime]]) -> list[bool]:
    recording = Recording(asked, SHAPE)
    rows = recording.rows(_kept(tables, recording.keys))
    if recording.entered(insert_entries(tables, rows)):
        put_standings(tables, recording.standings, recording.now)
        cut_histories(tables, recording.excess)
    return recording.answers


def end_stranded(tables: Tables, now: datetime, *, limit: int) -> int:
    found = [SHAPE.kept(row) for row in tables.run("stranded_jobs", limit=limit).fetchall()]
    put_standings(tables, [SHAPE.standing_row(one._replace(job=abandoned(one.job))) for one in found], now)
    return len(found)


def enter_occurrences(
    tables: Tables, changes: Changes, job_tasks: Sequence[Row], tasks: Sequence[tuple[NewTask, datetime]]
) -> bool:
    """Enter tasks of jobs; whether there is a new one. Raises why one cannot be entered."""
    if not tasks:
        return False
    is_new = has_new(enter_tasks(tables, changes, tasks))
    changes.claimable = changes.claimable or is_new
    tables.run("forget_settled", keys=as_json([key for key, _ in job_tasks]))
    tables.run("insert_job_tasks", tasks=as_json(job_tasks))
    return is_new


def put_standings(tables: Tables, standings: Sequence[Row], now: datetime) -> None:
    tables.run("put_standings", standings=as_json(standings), now=micros(now))


def insert_entries(tables: Tables, entries: Sequence[Row]) -> list[Row]:
    """What makes each the one that it is, of those that are new."""
    return tables.run("insert_history", entries=as_json(entries)).fetchall() if entries else []


def cut_histories(tables: Tables, excess: Sequence[tuple[int, int]]) -> None:
    if excess:
        tables.run_many("cut_history", excess)


def _kept(tables: Tables, keys: Sequence[int]) -> list[Kept]:
    return [SHAPE.kept(row) for row in tables.run("jobs_by_key", keys=as_json(keys)).fetchall()]
