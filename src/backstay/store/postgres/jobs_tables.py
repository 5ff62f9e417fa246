"""Collections and jobs as they are found and written through one connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from backstay.domain.jobs.records import Collection, CollectionId, CollectionState, JobRecord, JobState
from backstay.store.job_changes import armed_at, collection_of
from backstay.store.job_rows import JOB_WIDTH, Found, Kept, collection_values, place_values
from backstay.store.jobs import CollectionSeen, DueJob, JobSeen
from backstay.store.postgres.jobs_moving import SHAPE
from backstay.store.postgres.tables import Tables

# Finding. With ``lock`` what is found stays as it is until the commit.


async def find_collection(tables: Tables, id: CollectionId, *, lock: bool = False) -> Found | None:
    rows = await tables.run("lock_collection" if lock else "find_collection", **place_values(id))
    return SHAPE.found(rows[0]) if rows else None


async def found_collection(tables: Tables, id: CollectionId, *, lock: bool = False) -> Found:
    """Raises UnknownCollection."""
    return collection_of(id, await find_collection(tables, id, lock=lock))


async def collection_seen(tables: Tables, id: CollectionId, found: Found | None) -> CollectionSeen:
    key = None if found is None else found.key
    others = await tables.run("count_collections", subscription=id.folded[0], key=key)
    return CollectionSeen(
        collection=None if found is None else found.collection,
        jobs=[] if key is None else await list_jobs(tables, key, state=None, skip=0, limit=None),
        others={row[0]: row[1] for row in others},
    )


async def find_job(tables: Tables, collection_key: int, name: str, *, lock: bool = False) -> Kept | None:
    query = "lock_job" if lock else "find_job"
    rows = await tables.run(query, collection_key=collection_key, name=name.casefold())
    return SHAPE.kept(rows[0]) if rows else None


async def job_seen(tables: Tables, collection: CollectionId, name: str) -> tuple[int, JobSeen]:
    """With the key of its collection; locked. Raises UnknownCollection."""
    key, there = await found_collection(tables, collection, lock=True)
    kept = await find_job(tables, key, name, lock=True)
    [[count]] = await tables.run("count_jobs", collection_key=key)
    job = None if kept is None else await with_secrets(tables, kept.job)
    return key, JobSeen(collection=there, job=job, jobs=count)


async def list_jobs(
    tables: Tables, collection_key: int, *, state: JobState | None, skip: int, limit: int | None
) -> list[JobRecord]:
    wanted = {"collection_key": collection_key, "state": state, "skip": skip, "limit": limit}
    return [SHAPE.kept(row).job for row in await tables.run("list_jobs", **wanted)]


async def list_due(tables: Tables, now: datetime, *, limit: int) -> list[DueJob]:
    return [
        DueJob(
            job=SHAPE.kept(row[:JOB_WIDTH]).job,
            collection=SHAPE.found(row[JOB_WIDTH:-1]).collection,
            at_work=row[-1],
        )
        for row in await tables.run("list_due", now=now, limit=limit)
    ]


async def secrets_of(tables: Tables, job_key: int, uid: str) -> dict[str, str]:
    return {row[0]: row[1] for row in await tables.run("secrets_of", job_key=job_key, uid=uid)}


async def with_secrets(tables: Tables, job: JobRecord) -> JobRecord:
    return replace(job, secrets=await secrets_of(tables, job.key, job.uid))


# Writing


async def write_collection(tables: Tables, found: Found | None, after: Collection) -> None:
    values = collection_values(after)
    if found is None:
        await tables.run("insert_collection", **values)
        return
    await tables.run("update_collection", key=found.key, **values)
    if after.state is not found.collection.state:
        is_enabled = after.state is CollectionState.ENABLED
        await tables.run("arm_jobs", collection_key=found.key, armed=is_enabled)


async def write_job(
    tables: Tables, collection_key: int, seen: JobSeen, after: JobRecord, now: datetime
) -> JobRecord:
    """The job as it is there then, without its secrets."""
    values = SHAPE.job_values(after, armed_at=armed_at(after, seen.collection), now=now)
    if seen.job is None:
        [[key]] = await tables.run("insert_job", collection_key=collection_key, **values)
        after = replace(after, key=key)
    else:
        await tables.run("update_job", **values)
    if after.secrets != (seen.job.secrets if seen.job else {}):
        await tables.run("delete_secrets", keys=[after.key])
        secrets = [(after.key, place, secret) for place, secret in after.secrets.items()]
        await tables.run_rows("insert_secrets", secrets)
    return replace(after, secrets={})


async def delete_jobs(tables: Tables, keys: Sequence[int]) -> None:
    if keys:
        for query in ("leave_history", "delete_secrets", "delete_job_tasks", "delete_jobs"):
            await tables.run(query, keys=keys)


async def prune_entries(tables: Tables, before: datetime, *, limit: int) -> int:
    """Delete entries that are older; how many that were."""
    rows = await tables.run("prune_history", started_before=before, limit=limit)
    await tables.run_rows("count_down", Counter(row[0] for row in rows).items())
    return len(rows)
