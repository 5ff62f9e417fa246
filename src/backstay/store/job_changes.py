"""What decisions about collections and jobs come to, whatever the database."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from backstay.domain.jobs.outcomes import finished
from backstay.domain.jobs.records import (
    Collection,
    CollectionId,
    CollectionState,
    JobRecord,
    JobState,
)
from backstay.errors import UnknownCollection, UnknownJob
from backstay.store.job_rows import Found, Kept


def collection_of(id: CollectionId, found: Found | None) -> Found:
    if found is None:
        raise UnknownCollection(id.resource_group, id.name)
    return found


def job_of(collection: CollectionId, name: str, kept: Kept | None) -> Kept:
    if kept is None:
        raise UnknownJob(collection.name, name)
    return kept


def decided_collection(id: CollectionId, before: Collection | None, decided: Collection) -> Collection:
    """What is to be written: whatever was decided, a collection stays where it is, in its first spelling."""
    return replace(decided, id=id if before is None else before.id)


def decided_job(collection: Collection, name: str, before: JobRecord | None, decided: JobRecord) -> JobRecord:
    """The same for a job."""
    key, spelling = (0, name) if before is None else (before.key, before.name)
    return finished(replace(decided, key=key, collection=collection.id, name=spelling))


def armed_at(job: JobRecord, collection: Collection) -> datetime | None:
    """When a job is due, of which nothing is put off."""
    is_enabled = job.state is JobState.ENABLED and collection.state is CollectionState.ENABLED
    return job.next_at if is_enabled else None
