"""Jobs that fire, and what became of it, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from backstay.domain.jobs.outcomes import abandoned
from backstay.domain.task import NewTask
from backstay.store.base import Changes, Submitted
from backstay.store.firing import Firings, has_new
from backstay.store.job_rows import JobShape, Kept
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.submissions import enter_tasks
from backstay.store.postgres.tables import Tables
from backstay.store.recording import Asked, Recording
from backstay.store.rows import Row

SHAPE: Final = JobShape(stored=lambda instant: instant, instant=lambda stored: stored)


async def write_firings(tables: Tables, changes: Changes, statuses: Statuses, firings: Firings) -> list[bool]:
    """All of them, or nothing: raises why a task cannot be entered."""
    found = await tables.run("jobs_at_hand", keys=firings.keys)
    if firings.compare(_kept(found)):
        await _put_standings(tables, firings.standings, firings.now)
        await tables.run_rows("insert_history", firings.gaps)
        await tables.put_alerts(firings.alerts)
        await tables.run_rows("cut_history", firings.excess)
        await enter_occurrences(tables, changes, statuses, firings.job_tasks, firings.tasks)
    return firings.answers


async def write_attempts(tables: Tables, asked: Sequence[tuple[Asked, datetime]]) -> list[bool]:
    recording = Recording(asked, SHAPE)
    rows = recording.rows(_kept(await tables.run("jobs_by_key", keys=recording.keys)))
    if recording.entered(await tables.run_rows("insert_history", rows)):
        await _put_standings(tables, recording.standings, recording.now)
        await tables.run_rows("cut_history", recording.excess)
    return recording.answers


async def end_stranded(tables: Tables, now: datetime, *, limit: int) -> int:
    found = _kept(await tables.run("stranded_jobs", limit=limit))
    rows = [SHAPE.standing_row(one._replace(job=abandoned(one.job))) for one in found]
    await _put_standings(tables, rows, now)
    return len(found)


async def enter_occurrences(
    tables: Tables,
    changes: Changes,
    statuses: Statuses,
    job_tasks: Sequence[Row],
    tasks: Sequence[tuple[NewTask, datetime]],
) -> bool:
    """Enter tasks of jobs; whether there is a new one. Raises why one cannot be entered."""
    if not tasks:
        return False
    answers = await enter_tasks(tables, changes, statuses, tasks)
    is_new = has_new(one.created if isinstance(one, Submitted) else one for one in answers)
    changes.claimable = changes.claimable or is_new
    await tables.run("forget_settled", keys=[key for key, _ in job_tasks])
    await tables.run_rows("insert_job_tasks", job_tasks)
    return is_new


async def _put_standings(tables: Tables, standings: Sequence[Row], now: datetime) -> None:
    await tables.run_rows("put_standings", [(*row, now) for row in standings])


def _kept(rows: Iterable[Row]) -> list[Kept]:
    return [SHAPE.kept(row) for row in rows]
