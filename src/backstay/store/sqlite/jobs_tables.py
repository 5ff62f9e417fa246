"""Collections and jobs as they are found and written through one connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from backstay.domain.instants import micros
from backstay.domain.jobs.records import Collection, CollectionId, CollectionState, JobRecord, JobState
from backstay.store.job_changes import armed_at, collection_of
from backstay.store.job_rows import JOB_WIDTH, Found, Kept, collection_values, place_values
from backstay.store.jobs import CollectionSeen, DueJob, JobSeen
from backstay.store.rows import as_json
from backstay.store.sqlite.jobs_moving import SHAPE
from backstay.store.sqlite.tables import Tables

_NO_LIMIT = -1  # As SQLite says it.


# Finding


def find_collection(tables: Tables, id: CollectionId) -> Found | None:
    row = tables.run("find_collection", **place_values(id)).fetchone()
    return None if row is None else SHAPE.found(row)


def found_collection(tables: Tables, id: CollectionId) -> Found:
    """Raises UnknownCollection."""
    return collection_of(id, find_collection(tables, id))


def collection_seen(tables: Tables, id: CollectionId, found: Found | None) -> CollectionSeen:
    key = None if found is None else found.key
    others = tables.run("count_collections", subscription=id.folded[0], key=key).fetchall()
    return CollectionSeen(
        collection=None if found is None else found.collection,
        jobs=[] if key is None else list_jobs(tables, key, state=None, skip=0, limit=_NO_LIMIT),
        others=dict(others),
    )


def find_job(tables: Tables, collection_key: int, name: str) -> Kept | None:
    row = tables.run("find_job", collection_key=collection_key, name=name.casefold()).fetchone()
    return None if row is None else SHAPE.kept(row)


def job_seen(tables: Tables, collection: CollectionId, name: str) -> tuple[int, JobSeen]:
    """With the key of its collection. Raises UnknownCollection."""
    key, there = found_collection(tables, collection)
    kept = find_job(tables, key, name)
    [count] = tables.run("count_jobs", collection_key=key).fetchone()
    job = None if kept is None else with_secrets(tables, kept.job)
    return key, JobSeen(collection=there, job=job, jobs=count)


def list_jobs(
    tables: Tables, collection_key: int, *, state: JobState | None, skip: int, limit: int
) -> list[JobRecord]:
    wanted = {"collection_key": collection_key, "state": state, "skip": skip, "limit": limit}
    return [SHAPE.kept(row).job for row in tables.run("list_jobs", **wanted).fetchall()]


def list_due(tables: Tables, now: datetime, *, limit: int) -> list[DueJob]:
    return [
        DueJob(
            job=SHAPE.kept(row[:JOB_WIDTH]).job,
            collection=SHAPE.found(row[JOB_WIDTH:-1]).collection,
            at_work=row[-1],
        )
        for row in tables.run("list_due", now=micros(now), limit=limit).fetchall()
    ]


def secrets_of(tables: Tables, job_key: int, uid: str) -> dict[str, str]:
    return dict(tables.run("secrets_of", job_key=job_key, uid=uid).fetchall())


def with_secrets(tables: Tables, job: JobRecord) -> JobRecord:
    return replace(job, secrets=secrets_of(tables, job.key, job.uid))


# Writing


def write_collection(tables: Tables, found: Found | None, after: Collection) -> None:
    values = collection_values(after)
    if found is None:
        tables.run("insert_collection", **values)
        return
    tables.run("update_collection", key=found.key, **values)
    if after.state is not found.collection.state:
        is_enabled = after.state is CollectionState.ENABLED
        tables.run("arm_jobs", collection_key=found.key, armed=is_enabled)


def write_job(
    tables: Tables, collection_key: int, seen: JobSeen, after: JobRecord, now: datetime
) -> JobRecord:
    """The job as it is there then, without its secrets."""
    values = SHAPE.job_values(after, armed_at=armed_at(after, seen.collection), now=now)
    if seen.job is None:
        [key] = tables.run("insert_job", collection_key=collection_key, **values).fetchone()
        after = replace(after, key=key)
    else:
        tables.run("update_job", **values)
    if after.secrets != (seen.job.secrets if seen.job else {}):
        tables.run("delete_secrets", keys=as_json([after.key]))
        tables.run("insert_secrets", job_key=after.key, secrets=as_json(after.secrets))
    return replace(after, secrets={})


def delete_jobs(tables: Tables, keys: Sequence[int]) -> None:
    if keys:
        for query in ("leave_history", "delete_secrets", "delete_job_tasks", "delete_jobs"):
            tables.run(query, keys=as_json(keys))


def prune_entries(tables: Tables, before: int, *, limit: int) -> int:
    """Delete entries that are older; how many that were."""
    rows = tables.run("prune_history", started_before=before, limit=limit).fetchall()
    counts = Counter(job_key for (job_key,) in rows)
    tables.run("count_down", counts=as_json([*counts.items()]))
    return len(rows)
